/**
 * The REST door: wire records, checks of what comes in, errors as problem documents. Decides
 * nothing about jobs: it calls {@code enqueue} and reads. Enters {@code job}, {@code db}, {@code
 * access}, {@code audit}, {@code deadletter}, {@code enqueue}, {@code figures}, {@code fleet},
 * {@code policy}, {@code pull} and {@code trace}.
 */
@NullMarked
package dev.waybill.api;

import org.jspecify.annotations.NullMarked;
