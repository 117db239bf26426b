/**
 * Kinds that come with every service, to try it out: {@code echo}, {@code sleep}, {@code fail}.
 * Each shows how a handler is written. Enters {@code job} and {@code run}.
 */
@NullMarked
package dev.waybill.example;

import org.jspecify.annotations.NullMarked;
