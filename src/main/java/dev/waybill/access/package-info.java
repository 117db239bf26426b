/**
 * Who asks, and what they may do. Every operation of the HTTP door says which roles it is for
 * ({@link dev.waybill.access.Allowed}); one that says nothing is for nobody. A caller may be bound
 * to a tenant and to kinds, which is applied in SQL ({@code waybill.visible}): what is not the
 * caller's is not there, so it answers 404 and not 403. Enters {@code db}.
 */
@NullMarked
package dev.waybill.access;

import org.jspecify.annotations.NullMarked;
