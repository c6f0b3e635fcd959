"""Both stores answer any sequence of calls as a dictionary of lists would."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.events import Event
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, EventLog, Head, LogReader
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.effort import effort
from tests.runtime.log.kit import event, large, run, same

NAMES = ("a", "b", "c")


class Ask(NamedTuple):
    """Something that is asked of a store. Of an append: how far head and epoch are off, how many events.

    Of a fork: its base, so many events before the end, and its parent.
    """

    what: str
    name: str = ""
    head_off: int = 0
    epoch_off: int = 0
    events: int = 0
    is_large: bool = False
    parent: str = ""


names = st.sampled_from(NAMES)
off = st.sampled_from([0, 0, 0, 0, -1, 1])
appends = st.tuples(st.just("append"), names, off, off, st.integers(0, 40), st.booleans())
others = st.tuples(st.sampled_from(["create", "create", "take_over", "delete"]), names)
forks = st.tuples(st.just("fork"), names, off, st.just(0), st.integers(0, 40), st.just(value=False), names)
asks = st.one_of(appends, appends, others, forks, st.just(("reopen",))).map(lambda parts: Ask(*parts))


class Model:
    """What a store should hold: events and epoch by name."""

    def __init__(self) -> None:
        self.sessions: dict[str, tuple[int, list[Event]]] = {}
        self.bases: dict[str, tuple[str, int]] = {}

    def base(self, ask: Ask) -> int:
        """Return the event at which a fork is asked for, which may be none of its parent's."""
        _, events = self.sessions.get(ask.parent, (1, []))
        return max(0, len(events) - ask.events) - ask.head_off

    def fork(self, ask: Ask) -> str:
        """Return the right answer to a wish for a fork, in a word."""
        if ask.parent not in self.sessions:
            return "SessionNotFound"
        base, owner = self.base(ask), ask.parent
        _, events = self.sessions[owner]
        if not 1 <= base <= len(events):
            return "WrongHead"
        if ask.name in self.sessions:
            return "SessionExists"
        while owner in self.bases and base <= self.bases[owner][1]:
            owner = self.bases[owner][0]
        self.bases[ask.name] = owner, base
        self.sessions[ask.name] = (1, events[:base])
        return f"head {base}"

    def part(self, ask: Ask) -> Append:
        """Return the requested append, with events of its own."""
        epoch, events = self.sessions.get(ask.name, (1, []))
        head = max(0, len(events) + ask.head_off)
        more = [event(seq) for seq in range(head + 1, head + ask.events + 1)]
        if more and ask.is_large:
            more[-1] = large(more[-1].seq, 2_000 + more[-1].seq % 3)
        return Append(ask.name, head, epoch + ask.epoch_off, more)

    def do(self, ask: Ask, part: Append) -> str:
        """Return the right answer, in a word."""
        known = self.sessions.get(ask.name)
        if ask.what == "create":
            if known:
                return "SessionExists"
            self.sessions[ask.name] = (1, [])
            return "1"
        if ask.what == "reopen":
            return ""
        if ask.what == "fork":
            return self.fork(ask)
        if known is None:
            return "SessionNotFound"
        epoch, events = known
        if ask.what == "delete":
            if ask.name in [parent for parent, _ in self.bases.values()]:
                return "HasForks"
            del self.sessions[ask.name]
            return str(len(events) - self.bases.pop(ask.name, ("", 0))[1])
        if ask.what == "take_over":
            self.sessions[ask.name] = (epoch + 1, events)
            return f"{epoch + 1} {len(events)}"
        if part.epoch != epoch:
            return "Fenced"
        if part.expected_head != len(events):
            return "WrongHead"
        events.extend(part.events)
        return f"head {len(events)}"


async def answer(log: EventLog, ask: Ask, part: Append, base: int) -> str:
    """Return the store's answer, in a word."""
    try:
        if ask.what == "create":
            return str(await log.create(ask.name, 1, ""))
        if ask.what == "fork":
            return f"head {(await log.fork(ask.name, 1, '', ask.parent, base)).seq}"
        if ask.what == "delete":
            return str(await log.delete(ask.name))
        if ask.what == "take_over":
            epoch, head = await log.take_over(ask.name)
            return f"{epoch} {head.seq}"
        if ask.what == "reopen":
            await log.close()
            await log.open()
            return ""
        (found,) = await log.append([part])
    except CallboardError as error:
        return type(error).__name__
    return f"head {found.seq}" if isinstance(found, Head) else type(found).__name__


async def assert_alike(log: EventLog, reader: Callable[[], LogReader], todo: list[Ask]) -> None:
    model = Model()
    await log.open()
    for ask in todo:
        part, base = model.part(ask), model.base(ask)
        assert await answer(log, ask, part, base) == model.do(ask, part), ask
    assert {row.session_id for row in await log.sessions()} == set(model.sessions)
    looking = reader()
    for name, (_, events) in model.sessions.items():
        assert same(await log.read(name), events)
        assert looking.verify_chain(name) == await log.head(name) == looking.head(name)
    looking.close()
    await log.close()


@pytest.mark.slow
@settings(max_examples=effort(60, 1_000), deadline=None)
@given(st.lists(asks, max_size=30))
def test_a_log_in_memory_answers_as_the_model_does(todo: list[Ask]) -> None:
    log = MemoryLog()
    run(lambda: assert_alike(log, lambda: MemoryReader(log), todo))


@pytest.mark.slow
@settings(max_examples=effort(10, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(asks, max_size=30))
def test_a_log_in_a_file_answers_as_the_model_does(todo: list[Ask]) -> None:
    with TemporaryDirectory() as name:
        path = Path(name, "log.db")
        log = SQLiteLog(path, "process")
        run(lambda: assert_alike(log, lambda: SQLiteReader(path), todo))
