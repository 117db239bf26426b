/**
 * Policies of kinds: kept in the database, cached here, changed without a restart. Enters {@code
 * job} and {@code db}.
 */
@NullMarked
package dev.waybill.policy;

import org.jspecify.annotations.NullMarked;
