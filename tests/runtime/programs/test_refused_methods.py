"""The methods of an event loop that a program's loop does not have."""

import asyncio
import contextlib
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.programs.loop import ProgramLoop
from callboard.runtime.programs.refused_methods import IO, lacking, refusal_of
from tests.tables import table


@table(
    ("name", "what"),
    [
        ("create_connection", IO),
        ("sock_recv", IO),
        ("run_in_executor", "threads"),
        ("call_soon_threadsafe", "calls from other threads"),
        ("subprocess_exec", "subprocesses"),
        ("add_signal_handler", "signals"),
        ("run_forever", "way to run or end its loop"),
        ("set_debug", "settings of its loop"),
    ],
)
def test_each_refusal_says_what_a_program_lacks_and_what_to_write(name: str, what: str) -> None:
    assert lacking(name) == what
    assert f"{name}: a program has no {what}" in str(refusal_of(name))
    assert "write a @tool" in str(refusal_of(name))


def test_a_loop_keeps_the_first_refusal_of_io_and_none_of_a_setting() -> None:
    loop: Any = ProgramLoop()
    for name in ("set_debug", "create_connection", "sock_recv"):
        with pytest.raises(MisuseError, match=name):
            getattr(loop, name)(None)
    assert str(loop.refused).startswith("create_connection:")


@pytest.mark.parametrize(("brain", "ran"), [(True, ["now"]), (False, [])])
def test_only_a_brain_may_call_its_loop_as_from_another_thread(brain: bool, ran: list[str]) -> None:
    loop, done = ProgramLoop(), list[str]()
    loop.runs_functions = brain

    def begin() -> None:
        with contextlib.suppress(MisuseError):
            asyncio.get_running_loop().call_soon_threadsafe(done.append, "now")

    loop.run_step(0, begin)
    assert done == ran
    with pytest.raises(MisuseError, match="calls from other threads"):  # not from outside of a step either
        loop.call_soon_threadsafe(done.append, "later")
