"""Proof that verify can fail: every field of every event of a golden log changed, every event deleted and
swapped, with digests that are right. The changes that verify does not see are listed below, with a reason.
"""

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.client_messages import RULES
from callboard.actors.protocol.codec import UnreadableBody, decode, encode
from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import Event
from callboard.replay.divergence import Divergence
from callboard.replay.recording import Recording
from callboard.replay.verify import Verifier
from callboard.runtime.log.memory import MemoryReader
from tests.golden import golden, names_of, recorded, stored
from tests.tables import table

EQUIVALENT_FIELDS = {
    ("ModelReplied", "model"): "recorded for people: no decider reads which model really answered",
    (
        "ModelReplied",
        "stop_reason",
    ): "only max_tokens, pause_turn, refusal and a full context change anything",
    ("ModelReplied", "failure"): "the code and the wish to wait decide; the words are for people, cut or not",
    ("ToolReturned", "trace"): "the traceback is for people: neither a decider nor a model reads it",
    ("Ask", "prompt"): "a host that is asked something else and answers the same: no such answer is computed",
}
"""Fields of inputs whose change no decider has to notice, with the reason."""

LAST_WORDS = {"ModelReplied", "ToolReturned"}
"""What comes back in an agent's last turn enters no request any more; ids and outputs there bind nothing."""

EVERYTHING = golden("everything")


def is_of_the_last_turn(event: Event) -> bool:
    return not any(
        later.sender == event.recipient and later.kind == "TurnRequested" for later in EVERYTHING[event.seq :]
    )


def first(events: list[Event]) -> Divergence | None:
    return Verifier(events).run()


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], object]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    elif isinstance(value, list):
        for place, below in enumerate(value):
            yield from leaves(below, (*path, place))
    else:
        yield path, value


def put(body: dict[str, object], path: tuple[str | int, ...], value: object) -> bytes:
    changed = json.loads(json.dumps(body))
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(changed, separators=(",", ":"), ensure_ascii=False).encode()


def other(value: object) -> list[object]:
    """Return other values to put in place of this one, most of them of its type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, str):
        literals = ["ok", "error", "invalid", "accepted", "late", "cancelled", "answered", "read", "write"]
        return [f"{value}x", *(word for word in literals if word != value)]
    return [None, 1, "x"]


def changes(event: Event) -> Iterator[tuple[str, Event]]:
    """Change one leaf of the event's body at a time; keep the results that decode as a message."""
    body = json.loads(encode(event.body))
    for path, value in leaves(body):
        if path == ("type",):
            continue
        for candidate in other(value):
            if candidate == value:
                continue
            try:
                yield str(path[0]), replace(event, body=decode(put(body, path, candidate)))
            except (UnreadableBody, ValueError):
                continue
            break


@table(("name", "rules"), [(name, rules) for rules in range(1, RULES + 1) for name in names_of(rules)])
def test_golden_logs_replay_to_the_byte(name: str, rules: int) -> None:
    found = recorded(golden(name, rules)).verify()
    assert found.is_ok, "\n".join(found.lines())


@pytest.mark.slow
def test_a_changed_field_of_a_decider_output_is_named_with_its_seq() -> None:
    count = 0
    for event in EVERYTHING:
        if not is_decider(event.sender):
            continue
        for field, changed in changes(event):
            events = [*EVERYTHING]
            events[event.seq - 1] = changed
            found = first(events)
            assert found is not None, f"{event.seq} {event.kind}.{field} went unnoticed"
            assert found.seq == event.seq, f"{event.seq} {event.kind}.{field}: {found.lines()}"
            assert found.field.startswith("body"), found
            count += 1
    assert count > 300


@pytest.mark.slow
def test_a_changed_field_of_an_input_diverges_later_or_is_listed_as_equivalent() -> None:
    unseen: set[tuple[str, str]] = set()
    for event in EVERYTHING:
        if is_decider(event.sender):
            continue
        for field, changed in changes(event):
            events = [*EVERYTHING]
            events[event.seq - 1] = changed
            found = first(events)
            if found is None:
                if not (event.kind in LAST_WORDS and is_of_the_last_turn(event)):
                    unseen.add((event.kind, field))
            else:
                assert found.seq >= event.seq
    assert unseen <= set(EQUIVALENT_FIELDS), unseen - set(EQUIVALENT_FIELDS)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["sender", "recipient", "cause"])
def test_a_changed_envelope_is_found(field: str) -> None:
    for event in EVERYTHING:
        value = {"sender": "host.9", "recipient": "host.9", "cause": event.cause + 1}[field]
        events = [*EVERYTHING]
        events[event.seq - 1] = replace(event, **{field: value})
        found = first(events)
        assert found is not None, f"{event.seq} {event.kind}: {field} went unnoticed"


def test_a_deleted_event_leaves_a_gap_that_is_named() -> None:
    for seq in range(1, len(EVERYTHING)):
        log = stored(EVERYTHING)
        del log._sessions["golden"].rows[seq - 1]
        recording = Recording.open(MemoryReader(log), "golden")
        for read in (Recording.verify, Recording.check, Recording.tree, lambda one: list(one.events)):
            with pytest.raises(CorruptLog) as caught:
                read(recording)
            assert caught.value.seq == seq


def without(seq: int) -> list[Event]:
    """Drop one event from the log and renumber the later ones, so that no gap shows."""
    return [
        replace(e, seq=e.seq - (e.seq > seq), cause=e.cause - (e.cause > seq))
        for e in EVERYTHING
        if e.seq != seq
    ]


@pytest.mark.slow
def test_a_deleted_and_renumbered_output_is_missed_in_its_decision() -> None:
    for event in EVERYTHING[:-1]:  # without its last event a log is a shorter log: only the head tells
        found = first(without(event.seq))
        assert found is not None, f"{event.seq} {event.kind} can be deleted unnoticed"
        if is_decider(event.sender):
            assert found.decision == event.cause, f"{event.seq} {event.kind}: {found.lines()}"


@pytest.mark.slow
def test_swapped_neighbours_are_found() -> None:
    for one, two in pairwise(EVERYTHING):
        events = [*EVERYTHING]
        events[one.seq - 1] = replace(two, seq=one.seq, at=one.at)
        events[two.seq - 1] = replace(one, seq=two.seq, at=two.at)
        found = first(events)
        if found is None:
            assert is_unconnected(one), (one.kind, two.kind)
            assert is_unconnected(two), (one.kind, two.kind)
        else:
            assert found.seq >= one.seq


def is_unconnected(event: Event) -> bool:
    """Return whether no event of the log has this one as its cause."""
    return all(later.cause != event.seq for later in EVERYTHING)


def test_a_cut_tail_of_an_open_session_is_no_divergence_and_of_a_closed_one_is_not_closed() -> None:
    for length in range(1, len(EVERYTHING)):
        assert first(EVERYTHING[:length]) is None


def test_a_report_names_seq_actor_field_both_values_and_how_it_came_to_it() -> None:
    (grant,) = [e for e in EVERYTHING if e.kind == "CallModel" and e.cause == 4]
    body = json.loads(encode(grant.body))
    body["request"] += 1
    events = [*EVERYTHING]
    events[grant.seq - 1] = replace(grant, body=decode(json.dumps(body)))
    lines = "\n".join(recorded(events).verify().lines())
    assert f"diverged at seq {grant.seq}: supervisor, deciding on event 4" in lines
    assert "field body.request (changed)" in lines
    assert str(body["request"]) in lines
    assert "4 host -> supervisor: TurnRequested" in lines
    assert "client -> supervisor: Ask" in lines
