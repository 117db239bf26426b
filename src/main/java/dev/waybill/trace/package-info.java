/**
 * Traces: which spans a job leaves, and how they get to a collector. Promises that nobody waits for
 * it: spans are queued, a full queue drops and counts, and without an endpoint nothing is made.
 * Enters no other room.
 */
@NullMarked
package dev.waybill.trace;

import org.jspecify.annotations.NullMarked;
