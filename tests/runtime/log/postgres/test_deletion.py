"""The removal of sessions: large values go with the last session that has them, also in a race."""

import pytest

from callboard.runtime.log.postgres import deletion
from tests.postgres_server import execute
from tests.runtime.log.kit import added, events, large, run
from tests.runtime.log.postgres.places import OnServer


def counts(place: OnServer) -> list[int]:
    """Return the numbers of events, large values, uses and pending removals."""
    tables = ("events", "blobs", "uses", "removals")
    return [execute(f"SELECT count(*) FROM {place.schema}.{name}")[0][0] for name in tables]


def test_a_removal_in_steps_leaves_nothing_of_its_session_and_all_of_the_others(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "EVENTS_MAX", 3)

    async def work() -> None:
        log = place.log()
        await log.open()
        for name in "ab":
            await log.create(name, 1, "")
            await added(log, name, 1, [*events(1, 5), large(6), large(7, 4_000, name), *events(8, 9)])
        assert counts(place) == [18, 3, 4, 0]
        await log.delete("a")
        assert counts(place) == [18, 3, 4, 1]
        steps = [await log.purge() for _ in range(4)]
        assert steps == [True, True, True, False]
        assert counts(place) == [9, 2, 2, 0]
        await log.close()

    run(work)


def test_a_value_that_an_append_has_used_meanwhile_stays(place: OnServer) -> None:
    """Let another process use the value again between the two deletes of a step."""
    posted = [large(1, 4_000)]

    async def work() -> None:
        log, other = place.log(), place.log()
        await log.open()
        await other.open()
        await log.create("a", 1, "")
        await added(log, "a", 1, posted)
        await log.delete("a")
        await other.create("b", 1, "")
        execute("BEGIN")
        try:
            # The row of the value is locked as by an append that is not committed yet.
            execute(f"SELECT * FROM {place.schema}.blobs FOR KEY SHARE")
            number = f"(SELECT id FROM {place.schema}.sessions)"
            execute(f"INSERT INTO {place.schema}.uses SELECT digest, {number} FROM {place.schema}.blobs")
        finally:
            execute("COMMIT")
        while await log.purge():
            pass
        assert counts(place) == [0, 1, 1, 0]
        # The log that has sent the value before sends it again, where it is gone.
        execute(f"DELETE FROM {place.schema}.uses; DELETE FROM {place.schema}.blobs")
        log._held.memory.blobs.update({b"x" * 32})  # type: ignore[union-attr]  # it is open
        await added(log, "b", 1, posted)
        execute(f"DELETE FROM {place.schema}.uses; DELETE FROM {place.schema}.blobs")
        await added(log, "b", 1, [large(2, 4_000)])
        assert counts(place) == [2, 1, 1, 0]
        await log.close()
        await other.close()

    run(work)
