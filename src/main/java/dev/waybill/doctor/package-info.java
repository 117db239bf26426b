/**
 * Looks at a database and says what is wrong with it and how to mend it; changes nothing, and needs
 * no running service. Enters {@code job}, {@code db} and {@code figures}; only the root enters it.
 */
@NullMarked
package dev.waybill.doctor;

import org.jspecify.annotations.NullMarked;
