/**
 * Ending attempts: outcomes are collected for a few milliseconds and written in one statement for
 * each kind of outcome, fenced by token. Promises that an outcome is written at most once and only
 * by the holder of the lease, and that one which the database could not take is tried again while
 * the lease lasts. Enters {@code job}, {@code db} and {@code policy}.
 */
@NullMarked
package dev.waybill.settle;

import org.jspecify.annotations.NullMarked;
