"""The queue before the disk: bounded in bytes, and exact about what it drops."""

from __future__ import annotations

from tb_netdebug.core.eventlog.writer.backlog import Backlog, Extra, PendingPayload, record_bytes
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units


def record(step: int, *, samples: int = 0, summary_bytes: int = 1000) -> StepRecord:
    series = [Series(Kind.WEIGHT, f"layer{number}") for number in range(samples)]
    return StepRecord(step, float(step), {"loss": 1.0}, [Sample(one, bytes(summary_bytes)) for one in series])


def steps(backlog: Backlog) -> list[tuple[int, int]]:
    """(step, number of samples) of all that waits."""
    batch = backlog.take(1 << 40)
    return [(item.step, len(item.samples)) for item in batch.items if isinstance(item, StepRecord)]


def test_the_size_counts_summaries_and_bitmaps() -> None:
    """The estimate grows by exactly the bytes that a sample brings along."""
    small, large = record(1, samples=2, summary_bytes=10), record(1, samples=2, summary_bytes=1010)
    assert 2000 == record_bytes(large) - record_bytes(small)
    large.samples[0].units = Units(64, bytes(8))
    assert 2008 == record_bytes(large) - record_bytes(small)


def test_order_is_kept_and_released_bytes_make_room() -> None:
    """First in, first out; the account is even at the end."""
    backlog = Backlog(1 << 20)
    for step in range(5):
        backlog.put(record(step, samples=1))
    batch = backlog.take(1 << 20)
    assert batch.size == backlog.held_bytes
    backlog.release(batch.size)
    assert ([0, 1, 2, 3, 4], 0) == (
        [item.step for item in batch.items if isinstance(item, StepRecord)],
        backlog.held_bytes,
    )


def test_a_batch_is_cut_at_its_size_but_never_empty() -> None:
    """A record larger than a block goes alone."""
    backlog = Backlog(1 << 20)
    for step in range(3):
        backlog.put(record(step, samples=1, summary_bytes=5000))
    assert [1, 2] == [len(backlog.take(100).items), len(backlog.take(1 << 20).items)]


def test_samples_go_first_and_scalars_last() -> None:
    """The samples of the newest steps are dropped while their scalars still fit; then steps are."""
    backlog = Backlog(100_000)
    for step in range(400):
        backlog.put(record(step, samples=10))
    kept = steps(backlog)
    full, bare = [step for step, samples in kept if samples], [step for step, samples in kept if not samples]
    assert list(range(len(full))) == full
    assert list(range(len(full), len(kept))) == bare
    assert len(bare) > 10 * len(full) > 0
    assert 100_000 >= backlog.held_bytes > 99_000
    assert (400 - len(kept), 10 * (400 - len(full))) == (backlog.dropped.steps, backlog.dropped.samples)
    whole = record_bytes(record(0, samples=10))
    assert 400 * whole == backlog.held_bytes + backlog.dropped.bytes


def test_what_is_given_up_is_counted() -> None:
    """A batch that was taken and all that waits behind it end up in the same account."""
    backlog = Backlog(1 << 20)
    for step in range(5):
        backlog.put(record(step, samples=2))
    backlog.put_extra(Extra(PendingPayload("graph", b"1234", 0.0, keep=False), 4))
    backlog.give_up(backlog.take(3000))
    assert (5, 11, 4) == (backlog.dropped.steps, backlog.dropped.samples, backlog.dropped.last_step)
    assert (0, 5 * record_bytes(record(0, samples=2)) + 4) == (backlog.held_bytes, backlog.dropped.bytes)
