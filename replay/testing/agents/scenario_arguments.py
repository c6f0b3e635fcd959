"""The arguments of a scenario, and its events as a log.

The arguments of a scenario as users write them, checked where the scenario is made.

Events as a log: in memory for the tools of `callboard.replay`, or in a file.
"""

import asyncio
from collections.abc import Iterable, Sequence

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults, faults
from callboard.replay.testing.sessions.scenario import START_MS
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Monitor
from callboard.runtime.agent import prompt_json
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, EventLog
from callboard.runtime.schemas.output_types import OutputType

FaultsLike = Faults | str | Iterable[str] | None
"""`Faults`, the kinds of faults, `"all"`; None: no faults."""


def faults_of(given: FaultsLike) -> Faults:
    """Return the faults for these kinds. Raises MisuseError for an unknown kind."""
    if isinstance(given, Faults):
        return given
    if given == "all":
        return faults()
    if given is not None and not isinstance(given, Iterable):
        raise MisuseError(f'faults={given!r:.80}: give "all", a list of kinds, Faults(...) or None')
    kinds = (given,) if isinstance(given, str) else tuple(given or ())
    return faults(*kinds) if kinds else NO_FAULTS


def asks_of(given: str | Sequence[str], kind: OutputType) -> list[Ask]:
    """Return the client's asks, in order. Raises MisuseError if they are not a text or a list of texts."""
    prompts = [given] if isinstance(given, str) else given
    if not isinstance(prompts, Sequence) or not prompts:
        raise MisuseError(f"prompt={given!r:.80}: give a text, or a list of texts, asked one after the other")
    return [
        Ask(f"r{n}", prompt_json(one), kind.schema, output_type=kind.name) for n, one in enumerate(prompts, 1)
    ]


def monitors_of(given: Sequence[Monitor[SessionWorld]]) -> tuple[Monitor[SessionWorld], ...]:
    """Return the rules. Raises MisuseError if they are not a list of rules."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise MisuseError(f"monitors={given!r:.80}: give a list, [always(...)]")
    monitors = tuple(given)
    for one in monitors:
        if not _is_rule(one):
            raise MisuseError(
                f"monitors has {one!r:.80}: a rule is always(sentence, function of the world), or at_rest, "
                "eventually, sometimes"
            )
    return monitors


def _is_rule(one: object) -> bool:
    return not isinstance(one, type) and all(hasattr(one, name) for name in ("begin", "after", "at_rest"))


def recording_of(events: Sequence[Event], session_id: str, title: str = "") -> Recording:
    """Return a recording of these events, in memory."""
    log = MemoryLog()
    store(log, events, session_id, title)
    return Recording.open(MemoryReader(log), session_id)


def store(log: EventLog, events: Sequence[Event], session_id: str, title: str = "") -> None:
    """Write a session to a log, which is opened and closed. Raises StoreError."""
    asyncio.run(_store(log, events, session_id, title))


async def _store(log: EventLog, events: Sequence[Event], session_id: str, title: str) -> None:
    await log.open()
    try:
        at = events[0].at if events else START_MS
        epoch = await log.create(session_id, at, title)
        (answer,) = await log.append([Append(session_id, 0, epoch, events)])
        if isinstance(answer, Exception):
            raise answer
    finally:
        await log.close()
