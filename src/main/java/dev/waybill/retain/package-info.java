/**
 * Keeping house: gives jobs of vanished holders back (reaper), makes partitions ahead and drops
 * those past retention, archives what asks for it, sums up the tally. Everything here may run on
 * many pods at once. Enters {@code job}, {@code db}, {@code policy} and {@code claim}.
 */
@NullMarked
package dev.waybill.retain;

import org.jspecify.annotations.NullMarked;
