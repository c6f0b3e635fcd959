"""The check of a session's code by itself: what is checked, with which recording and which deadlines."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.sessions import code_check
from callboard.runtime.sessions.code_check import CodeCheck

WRONG = Diverged("it does otherwise")


class Desk:
    """A check whose recovery and executions only record. wrong: what the executions find."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[Any] = []
        self.wrong: list[Any] = []
        self.past: Any = SimpleNamespace(answered="answered")
        for name in ("past_fork", "continuation", "recover_session", "programs_of", "check_programs"):
            monkeypatch.setattr(code_check, name, getattr(self, f"_{name}"))
        monkeypatch.setattr(code_check, "finder", lambda agents: f"finder of {agents}")
        monkeypatch.setattr(code_check, "diverged", lambda name, wrong: Diverged(f"{name}: {wrong}"))
        monkeypatch.setattr(code_check, "overdue", lambda name, limit_s: Diverged(f"{name}: over {limit_s}"))
        self.waiting: dict[str, Any] = {}
        live: Any = SimpleNamespace(
            waiting=self.waiting, waited_ms=self._waited_ms, wait_for_code=self._wait_for_code
        )
        found: Any = SimpleNamespace(given="given", opened="opened", agents="agents", models={"m"})
        self.check = CodeCheck(live, "log", 2.5, found, "gate", 100)  # type: ignore[arg-type]  # a stand-in

    async def _past_fork(self, log: Any, recorded: Any) -> Any:
        assert log == "log"
        return self.past

    def _continuation(self, recorded: Any, opened: Any, *, extend_ms: int = 0) -> Any:
        return ("continuation", opened, extend_ms)

    def _recover_session(self, *given: Any) -> Any:
        self.done.append((given[0], *given[2:]))
        return SimpleNamespace(states="states")

    def _programs_of(self, states: Any, *, only_running: bool = False) -> Any:
        return ("programs", states, only_running)

    async def _check_programs(self, *given: Any) -> Any:
        self.done.append(given)
        if self.wrong == ["late"]:
            raise TimeoutError
        return self.wrong

    async def _waited_ms(self, session_id: str) -> int:
        assert session_id == "s"
        return 7

    async def _wait_for_code(self, *given: Any, models: Any) -> None:
        assert models == {"m"}
        self.done.append(given)


def recorded(*, is_running: bool = True, is_program: bool = True) -> Any:
    model = ModelSpec("m", kind="program" if is_program else "service")
    begin = Begin(Json(b"{}"), Json(b'"go"'), model, Limits())
    events = [SimpleNamespace(body="another"), SimpleNamespace(body=begin, recipient="host")]
    return SimpleNamespace(running="r" if is_running else "", events=events)


@pytest.mark.parametrize(("is_running", "is_program"), [(False, True), (True, False), (False, False)])
def test_a_session_without_an_unfinished_program_is_not_executed(
    is_running: bool, is_program: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(monkeypatch)
    session = recorded(is_running=is_running, is_program=is_program)
    asyncio.run(desk.check.check("s", session))
    assert desk.done == []


@pytest.mark.parametrize("is_fork", [False, True])
def test_running_programs_are_executed_as_the_resume_would_with_all_time_of_waiting(
    is_fork: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(monkeypatch)
    if not is_fork:
        desk.past = None
    asyncio.run(desk.check.check("s", recorded()))
    assert desk.done == [
        ("s", ("continuation", "opened", 107), "gate", "answered" if is_fork else None),
        (("programs", "states", True), "finder of agents", 2.5),
    ]


@pytest.mark.parametrize(("wrong", "why"), [(["host"], "s: ['host']"), (["late"], "s: over 2.5")])
def test_a_session_that_differs_waits_for_its_code_from_now_on(
    wrong: list[Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(monkeypatch)
    desk.wrong = wrong
    with pytest.raises(Diverged) as raised:
        asyncio.run(desk.check.check("s", recorded()))
    assert str(raised.value) == why
    assert desk.done[-1] == ("s", "given", raised.value)
    desk.done.clear()
    with pytest.raises(Diverged):
        asyncio.run(desk.check.look("s", recorded()))
    assert len(desk.done) == 2, "a look remembers nothing"


@pytest.mark.parametrize(
    ("agent", "models", "is_known"),
    [("given", {"m"}, True), ("given", {"n"}, False), ("another", {"m"}, False)],
)
def test_the_same_agent_object_is_not_executed_again_with_the_same_models(
    agent: str, models: set[str], is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(monkeypatch)
    desk.waiting["s"] = SimpleNamespace(agent=agent, error=WRONG, models=models)
    if is_known:
        with pytest.raises(Diverged, match="it does otherwise"):
            asyncio.run(desk.check.check("s", recorded()))
    else:
        asyncio.run(desk.check.check("s", recorded()))
    assert bool(desk.done) != is_known
