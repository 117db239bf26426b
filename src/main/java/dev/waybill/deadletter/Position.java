package dev.waybill.deadletter;

/**
 * A place in the order of dead letters, which is (time of death, id).
 *
 * @param micros since the epoch, as exact as the database keeps it
 */
public record Position(long micros, long id) {}
