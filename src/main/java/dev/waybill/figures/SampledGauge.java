package dev.waybill.figures;

import org.jspecify.annotations.Nullable;

/**
 * One value that metrics tell.
 *
 * @param name without the prefix {@code waybill_}
 * @param label what {@code of} is, or empty: the gauge has no label
 * @param state a second label of this name; null: none
 */
public record SampledGauge(
    String name, String label, String of, @Nullable String state, double value) {}
