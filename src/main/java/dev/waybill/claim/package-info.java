/**
 * Getting and keeping jobs: finds what is ready (sweep), takes it (claim), keeps it (leases).
 * Promises that no two holders have a valid token for one job, that no more is taken than was asked
 * for, and that one tenant's backlog does not stand before another's. Enters {@code job}, {@code
 * db} and {@code policy}.
 */
@NullMarked
package dev.waybill.claim;

import org.jspecify.annotations.NullMarked;
