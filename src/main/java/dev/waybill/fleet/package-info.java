/**
 * Which processes work here: each says every few seconds that it is there, and who says nothing any
 * more is forgotten. Costs no job anything. Enters {@code db} and {@code run}.
 */
@NullMarked
package dev.waybill.fleet;

import org.jspecify.annotations.NullMarked;
