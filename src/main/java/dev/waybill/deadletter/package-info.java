/**
 * Dead letters: lists and groups that stay fast with millions of them, return of one, replay of
 * many at a rate, deletion. A replay belongs to the database: any process moves its next slice,
 * slice and progress commit together, and no job is returned twice by one replay. Every act of an
 * operator leaves its line in the log. Enters {@code job}, {@code db} and {@code audit}.
 */
@NullMarked
package dev.waybill.deadletter;

import org.jspecify.annotations.NullMarked;
