"""The event loop of our own blocking entry points."""

import asyncio
import sys

import pytest

from callboard import Agent, ModelRequest, Runtime, ScriptedModel
from callboard.runtime import event_loop

uvloop = pytest.importorskip("uvloop")


async def loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def session_loop() -> str:
    """Return the name of the loop on which `run_sync` calls a model."""

    async def policy(request: ModelRequest) -> str:
        return await loop_module()

    return Runtime(":memory:", model=ScriptedModel(policy)).run_sync(Agent("host"), "go").text


def test_uvloop_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALLBOARD_UVLOOP", raising=False)
    assert event_loop.run(loop_module()) == "uvloop"
    assert session_loop() == "uvloop"
    with event_loop.runner() as runner:
        assert runner.run(loop_module()) == runner.run(loop_module()) == "uvloop"


def test_uvloop_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_UVLOOP", "0")
    assert event_loop.run(loop_module()) == "asyncio"
    assert session_loop() == "asyncio"


def test_without_uvloop_asyncio_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALLBOARD_UVLOOP", raising=False)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.run(loop_module()) == "asyncio"


def test_other_loops_of_the_program_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALLBOARD_UVLOOP", raising=False)
    assert session_loop() == "uvloop"
    assert asyncio.run(loop_module()) == "asyncio"


def test_an_error_of_the_program_is_raised_unchanged() -> None:
    async def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        event_loop.run(fail())
