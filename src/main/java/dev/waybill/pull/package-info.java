/**
 * Leases for workers elsewhere, who ask for jobs and wait. Promises that a waiting poll costs no
 * connection and no platform thread, that any number of them costs as many queries as one, that
 * each job has a token of its own that only its holder knows, and that what was claimed for
 * somebody who is gone goes back with its attempt. Enters {@code job}, {@code db}, {@code policy},
 * {@code claim} and {@code settle}.
 */
@NullMarked
package dev.waybill.pull;

import org.jspecify.annotations.NullMarked;
