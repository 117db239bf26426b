/**
 * Running jobs: pools of slots, handlers by kind, time limits, lost leases, drain. Promises that a
 * pool holds no more jobs than it has slots, that a handler whose lease is lost is told, and that a
 * drain burns no attempt. The interfaces for handlers are here. Enters {@code job}, {@code db},
 * {@code policy}, {@code claim}, {@code settle} and {@code trace}.
 */
@NullMarked
package dev.waybill.run;

import org.jspecify.annotations.NullMarked;
