"""Sessions that wait for their code: what the programs of this process would do otherwise than recorded.

Rules
  - Before a session is taken over, its unfinished programs are executed against their recording. If one does
    otherwise, `Diverged` is raised: nothing is posted, and no owner is fenced.
  - So it is if this process does not have the model that an agent at work asks.
  - A mismatch that is found only when a program goes on, or asks a model that is not there, detaches its
    session; nothing ends as `crashed`.
  - The mismatch belongs to this process, which remembers it: the same agent object is not tried again
    with the same models.
  - The time of waiting is added to every running deadline, and `Resumed` records it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.messages import Begin, Finished, Stopped, TurnRequested
from callboard.actors.session.port_gate import PortGate
from callboard.runtime.forks.starting import past_fork
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.models.protocol import no_model
from callboard.runtime.programs.checking import programs_of
from callboard.runtime.programs.session_check import check_programs, diverged, finder, overdue, waits
from callboard.runtime.sessions.live_sessions import LiveSessions
from callboard.runtime.sessions.resuming import RecordedSession, continuation, recover_session
from callboard.runtime.sessions.session_agents import SessionAgents

_AT_WORK: Final = frozenset((Begin, TurnRequested, Finished, Stopped))


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
        given, models = self.found.given, self.found.models
        if waiting is not None and waiting.agent is given and waiting.models == frozenset(models):
            raise waiting.error
        try:
            await self.look(session_id, recorded)
        except Diverged as error:
            await self.live.wait_for_code(session_id, given, error, models=models)
            raise

    async def look(self, session_id: str, recorded: RecordedSession) -> None:
        """Do as `check`, and remember nothing. Raises Diverged."""
        if not recorded.running:
            return
        for address, name in _models_at_work(recorded):
            if name not in self.found.models:
                raise waits(session_id, address, no_model(name, self.found.models))
        if not _has_program(recorded):
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


def _models_at_work(recorded: RecordedSession) -> Iterator[tuple[str, str]]:
    """Yield the agents at work with the model that each asks now.

    Those of a fork are left out, since its recording may answer them, and so are programs, which are checked.
    """
    if any(isinstance(event.body, Forked) for event in recorded.events):
        return
    first: dict[str, str] = {}
    asked: dict[str, str] = {}
    for event in recorded.events:
        if type(event.body) not in _AT_WORK:  # nearly all
            continue
        match event.body:
            case Begin(model=model) if not model.is_program:
                first[event.recipient] = asked[event.recipient] = model.name
            case TurnRequested(model=name) if event.sender in asked:
                asked[event.sender] = name or first[event.sender]
            case Finished() | Stopped():
                asked.pop(event.sender, None)
            case _:
                pass
    yield from asked.items()


def _has_program(recorded: RecordedSession) -> bool:
    return any(isinstance(event.body, Begin) and event.body.model.is_program for event in recorded.events)
