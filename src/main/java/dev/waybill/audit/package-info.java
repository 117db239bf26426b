/**
 * The log of what operators did: who, what, when, to which jobs, how many. Promises that a line is
 * there exactly when its act is, and that no line is ever changed. Policies, limits and tokens are
 * logged by triggers on their tables. Enters no other room.
 */
@NullMarked
package dev.waybill.audit;

import org.jspecify.annotations.NullMarked;
