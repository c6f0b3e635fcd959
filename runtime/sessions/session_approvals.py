"""The controls of a session: approvals by id, permissions for later calls, and other tools."""

from collections.abc import Mapping, Sequence

from callboard.actors.protocol.addresses import HOST, SUPERVISOR
from callboard.actors.protocol.client_messages import RevokePermission, ToolsChanged
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.session.permissions import Permission
from callboard.actors.supervisor.state import SupervisorState
from callboard.actors.supervisor.unit_of_work import UnitOfWork
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import BY_CHARS_MAX, Approval, ApprovalAnswer
from callboard.runtime.sanitize import clean_text
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.session_sleep import SessionSleep
from callboard.runtime.sessions.session_tools import SessionTools
from callboard.runtime.tools.tool import Tool


class SessionApprovals(SessionSleep):
    """The part of a session by which people and programs control its tools."""

    tools: SessionTools

    async def set_tools(
        self, tools: Sequence[Tool | str], *, agent: Agent | str = "", address: str = ""
    ) -> None:
        """Set the tools that an agent, or every agent of a profile, has from its next new request on.

        tools: all of them: tools, or names of the agent's `tools` and `later_tools`. agent: the profile, or
        its name; agents that begin later have these tools too. address: of one agent instead (`host.1`);
        for `host` they also hold in later asks. Calls in flight run as they were started.

        Returns once the change is durable. Raises UnknownName for an agent that is not there, or a tool that
        it does not know, MisuseError for two tools of one name, SessionEnded after the end.
        """
        self._check_loop()
        async with self._in_use() as live:
            self._check_open()  # a close may have woken it, too
            name = agent if isinstance(agent, str) else agent.name
            profile = _profile_at(live.board, address) if address else ""
            change = self.tools.change(tools, address=address, agent=name, of=profile)
            live.board.submit_for_client(ToolsChanged(change))
            await live.board.durable()

    @property
    def open_approvals(self) -> tuple[Approval, ...]:
        """Return the calls that wait for a person now."""
        return self._live.approvals.questions if self._live else ()

    async def approve(
        self,
        seq: int,
        note: str = "",
        *,
        by: str = "",
        arguments: Mapping[str, object] | None = None,
        always: bool = False,
        values: Mapping[str, object] | None = None,
        labels: Sequence[str] = (),
    ) -> bool:
        """Let the call run whose `Approval` has this seq; for a web handler, which has only the id.

        Returns once the answer is durable: True if it counts, False if the call was answered before, in this
        process or an earlier one, has expired or is no longer wanted. The parameters are those of
        `Approval.approve`. Raises UnknownName if this event asks for no approval.
        """
        self._check_loop()
        async with self._in_use() as live:
            answer = ApprovalAnswer(True, note, by, arguments, always, values, labels=labels)
            return await live.approvals.answer(seq, answer)

    async def _reuse(self, seq: int, *, by: str = "") -> bool:
        """Give the call of a fork with this seq its recorded result, as `Approval.reuse` does."""
        self._check_loop()
        async with self._in_use() as live:
            return await live.approvals.answer(seq, ApprovalAnswer(True, by=by, reuses=True))

    async def deny(self, seq: int, note: str = "", *, by: str = "") -> bool:
        """Refuse the call whose `Approval` has this seq, as `approve` lets it run."""
        self._check_loop()
        async with self._in_use() as live:
            return await live.approvals.answer(seq, ApprovalAnswer(False, note, by))

    def permissions(self) -> tuple[Permission, ...]:
        """Return the permissions that `always` gave and that hold; each with its seq, profile and tool."""
        return self._live.approvals.permissions if self._live else self._slept.permissions

    async def revoke(self, permission: int, *, by: str = "") -> bool:
        """End the permission with this seq. Return False if it does not hold.

        Returns once that is durable. Calls that were approved before keep their approval. Raises SessionEnded
        after the end.
        """
        self._check_loop()
        if permission not in [one.seq for one in self.permissions()]:
            return False
        async with self._in_use() as live:
            self._check_open()
            name = live.board.secrets.redactor.cut(clean_text(by), BY_CHARS_MAX)
            live.board.submit_for_client(RevokePermission(permission, name))
            await live.board.durable()
        return True


def _profile_at(board: Board, address: str) -> str:
    """Return the profile of a running agent, or of the host. Raises UnknownName for any other address."""
    supervisor = board.core.states[SUPERVISOR]
    assert isinstance(supervisor, SupervisorState)
    record = UnitOfWork(supervisor).record(address)
    if record is not None and record.is_running:
        return record.profile.name
    if address == HOST:
        return supervisor.host_name
    raise UnknownName(f"no agent runs at {address!r:.80}; to set the tools of later agents, pass agent=")
