"""A fork on command: it runs in the process that owns the log, with the agents of that process."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from callboard.actors.protocol.client_messages import Resumed, SessionOpened, resumed_in
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import TABLE, WHOLE, Limits
from callboard.actors.session.fork_plan import Place, begun_by_profile, plan_changed
from callboard.runtime.agent import Agent, roster
from callboard.runtime.control.wire import ForkSession, StartedFork
from callboard.runtime.forks.starting import Forking, result_json
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.sessions.resuming import RecordedSession, read_session
from callboard.runtime.sessions.session import Session

BOUNDS: Final = ("tokens", "cost_usd")
"""The limits of which a fork needs one: they bound its cost."""


class Forker(Protocol):
    """A runtime, as far as a fork needs it."""

    @property
    def log(self) -> EventLog:
        """Return the log of the sessions."""

    def _host_for(self, session_id: str, name: str, *, is_imported: bool) -> Agent | None:
        """Return the agent for forks of a session; None without one."""

    async def _fork_attended(self, session_id: str, agent: Agent, wish: Forking) -> Session:
        """Begin a fork that is closed once its asks have ended."""


async def fork_session(runtime: Forker, command: ForkSession) -> StartedFork:
    """Begin a fork, which runs on and is closed at its end.

    Raises what `forking_of` and `Runtime.fork` raise, and MisuseError if this process has no agents for it.
    """
    past = await read_session(runtime.log, command.session)
    host = runtime._host_for(command.session, past.host, is_imported=bool(past.imported))
    if host is None:
        raise MisuseError(
            f"the process that owns the log has no agent {past.host!r:.80} to fork this session with; end "
            "it, and serve the page with its agents: `callboard ui --act --with MODULE:AGENT`"
        )
    changed, wish = forking_of(command, past, host)
    session = await runtime._fork_attended(command.session, changed, wish)
    assert isinstance(wish.at, int)
    return StartedFork(session.session_id, wish.at)


def forking_of(command: ForkSession, past: RecordedSession, host: Agent) -> tuple[Agent, Forking]:
    """Return the host and the wish of a fork.

    past: the session to fork. Raises MisuseError and UnknownName for one that cannot be made.
    """
    name, events = command.session, past.events
    changed = with_instructions(host, command.instructions)
    limits = merged_limits(events, command.limits)
    changes: dict[Place, object] = {_seq(place): value for place, value in command.changes.items()}
    values = {place: result_json(value) for place, value in changes.items()}
    begun = begun_by_profile(events, list(command.instructions))
    planned = plan_changed(name, events, command.at, values, begun)
    if command.seen and planned.base > command.seen:
        raise MisuseError(f"the fork would begin at event {planned.base}, which your page does not show yet")
    about = (planned.base, values, limits, command.effects, command.fork_id)
    return changed, Forking(*about)


def _seq(place: str) -> int:
    if not (place.isascii() and place.isdecimal() and len(place) < 16):
        raise MisuseError(f"changes={place!r:.80}: name the recorded answer by its seq")
    return int(place)


def with_instructions(host: Agent, texts: Mapping[str, str]) -> Agent:
    """Return a host with new instructions for these agents. Raises UnknownName."""
    known = roster(host)
    for name, text in texts.items():
        if name not in known:
            raise UnknownName(f"there is no agent {name!r:.80}; there are: {', '.join(known)}")
        host = host.with_instructions(name, text)
    return host


def merged_limits(events: Sequence[Event], named: Mapping[str, float]) -> Limits:
    """Return the limits of a session with the named ones in place of its own.

    Raises MisuseError for an unknown or unusable limit, and without one that bounds the cost.
    """
    for name in named:
        if name not in TABLE:
            raise MisuseError(f"there is no limit {name!r:.80}; there are: {', '.join(TABLE)}")
    try:
        stated = {name: _whole(value) if name in WHOLE else value for name, value in named.items()}
        wanted = Limits(**stated)  # type: ignore[arg-type]  # it checks its values itself
    except (ValueError, OverflowError) as error:
        raise MisuseError(f"limits: {error}") from None
    if all(getattr(wanted, name) is None for name in BOUNDS):
        raise MisuseError("a fork from a page needs a limit that bounds its cost: tokens or cost_usd")
    recorded = limits_in_force(events)
    return msgspec.structs.replace(recorded, **stated) if recorded is not None else wanted


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


def limits_in_force(events: Sequence[Event]) -> Limits | None:
    """Return the limits of a session as they were last recorded; None without any."""
    bodies = (resumed_in(event.body) or event.body for event in reversed(events))
    found = (body.limits for body in bodies if isinstance(body, SessionOpened | Resumed))
    return next(filter(None, found), None)
