/**
 * Alerts on dead letters: on sudden growth and once a day, by kind and fingerprint, to the log and
 * to a webhook. Promises that one growth is told once, however many processes look, and that no
 * payload and no error text is in what is told. Enters {@code db} and {@code deliver}.
 */
@NullMarked
package dev.waybill.alert;

import org.jspecify.annotations.NullMarked;
