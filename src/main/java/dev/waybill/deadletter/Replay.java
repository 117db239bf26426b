package dev.waybill.deadletter;

import java.time.OffsetDateTime;
import org.jspecify.annotations.Nullable;

/**
 * A replay and how far it is.
 *
 * @param state running, done or stopped
 * @param matched how many there were when it began, counted up to {@link Replays#COUNT_MAX}
 * @param matchedMore there were more than that
 * @param skippedDedupe stayed dead: a live job has the dedupe key
 * @param skippedBusy somebody else had it in hand: another replay, a deletion
 */
public record Replay(
    long id,
    String state,
    String who,
    OffsetDateTime createdAt,
    @Nullable OffsetDateTime endedAt,
    double ratePerSecond,
    DeadFilter filter,
    long matched,
    boolean matchedMore,
    long returned,
    long skippedDedupe,
    long skippedBusy) {}
