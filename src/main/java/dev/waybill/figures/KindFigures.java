package dev.waybill.figures;

import org.jspecify.annotations.Nullable;

/**
 * How it stands with one kind.
 *
 * @param oldestReadySeconds how long the oldest ready job has been ready; null: none is
 * @param rates null where nothing is known of the past yet
 * @param deadLast24h how many died within a day, to a quarter of an hour, whatever became of them
 */
public record KindFigures(
    String kind,
    long scheduled,
    long ready,
    long running,
    @Nullable Double oldestReadySeconds,
    @Nullable Rates rates,
    long dead,
    long deadLast24h) {

  /** Jobs a second, over the last minute or as much of it as is known. */
  public record Rates(double claim, double done, double retry) {}
}
