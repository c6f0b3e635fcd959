import gc
import io
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import callboard.replay
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.errors import CorruptLog, SessionNotFound, StoreError, UnknownName
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.usage import ZERO
from callboard.replay.recording import Recording, sessions
from callboard.replay.testing.run import Bounds, perform
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.world import Worlds
from callboard.replay.testing.world import Move
from callboard.runtime.log import hash_chain
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Head
from tests.cli.conftest import recorded as recorded  # the fixture
from tests.cli.recorded import diverging
from tests.golden import stored
from tests.mutants.campaign import without_faults
from tests.mutants.scenarios_programs import PROGRAMS
from tests.replay.logs import crashed, survey
from tests.tables import table


class Watched(MemoryReader):
    """A reader that counts the rows it hands out, checked and not."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.rows = 0
        self.largest = 0

    def events(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Any]:
        return self._counted(super().events(session_id, start, limit))

    def events_of(self, *arguments: Any, **named: Any) -> list[Any]:
        return self._counted(super().events_of(*arguments, **named))

    def checked_pages(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        return map(self._counted, super().checked_pages(*arguments, **named))

    def _counted(self, rows: list[Any]) -> list[Any]:
        self.rows += len(rows)
        self.largest = max(self.largest, len(rows))
        return rows


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    return survey()


def tampered() -> MemoryLog:
    """Return the survey with another time in event 3 than its digest covers."""
    log = survey()
    tamper(log, "one", 3)
    return log


def tamper(log: MemoryLog, session_id: str, seq: int) -> None:
    (row,) = MemoryReader(log)._own_rows(session_id, seq, 1)
    log._sessions[session_id].rows[seq - 1] = msgspec.msgpack.encode(replace(row, at=1))


# --- reading -------------------------------------------------------------------


def test_opening_reads_no_event(log: MemoryLog) -> None:
    reader = Watched(log)
    recording = Recording.open(reader)
    assert len(recording.events) == len(recording.rows) == recording.head.seq > 20
    assert reader.rows == 0


def test_a_state_reads_its_own_actors_events_only(log: MemoryLog) -> None:
    reader = Watched(log)
    recording = Recording.open(reader)
    recording.state(recording.head.seq, "host.1")
    own = [row for row in MemoryReader(log).events("one") if "host.1" in (row.sender, row.recipient)]
    assert reader.rows == len(own) + 1 < recording.head.seq / 2  # and the first event, for its rules


@pytest.mark.parametrize(
    "read", [Recording.verify, Recording.tree, Recording.check, lambda one: one.export("jsonl", io.BytesIO())]
)
def test_a_whole_session_is_read_once_and_page_by_page(
    log: MemoryLog, read: Callable[[Recording], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_chain, "PAGE_EVENTS", 5)
    reader = Watched(log)
    recording = Recording.open(reader)
    read(recording)
    assert (reader.rows, reader.largest) == (recording.head.seq, 5)


def test_events_are_a_sequence(log: MemoryLog) -> None:
    events = Recording.open(MemoryReader(log)).events
    whole = list(events)
    assert [events[place] for place in range(len(events))] == whole
    assert events[-1] == whole[-1]
    for part in (slice(None), slice(3), slice(2, 7), slice(-4, None), slice(9, 3), slice(0, 9, 3)):
        assert events[part] == whole[part]
    with pytest.raises(IndexError):
        events[len(events)]


def test_events_behind_the_head_do_not_belong_to_the_recording(log: MemoryLog) -> None:
    recording = Recording.open(MemoryReader(log))
    cut = Recording.open(MemoryReader(log))
    cut._source.head = Head(9, recording.rows[8].digest)
    assert [event.seq for event in cut.events] == list(range(1, 10))


# --- checking ----------------------------------------------------------------


@table(
    "read",
    [
        Recording.check,
        Recording.verify,
        Recording.tree,
        lambda one: one.states(3),
        lambda one: list(one.rows),
        lambda one: one.events[:3],
        lambda one: one.export("jsonl", io.BytesIO()),
    ],
)
def test_reading_from_the_first_event_on_checks_digests(read: Callable[[Recording], object]) -> None:
    recording = Recording.open(MemoryReader(tampered()))
    with pytest.raises(CorruptLog, match="event 3 does not match its digest"):
        read(recording)


def test_reading_before_the_damage_and_by_inbox_works() -> None:
    recording = Recording.open(MemoryReader(tampered()))
    assert len(recording.events[:2]) == 2
    assert set(recording.states(2)) == {"supervisor"}
    assert recording.state(recording.head.seq, "host") is not None
    assert recording.event(3).at == 1


def test_the_events_before_one_that_cannot_be_read_are_read(log: MemoryLog) -> None:
    recording = Recording.open(MemoryReader(log))
    rows = [replace(row, body=b"{}") if row.seq == 8 else row for row in recording.rows]
    events = iter(recording._source.events(rows))
    assert list(islice(events, 7)) == recording.events[:7]
    with pytest.raises(CorruptLog, match="event 8: not a message"):
        next(events)


def test_a_head_that_the_log_no_longer_has_is_refused_at_once(log: MemoryLog) -> None:
    reader = MemoryReader(log)
    head = reader.head("one")
    assert Recording.open(reader, head=head).check() == head
    with pytest.raises(CorruptLog, match="is missing"):
        Recording.open(reader, head=Head(head.seq + 1, head.digest))
    with pytest.raises(CorruptLog, match="not the one that was acknowledged"):
        Recording.open(reader, head=Head(3, head.digest))


def test_a_corrupt_log_is_reported_before_a_divergence() -> None:
    log = stored(diverging(list(Recording.open(MemoryReader(survey())).events)))
    divergence = Recording.open(MemoryReader(log)).verify().divergence
    assert divergence is not None
    assert divergence.seq == 4
    tamper(log, "golden", 20)
    with pytest.raises(CorruptLog, match="event 20 does not match its digest"):
        Recording.open(MemoryReader(log)).verify()


# --- results ------------------------------------------------------------------


def test_a_recorded_failure_verifies_with_code_that_no_longer_raises() -> None:
    recording = Recording.open(MemoryReader(crashed()))
    assert "DeciderFailed" in [event.kind for event in recording.events]
    assert recording.verify().is_ok


def test_a_request_is_found_by_its_turn_its_grant_and_its_reply(log: MemoryLog) -> None:
    recording = Recording.open(MemoryReader(log))
    asked = [event for event in recording.events if isinstance(event.body, TurnRequested)]
    grants = [event for event in recording.events if isinstance(event.body, CallModel)]
    replies = [event for event in recording.events if isinstance(event.body, ModelReplied)]
    assert len(asked) == len(grants) == len(replies) == 4
    for turn in asked:
        body = turn.body
        assert isinstance(body, TurnRequested)
        request = recording.request(turn.seq)
        assert (request.address, request.turn, request.digest) == (turn.sender, body.turn, body.digest)
    by_grant = [bytes(recording.request(grant.seq).body()) for grant in grants]
    assert [bytes(recording.request(reply.seq).body()) for reply in replies] == by_grant
    assert {bytes(recording.request(turn.seq).body()) for turn in asked} == set(by_grant)


def test_a_turn_that_was_never_granted_says_so(log: MemoryLog) -> None:
    recording = Recording.open(MemoryReader(log))
    first = next(event for event in recording.events if isinstance(event.body, TurnRequested))
    recording._source.head = Head(first.seq, b"")
    with pytest.raises(UnknownName, match="never granted"):
        recording.request(first.seq)


def test_an_event_without_a_request_names_those_that_have_one(log: MemoryLog) -> None:
    recording = Recording.open(MemoryReader(log))
    seq = next(event.seq for event in recording.events if isinstance(event.body, Ask))
    said = f"event {seq}, Ask, belongs to no model call; the first of those: 5, "
    with pytest.raises(UnknownName, match=said):
        recording.request(seq)


def test_an_unknown_event_or_actor_is_named_with_those_there_are(log: MemoryLog) -> None:
    recording = Recording.open(MemoryReader(log))
    for at in (0, recording.head.seq + 1):
        with pytest.raises(UnknownName, match=f"events 1 to {recording.head.seq}; there is no {at}"):
            recording.tree(at)
    for actor in ("host.7", "model", "nonsense"):
        with pytest.raises(UnknownName, match=r"there are: host, host\.1, supervisor"):
            recording.state(recording.head.seq, actor)


# --- the file -----------------------------------------------------------------------


@pytest.fixture
def own(recorded: Path, tmp_path: Path) -> Path:
    path = tmp_path / "own.db"
    path.write_bytes(recorded.read_bytes())
    return path


def test_a_file_is_closed_with_the_recording_or_when_it_is_collected(own: Path) -> None:
    with Recording.open(own) as recording:
        assert recording.tree().nodes
    with pytest.raises(StoreError):
        recording.check()
    kept = Recording.open(own)
    connection = kept._source.reader._connection  # type: ignore[attr-defined]  # it is a reader of SQLite
    del kept
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")


def test_events_keep_the_file_open_while_they_are_used(own: Path) -> None:
    events = Recording.open(own).events
    gc.collect()
    assert len(list(events)) == len(events)


def test_without_an_id_the_newest_session_is_meant(own: Path) -> None:
    assert Recording.open(own).session_id == sessions(own)[0].session_id == "20250103-failed"
    with pytest.raises(SessionNotFound):
        Recording.open(own, "nobody")
    with pytest.raises(SessionNotFound, match="record one"):
        Recording.open(MemoryReader(MemoryLog()))


def test_the_names_of_the_package_are_loaded_when_they_are_used() -> None:
    from callboard.replay import Recording as found

    assert found is Recording
    assert all(getattr(callboard.replay, name) for name in callboard.replay.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        vars(callboard.replay)["__getattr__"]("nonsense")


def late_question() -> Recording:
    """Record a question of which its agent hears only after its program has cancelled it, and has ended."""
    world = Worlds(without_faults(PROGRAMS["whole_requests"]))()

    def choose(offered: Sequence[Move]) -> Move:
        return next((move for move in offered if move.strand != "inbox host.8"), offered[0])

    perform(world, (), choose, choose, Bounds(steps=1_000))
    assert breaches_of(world) == []
    return Recording.open(MemoryReader(stored(world.log, "s")), "s")


def test_a_question_that_begins_after_its_program_has_ended_asks_no_model() -> None:
    recording = late_question()
    call = next(event for event in recording.events if event.kind == "CallModel" and event.sender == "host.8")
    ended = next(event for event in recording.events if event.kind == "Finished" and event.sender == "host")
    assert ended.seq < call.seq
    assert recording.event(call.seq + 1).body == ModelReplied(1, 1, "cancelled", usage=ZERO)
    with pytest.raises(UnknownName, match=f"event {call.seq} asked no model: the program of host.8"):
        recording.request(call.seq)
    assert recording.verify().is_ok
