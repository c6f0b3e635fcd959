"""The approvals of a session: answers by id, and permissions for later calls."""

from collections.abc import Mapping

from callboard.actors.protocol.messages import RevokePermission
from callboard.actors.session.permissions import Permission
from callboard.runtime.approvals import BY_CHARS_MAX, Approval, ApprovalAnswer
from callboard.runtime.sanitize import clean_text
from callboard.runtime.sessions.session_sleep import SessionSleep


class SessionApprovals(SessionSleep):
    """The part of a session that people answer."""

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
    ) -> bool:
        """Let the call run whose `Approval` has this seq; for a web handler, which has only the id.

        Returns once the answer is durable: True if it counts, False if the call was answered before, in this
        process or an earlier one, has expired or is no longer wanted. The parameters are those of
        `Approval.approve`. Raises UnknownName if this event asks for no approval.
        """
        self.check_loop()
        async with self._in_use() as live:
            return await live.approvals.answer(seq, ApprovalAnswer(True, note, by, arguments, always))

    async def deny(self, seq: int, note: str = "", *, by: str = "") -> bool:
        """Refuse the call whose `Approval` has this seq, as `approve` lets it run."""
        self.check_loop()
        async with self._in_use() as live:
            return await live.approvals.answer(seq, ApprovalAnswer(False, note, by))

    def permissions(self) -> tuple[Permission, ...]:
        """Return the permissions that `always` gave and that hold; each with its seq, profile and tool."""
        return self._live.approvals.permissions if self._live else self.slept.permissions

    async def revoke(self, permission: int, *, by: str = "") -> bool:
        """End the permission with this seq. Return False if it does not hold.

        Returns once that is durable. Calls that were approved before keep their approval. Raises SessionEnded
        after the end.
        """
        self.check_loop()
        if permission not in [one.seq for one in self.permissions()]:
            return False
        self.check_open()
        async with self._in_use() as live:
            name = live.board.secrets.redactor.cut(clean_text(by), BY_CHARS_MAX)
            live.board.submit_for_client(RevokePermission(permission, name))
            await live.board.durable()
        return True
