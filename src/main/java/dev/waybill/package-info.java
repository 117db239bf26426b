/**
 * The entrance: starts the service and stops it. The rooms are the packages below;
 * docs/ARCHITECTURE.md has the tour.
 */
@NullMarked
package dev.waybill;

import org.jspecify.annotations.NullMarked;
