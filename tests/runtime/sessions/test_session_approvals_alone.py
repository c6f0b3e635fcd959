"""The controls of a session with parts that only record: what is passed on, and what is waited for."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import RevokePermission
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.session.permissions import Permission
from callboard.actors.supervisor.state import SupervisorState
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.sessions import session_approvals
from callboard.runtime.sessions.session_approvals import SessionApprovals, _profile_at
from callboard.runtime.sessions.session_sleep import Rest, Slept


class Controls(SessionApprovals):
    """A session of which nothing but its controls is there. done: what it had done, in order."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        super().__init__("s", Rest(None, self._woken))
        self.begin()

    def _check_open(self) -> None:
        self.done.append("checked")

    def _may_sleep(self) -> bool:
        return False

    async def _woken(self, session: object) -> None:
        self.begin()

    def begin(self) -> None:
        board = SimpleNamespace(
            error=None, submit_for_client=self.done.append, durable=self._durable, secrets=NO_SECRETS
        )
        approvals = SimpleNamespace(
            questions=("question",), permissions=(Permission(4, "host", "pay"),), answer=self._answer
        )
        self._connect(SimpleNamespace(board=board, hub=None, approvals=approvals))  # type: ignore[arg-type]  # a stand-in

    async def _durable(self) -> None:
        self.done.append("durable")

    async def _answer(self, seq: int, answer: ApprovalAnswer) -> bool:
        self.done.append((seq, answer))
        return True


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]  # a coroutine


def test_answers_by_id_are_passed_on_whole() -> None:
    async def work() -> None:
        one = Controls()
        assert await one.approve(
            7, "why", by="ann", arguments={"a": 1}, always=True, values={"b": 2}, labels=["x"]
        )
        assert await one._reuse(8, by="bob")
        assert await one.deny(9, "no", by="eve")
        assert one.done == [
            (7, ApprovalAnswer(True, "why", "ann", {"a": 1}, True, {"b": 2}, False, ["x"])),
            (8, ApprovalAnswer(True, by="bob", reuses=True)),
            (9, ApprovalAnswer(False, "no", "eve")),
        ]
        shown: Any = one.open_approvals
        assert shown == ("question",)

    run(work)


def test_a_permission_that_holds_is_revoked_durably_and_no_other() -> None:
    async def work() -> None:
        one = Controls()
        assert await one.revoke(5, by="ann") is False
        assert one.done == []
        assert await one.revoke(4, by="a" * 201) is True
        checked, revoked, durable = one.done
        assert (checked, durable) == ("checked", "durable")
        assert isinstance(revoked, RevokePermission)
        assert len(revoked.by) == 200

    run(work)


def test_a_sleeping_session_has_no_question_and_the_permissions_that_it_had() -> None:
    async def work() -> None:
        one = Controls()
        one._let_go(one._parts)
        one._slept = Slept(permissions=(Permission(6, "host", "pay"),))
        assert (one.open_approvals, one.permissions()) == ((), (Permission(6, "host", "pay"),))
        assert await one.deny(9)
        assert not one._is_asleep

    run(work)


def test_all_controls_belong_to_the_loop_of_the_session() -> None:
    async def work() -> None:
        one = Controls()
        uses: list[Callable[[], Awaitable[object]]] = [
            lambda: one.set_tools([]), lambda: one.approve(7), lambda: one._reuse(7), lambda: one.deny(7),
            lambda: one.revoke(5),
        ]  # fmt: skip
        for use in uses:

            async def elsewhere(use: Callable[[], Awaitable[object]] = use) -> None:
                with pytest.raises(MisuseError, match="belongs to the event loop"):
                    await use()

            await asyncio.to_thread(asyncio.run, elsewhere())
        assert one.done == []

    run(work)


def test_tools_are_set_for_an_agent_that_runs_or_for_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    record = SimpleNamespace(is_running=True, profile=SimpleNamespace(name="kid"))
    found: dict[str, Any] = {"host.1": record}
    monkeypatch.setattr(
        session_approvals, "UnitOfWork", lambda state: SimpleNamespace(record=lambda at: found.get(at))
    )
    board: Any = SimpleNamespace(
        core=SimpleNamespace(states={"supervisor": SupervisorState(host_name="boss")})
    )
    assert _profile_at(board, "host.1") == "kid"
    assert _profile_at(board, "host") == "boss"
    record.is_running = False
    for address in ("host.1", "host.2"):
        with pytest.raises(UnknownName, match=f"no agent runs at '{address}'"):
            _profile_at(board, address)
