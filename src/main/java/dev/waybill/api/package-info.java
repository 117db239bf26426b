/**
 * The REST door: wire records, checks of what comes in, errors as problem documents. Decides
 * nothing about jobs: it calls {@code enqueue} and reads. Enters {@code job}, {@code db}, {@code
 * access}, {@code audit}, {@code deadletter}, {@code enqueue}, {@code policy}, {@code pull}, {@code
 * figures} and {@code fleet}.
 */
@NullMarked
package dev.waybill.api;

import org.jspecify.annotations.NullMarked;
