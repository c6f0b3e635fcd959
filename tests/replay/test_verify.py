from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Finished, Stopped
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.session import step as step_module
from callboard.actors.supervisor.decider import decide_supervisor
from callboard.replay.recording import Recording
from callboard.replay.verify import Page, Verifier
from callboard.runtime.log.memory import MemoryReader
from tests import golden
from tests.cli.recorded import diverging
from tests.determinism import world
from tests.replay.logs import crashed

EVERYTHING = golden.golden("everything")


def pages(events: list[Event], size: int) -> Iterator[Page]:
    for start in range(0, len(events), size):
        yield [(event, encode(event.body)) for event in events[start : start + size]]


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
def test_the_size_of_pages_changes_nothing(size: int) -> None:
    for events in (EVERYTHING, world(1).log, list(Recording.open(MemoryReader(crashed())).events)):
        verifier = Verifier(events, pages(events, size))
        assert verifier.run() is None
        whole = Verifier(events)
        assert whole.run() is None
        assert verifier.decisions == whole.decisions
    changed = diverging(EVERYTHING)
    found = Verifier(changed).run()
    assert found is not None
    assert Verifier(changed, pages(changed, size)).run() == found


def test_nothing_but_undecided_events_and_open_requests_is_held() -> None:
    largest = 0

    def watched() -> Iterator[Page]:
        nonlocal largest
        for page in pages(EVERYTHING, 1):
            held = sum(len(inbox) for inbox in verifier._inboxes.values())
            largest = max(largest, held + len(verifier._requests._open) + len(verifier._made_ahead))
            yield page

    verifier = Verifier(EVERYTHING, watched())
    assert verifier.run() is None
    assert 0 < largest < len(EVERYTHING) / 3
    assert verifier._made_ahead == {}


def test_the_supervisors_decisions_share_a_unit_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[int] = []

    def counted(state: object, seq: int, *arguments: object) -> object:
        alone.append(seq)
        return decide_supervisor(state, seq, *arguments)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(step_module, "decide_supervisor", counted)
    assert Verifier(EVERYTHING).run() is None
    assert alone == []


def test_a_supervisor_that_raises_is_found_at_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = next(event for event in EVERYTHING if isinstance(event.body, Finished))

    def raising(*arguments: object) -> object:
        raise RuntimeError("together")

    def raising_once(state: object, seq: int, *arguments: object) -> object:
        if seq == finished.seq:
            raise ValueError("alone")
        return decide_supervisor(state, seq, *arguments)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(step_module, "decide_together", raising)
    monkeypatch.setattr(step_module, "decide_supervisor", raising_once)
    found = Verifier(EVERYTHING).run()
    assert found is not None
    assert (found.kind, found.decision) == ("raised", finished.seq)
    assert "ValueError: alone" in found.expected


def test_an_output_that_is_missing_names_the_event_in_its_place() -> None:
    grant = next(event for event in EVERYTHING if isinstance(event.body, CallModel))
    events = renumbered([event for event in EVERYTHING if event is not grant])
    found = Verifier(events).run()
    assert found is not None
    assert (found.kind, found.decision, found.actor) == ("missing", grant.cause, "supervisor")
    assert '"CallModel"' in found.expected
    assert f"{grant.cause} host -> supervisor: TurnRequested" in found.causal_path[0]


def test_the_last_output_of_a_closed_session_is_missed_and_of_an_open_one_is_not() -> None:
    stopped = [event for event in EVERYTHING if isinstance(event.body, Stopped | Finished)][-1]
    open_end = EVERYTHING[: stopped.seq - 1]
    assert Verifier(open_end).run() is None
    last = replace(EVERYTHING[-1], seq=len(open_end) + 1, sender=CLIENT, recipient=SUPERVISOR, cause=0)
    found = Verifier([*open_end, last]).run()
    assert found is not None
    assert (found.kind, found.decision) == ("missing", stopped.cause)


def renumbered(events: list[Event]) -> list[Event]:
    """Make the seqs of the events consecutive and adjust their causes."""
    seqs = {event.seq: seq for seq, event in enumerate(events, 1)}
    return [
        Event(seq, event.at, event.sender, event.recipient, seqs.get(event.cause, event.cause), event.body)
        for seq, event in enumerate(events, 1)
    ]
