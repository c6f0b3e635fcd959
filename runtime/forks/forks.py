"""The part of a runtime that forks sessions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.fork_plan import Place
from callboard.runtime.agent import Agent
from callboard.runtime.forks.attended import AttendedSessions
from callboard.runtime.forks.starting import Forking, checked_effects, result_json
from callboard.runtime.sessions.live_sessions import Opening
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_deps import FilesChoice, MemoryChoice
from callboard.runtime.sessions.starting import SessionStarter


class Forks(ABC):
    """Fork the sessions of a log."""

    _attended: AttendedSessions

    @abstractmethod
    def _started(self) -> SessionStarter: ...

    def _host_for(self, session_id: str, name: str, *, is_imported: bool) -> Agent | None:
        """Return the agent for forks of a session on command; None without one. name: of the host."""
        return self._started().hosts.find(session_id, name, is_imported=is_imported)

    async def _fork_attended(self, session_id: str, agent: Agent, wish: Forking) -> Session:
        """Begin a fork that is closed once its asks have ended."""
        session = await self._started().fork(session_id, agent, wish)
        self._attended.attend(session)
        return session

    def fork(
        self,
        session_id: str,
        agent: Agent,
        *,
        at: int | str | None = None,
        changes: Mapping[Place, object] | None = None,
        limits: Limits | None = None,
        effects: Effects | None = None,
        fork_id: str | None = None,
        until: int | None = None,
        deps: object = None,
        files: FilesChoice = None,
        memory: MemoryChoice = None,
        files_to: str | Path | None = None,
        skip_lost: bool = False,
    ) -> Opening:
        """Fork a session: a new one continues from one of its events, and pays only for the difference.

        The fork shares the events up to `at` and gets the recorded answers of the events behind, wherever it
        asks the same. Its clock is virtual, so that deadlines come as recorded. `await session.outcome` is
        the ask that is under way at `at`, or the next one, which is posted again.

        agent: the host, as it was or changed; a changed agent is taken where it begins behind `at`.
        at: the last shared event, or the name of a checkpoint; None for the one before the first change, or
        else the last one.
        changes: new results by (agent, turn, call), or by the seq of the recorded one: any JSON value; with
        call -1 the reply of the model, a text or content blocks. By seq also the prompt of an ask, and the
        answer of a person: `"approved"`, or the reason for a refusal. limits: of the session from now on.
        effects: for a `write` or `idempotent` tool without a recorded result: "recorded" ends the ask as
        `needs_effect`, "ask" shows the call where approvals are shown, "live" runs it. None is "recorded",
        and "ask" for an imported session. It holds in every process that goes on with the fork. fork_id: of
        the new session. until: the last event whose input by the client is posted again. deps, files,
        memory: for its tools; None for the runtime's.
        files_to: an empty or new folder for a copy of the files as of `at`, in which its tools work; without
        it they read those of the origin and write none. skip_lost: leave files as they are today whose
        versions the log does not have; else MissingVersions is raised.

        A session that runs can be forked too: at the events that its log has by then. Raises SessionNotFound,
        SessionExists for a `fork_id` that is taken, UnknownName and MisuseError for changes that cannot be
        made, MissingProgram, CorruptLog, Diverged.
        """
        given = {call: result_json(value) for call, value in (changes or {}).items()}
        about = (at, given, limits, checked_effects(effects), fork_id or "", until)
        to = None if files_to is None else Path(files_to)
        wish = Forking(*about, deps, files, memory, to, skip_lost)
        return Opening(lambda: self._started().fork(session_id, agent, wish))
