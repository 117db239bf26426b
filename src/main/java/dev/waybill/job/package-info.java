/**
 * The vocabulary: what a claimed job is, how an attempt may end, how long to wait. Plain values
 * that every room may use; this room enters no other.
 */
@NullMarked
package dev.waybill.job;

import org.jspecify.annotations.NullMarked;
