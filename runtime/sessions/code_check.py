"""Sessions that wait for their code: what the programs of this process would do otherwise than recorded.

Rules
  - Before a session is taken over, its unfinished programs are executed against their recording. If one does
    otherwise, `Diverged` is raised: nothing is posted, and no owner is fenced.
  - A mismatch that is found only when a program goes on detaches its session; nothing ends as `crashed`.
  - The mismatch belongs to this process, which remembers it: the same agent object is not tried again.
  - The time of waiting is added to every running deadline, and `Resumed` records it.
"""

from typing import NamedTuple

from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.messages import Begin
from callboard.actors.session.port_gate import PortGate
from callboard.runtime.forks.starting import past_fork
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.programs.checking import programs_of
from callboard.runtime.programs.session_check import check_programs, diverged, finder, overdue
from callboard.runtime.sessions.live_sessions import LiveSessions
from callboard.runtime.sessions.resuming import RecordedSession, continuation, recover_session
from callboard.runtime.sessions.session_agents import SessionAgents


class CodeCheck(NamedTuple):
    """The check of one session before it is taken over.

    found: its agents today. gate: without requests. extend_ms: added to its deadlines.
    """

    live: LiveSessions
    log: EventLog
    timeout_s: float
    found: SessionAgents
    gate: PortGate
    extend_ms: int

    async def check(self, session_id: str, recorded: RecordedSession) -> None:
        """Execute the unfinished programs of a session against their recording. Raises Diverged.

        A session that differs is listed from now on as one that waits for its code.
        """
        waiting = self.live.waiting.get(session_id)
        if waiting is not None and waiting.agent is self.found.given:
            raise waiting.error
        try:
            await self.look(session_id, recorded)
        except Diverged as error:
            await self.live.wait_for_code(session_id, self.found.given, error)
            raise

    async def look(self, session_id: str, recorded: RecordedSession) -> None:
        """Do as `check`, and remember nothing. Raises Diverged."""
        if not recorded.running or not _has_program(recorded):
            return
        if error := await self._difference(session_id, recorded):
            raise error

    async def _difference(self, session_id: str, recorded: RecordedSession) -> Diverged | None:
        past = await past_fork(self.log, recorded)
        extend_ms = self.extend_ms + await self.live.waited_ms(session_id)
        first = continuation(recorded, self.found.opened, extend_ms=extend_ms)
        answered = None if past is None else past.answered
        recovered = recover_session(session_id, recorded, first, self.gate, answered)
        programs = programs_of(recovered.states, only_running=True)
        try:
            wrong = await check_programs(programs, finder(self.found.agents), self.timeout_s)
        except TimeoutError:
            return overdue(session_id, self.timeout_s)
        return diverged(session_id, wrong) if wrong else None


def _has_program(recorded: RecordedSession) -> bool:
    return any(isinstance(event.body, Begin) and event.body.model.is_program for event in recorded.events)
