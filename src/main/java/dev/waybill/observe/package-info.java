/**
 * Figures and health: counts what the other rooms tell, and says whether this process lives and is
 * ready. Enters {@code alert}, {@code job}, {@code db}, {@code figures}, {@code pull}, {@code run},
 * {@code retain}, {@code settle} and {@code trace}; only the root enters it.
 */
@NullMarked
package dev.waybill.observe;

import org.jspecify.annotations.NullMarked;
