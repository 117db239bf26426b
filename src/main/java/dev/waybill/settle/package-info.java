/**
 * Ending attempts: outcomes are collected for a few milliseconds and written in one statement for
 * each kind of outcome, fenced by token. Promises that an outcome is written at most once and only
 * by the holder of the lease, that one which the database could not take is tried again until
 * somebody else has the job, and that it keeps no other outcome waiting. Enters {@code job}, {@code
 * db}, {@code policy} and {@code claim}.
 */
@NullMarked
package dev.waybill.settle;

import org.jspecify.annotations.NullMarked;
