/**
 * The way in from Java: puts jobs into the queue, in the caller's transaction. All limits are the
 * database's, so that no door is wider than another. Enters {@code db}.
 */
@NullMarked
package dev.waybill.enqueue;

import org.jspecify.annotations.NullMarked;
