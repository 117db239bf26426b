/**
 * How it stands with each kind: how many jobs are in which state, how old the oldest is, how fast
 * they move, how long attempts take. Promises that it costs the same however many jobs there are,
 * and that one process samples for all. Enters {@code db} and {@code job}.
 */
@NullMarked
package dev.waybill.figures;

import org.jspecify.annotations.NullMarked;
