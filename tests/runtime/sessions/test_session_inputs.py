"""The inputs of a fork: what the client gave to the session that was forked is posted again."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR
from callboard.actors.protocol.client_messages import Ask, Cancel, Close
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.runtime.sessions.session_inputs import SessionInputs
from callboard.runtime.sessions.session_types import SessionTypes, TypeName


class Inputs(SessionInputs):
    """The inputs of a session without the rest of it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running, self._is_closing = "", False
        self._last = self._loop.create_future()
        self._types = SessionTypes({}, "host", ())
        self.posted: list[Any] = []
        self.noted = 0

    @property
    def _board(self) -> Any:
        return self

    def _check_open(self) -> None:
        """Do nothing: it is open."""

    def submit_for_client(self, body: object) -> None:
        self.posted.append(body)

    def _note_busy(self) -> None:
        self.noted += 1


def given(body: Any) -> Event:
    return Event(9, 0, CLIENT, SUPERVISOR, 0, body)


def with_inputs(work: Any) -> None:
    async def inside() -> None:
        work(Inputs())

    asyncio.run(inside())


def test_an_ask_runs_from_the_moment_at_which_it_is_posted() -> None:
    def work(inputs: Inputs) -> None:
        first = inputs._last
        ask = Ask("r", text_json("go"))
        assert not inputs._runs_ask()
        inputs._repost(given(ask))
        assert inputs.posted == [ask]
        assert inputs._runs_ask()
        assert inputs._running == "r"
        assert inputs._last is first
        assert inputs.noted == 1
        first.set_result(None)  # type: ignore[arg-type]  # an outcome
        inputs._repost(given(Ask("r2", text_json("go"))))
        assert inputs._last is not first
        assert not inputs._last.done()

    with_inputs(work)


@pytest.mark.parametrize(
    ("schema", "name", "kind"),
    [
        (NULL, "", TypeName("", NULL)),
        (Json(b'{"type":"array"}'), "m.T", TypeName("m.T", Json(b'{"type":"array"}'))),
    ],
)
def test_an_ask_has_the_type_that_it_was_recorded_with(schema: Json, name: str, kind: TypeName) -> None:
    def work(inputs: Inputs) -> None:
        inputs._repost(given(Ask("r", text_json("go"), schema, output_type=name)))
        assert inputs._asking == kind

    with_inputs(work)


def test_a_close_closes_and_other_inputs_only_pass() -> None:
    def work(inputs: Inputs) -> None:
        inputs._repost(given(Cancel("x")))
        assert (inputs._is_closing, inputs.noted, inputs._runs_ask()) == (False, 0, False)
        inputs._repost(given(Close()))
        assert (inputs._is_closing, inputs.noted) == (True, 1)
        assert inputs.posted == [Cancel("x"), Close()]

    with_inputs(work)


def test_a_fork_has_asks_while_one_runs_or_is_left() -> None:
    def work(inputs: Inputs) -> None:
        left = [1]
        assert not inputs._has_asks
        inputs._expect(lambda: left[0])
        assert inputs._has_asks
        left[0] = 0
        assert not inputs._has_asks
        inputs._running = "r"
        assert inputs._has_asks

    with_inputs(work)
