"""The wish for a fork, the values of its changes, and the ports that play recorded answers back."""

import asyncio
from typing import Any, cast

import pytest

from callboard.actors.protocol.addresses import APPROVALS, CAPACITY, CONTEXT, MODEL, SCHEMA, TOOLS
from callboard.actors.protocol.errors import InvalidPrompt, MisuseError, UnknownName
from callboard.actors.session.playback import Playback
from callboard.actors.session.recorded_answers import RecordedAnswers
from callboard.runtime.forks.playback import LivePlayback, ReusingPort
from callboard.runtime.forks.starting import Forking, checked_effects, hold_open, play_back, result_json
from callboard.runtime.sessions.board import Board
from tests.actors.session.hand_written import Log
from tests.tables import table


@pytest.mark.parametrize("effects", ["recorded", "ask", "live"])
def test_three_ways_are_known_for_tools_with_an_effect(effects: str) -> None:
    assert checked_effects(effects) == effects


def test_another_way_names_the_three() -> None:
    with pytest.raises(MisuseError, match=r"effects='run': use 'recorded', 'ask' or 'live'"):
        checked_effects("run")


@table(
    ("value", "written"),
    [
        ("cold", '"cold"'),
        ("ß\n", '"ß\\n"'),
        ([{"type": "text", "text": "cold"}], '[{"type": "text", "text": "cold"}]'),
        ({"n": 1}, '"{\\"n\\": 1}"'),
        ({"ß": 1}, '"{\\"ß\\": 1}"'),
        ([1, 2], '"[1, 2]"'),
        ([], '"[]"'),
        ([{"type": "text"}, {"n": 1}], '"[{\\"type\\": \\"text\\"}, {\\"n\\": 1}]"'),
        (None, '"null"'),
        (4.5, '"4.5"'),
    ],
)
def test_a_change_is_a_text_or_blocks_and_any_other_value_is_taken_as_its_text(
    value: object, written: str
) -> None:
    assert bytes(result_json(value)).decode() == written


def test_a_change_that_no_log_can_hold_is_refused() -> None:
    with pytest.raises(InvalidPrompt):
        result_json("x" * 50_000_000)


def test_a_fork_begins_at_an_event_or_at_a_named_checkpoint() -> None:
    log = Log()
    log.returns(log.calls("look", 1, effect="read"), checkpoints=("before",))
    assert Forking(at="before").place_in("s", log.events) == 2
    assert Forking(at=1).place_in("s", log.events) == 1
    assert Forking().place_in("s", log.events) is None
    with pytest.raises(UnknownName):
        Forking(at="after").place_in("s", log.events)


def test_the_objects_of_a_wish_are_those_of_its_tools() -> None:
    given = Forking(deps=1, files="here", memory=None).given
    assert (given.deps, given.files, given.memory) == (1, "here", None)


class Parts:
    """A session and a board without anything in them."""

    def __init__(self) -> None:
        names = (MODEL, TOOLS, APPROVALS, SCHEMA, CONTEXT, CAPACITY)
        self.ports: dict[str, object] = {name: f"port {name}" for name in names}
        self.expected: list[int] = []
        self.clock: object = None
        self.gate = self

    def _expect(self, asks_left: Any) -> None:
        self.expected.append(asks_left())

    def _repost(self, event: object) -> None: ...

    def _runs_ask(self) -> bool:
        return False

    def request(self, seq: int) -> str | None:
        return None if seq == 3 else f"request {seq}"


def test_the_recorded_answers_stand_before_every_port_that_can_have_some() -> None:
    async def work() -> None:
        parts: Any = Parts()
        plan = Playback(RecordedAnswers([], 0))
        live = play_back(parts, parts, 4_000, plan, parts)
        kinds = {name: type(port) for name, port in parts.ports.items()}
        reusing = dict.fromkeys((MODEL, TOOLS, APPROVALS, SCHEMA, CONTEXT), ReusingPort)
        assert kinds == {**reusing, CAPACITY: str}
        assert str(live._ports[TOOLS]) == "port tools"
        assert parts.time() == 4_000
        assert parts.expected == [0]

    asyncio.run(work())


def test_answers_are_held_for_open_requests_that_no_port_starts() -> None:
    held: list[Any] = []

    class Live:
        hold_open = held.extend

    board = cast("Board", Parts())
    hold_open(board, [1, 2, 3, 4], cast("LivePlayback", Live()), {2})
    assert held == ["request 1", "request 4"]
