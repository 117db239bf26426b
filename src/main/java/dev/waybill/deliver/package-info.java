/**
 * Push: posts the jobs of a kind to a URL, signed as Standard Webhooks says. Promises that it
 * connects only where it may: to a host of the allowlist, at an address that was checked, and to
 * that very address. A target that is down holds neither slots nor attempts. {@link
 * dev.waybill.deliver.Webhook} posts what is no job to where the operator says. Enters {@code job},
 * {@code policy}, {@code run} and {@code trace}.
 */
@NullMarked
package dev.waybill.deliver;

import org.jspecify.annotations.NullMarked;
