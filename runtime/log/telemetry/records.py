"""The records of the log files of a service: one for each event that an engineer on call may look for.

A record never has prompts, answers, arguments, results or the words of an error, unless content is asked for;
secrets are in no event.
"""

import logging
import re
from collections.abc import Callable
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from callboard.actors.protocol.client_messages import AskEnded, Forked, Resumed, TellEnded
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded, Finished, Stop
from callboard.actors.protocol.port_messages import CUT_OFF, ApprovalGiven, ModelReplied, ToolReturned
from callboard.runtime.log.telemetry.attributes import cut

ASKS: Final = "callboard.asks"
DELEGATIONS: Final = "callboard.delegations"
MODELS: Final = "callboard.models"
TOOLS: Final = "callboard.tools"
REFUSALS: Final = "callboard.refusals"
SESSIONS: Final = "callboard.sessions"
STORE: Final = "callboard.store"
TELEMETRY: Final = "callboard.telemetry"

LOGGERS: Final = MappingProxyType(
    {
        ASKS: "each ended ask: INFO, WARNING if it failed",
        DELEGATIONS: "each delegation that failed or was denied: WARNING",
        MODELS: "each failed attempt of a model call: WARNING; INFO if the end of a process cut it off",
        TOOLS: "each tool call that failed, or whose effect is unknown: WARNING",
        REFUSALS: "each refusal by a budget: WARNING; by a person, or of a message to an agent: INFO",
        SESSIONS: "each resume and fork: INFO; a session that fails in this process: ERROR",
        STORE: "a session that another process took over, or a slow commit: WARNING",
        TELEMETRY: "a span processor that raises or falls behind, once: WARNING",
    }
)
"""Logger of events -> its records and their levels."""

OWN_LOGGERS: Final = MappingProxyType(
    {
        "callboard.models": "a model adapter that raised: ERROR; a body that cannot be kept: WARNING",
        "callboard.tools": "a listed tool that is left out: WARNING; a progress callback that raised: DEBUG",
        "callboard.approvals": "a function that asks people and raised: ERROR",
        "callboard.programs": "a step that is slow, or a program that does not end: WARNING",
        "callboard.histories": "a history that had to be repaired: WARNING",
        "callboard.mcp": "a server, or an entry of its file, that is left out: WARNING",
        "callboard.ports": "work that does not end when it is cancelled: WARNING",
        "callboard.control": "a process that commands cannot reach: ERROR",
        "callboard.removal": "deleted sessions that cannot be removed: ERROR",
        "callboard.budgets": "a store of shared budgets that cannot be asked: WARNING",
        "callboard.worker": "a session that a worker cannot run, and a lease that was lost: WARNING",
        "callboard.client": "a client that owners cannot notify, so that it asks them: WARNING",
        "callboard.shard": "a shard on Ray that ended, before Ray starts it again: WARNING",
        "callboard.board": "a decider that raised, which is a fault of callboard: ERROR",
    }
)
"""Logger -> the faults of code in this process that it tells of, with the words of exceptions."""

_SHOWN: Final = 200  # characters of foreign text, such as an error code
_TEXT: Final = 2_000  # characters of content, if it is asked for
_FRAMES: Final = 20
_TYPE: Final = re.compile(r"([A-Za-z_][\w.]*)(?=:|\n|$)")
_FRAME: Final = re.compile(r'  File "([^"]*)", line (\d+), in (.*)')


class Record(NamedTuple):
    """A log record. text: its message, with a `%s` for each argument. actor: an address.

    detail: content, empty unless it is asked for. frames: of a tool that raised, the innermost last.
    error: the type of a failure.
    """

    logger: str
    level: int
    text: str
    arguments: tuple[object, ...]
    actor: str
    detail: str = ""
    error: str = ""
    frames: tuple[str, ...] = ()


def record_of(event: Event, *, has_content: bool = False) -> Record | None:
    """Return the record of an event; None for most kinds. has_content: with the words of errors."""
    handler = _HANDLERS.get(type(event.body))
    found = handler(event, event.body) if handler is not None else None
    return found if found is None or has_content else found._replace(detail="")


def _ask_ended(event: Event, body: AskEnded) -> Record:
    failed = STATUS[body.kind] == "failed"
    level = logging.WARNING if failed else logging.INFO
    text = "ask ended: %s; model calls %d, tokens %d, USD %.4f"
    figures = (body.kind, body.usage.calls, body.usage.tokens, body.usage.cost_usd)
    return Record(ASKS, level, text, figures, "host", body.detail[:_TEXT], body.kind if failed else "")


def _delegation_ended(event: Event, body: DelegationEnded) -> Record | None:
    if STATUS[body.kind] != "failed":
        return None
    name = f" ({body.metadata.subagent})" if body.metadata is not None else ""
    actor = body.address or event.recipient
    text, said = "delegation ended: %s%s", (body.kind, name)
    return Record(DELEGATIONS, logging.WARNING, text, said, actor, body.detail[:_TEXT], body.kind)


def _replied(event: Event, body: ModelReplied) -> Record | None:
    if body.status in CUT_OFF:
        text = "model call %s: turn %d, attempt %d; the resume asks again"
        cut_off = (body.status, body.turn, body.attempt)
        return Record(MODELS, logging.INFO, text, cut_off, event.recipient, error=body.status)
    failure = body.failure
    if body.status != "error" or failure is None or failure.code == "crashed":  # a program says so itself
        return None
    code = cut(failure.code, _SHOWN)
    text = "model call failed: %s in turn %d, attempt %d, %s"
    said = (code, body.turn, body.attempt, "may be tried again" if failure.is_retryable else "final")
    return Record(MODELS, logging.WARNING, text, said, event.recipient, failure.message[:_TEXT], code)


def _returned(event: Event, body: ToolReturned) -> Record | None:
    if body.status not in ("error", "interrupted"):
        return None
    words = _text_of(body) if body.status == "error" else ""
    frames = frames_of(body.trace)
    name = body.telemetry.code if body.telemetry is not None and body.telemetry.code else body.status
    if body.trace and (found := _TYPE.match(words)):  # the output of a tool that raised begins with the type
        name = found[1]
    where = f" at {frames[-1]}" if frames else ""
    text, said = "tool failed: %s in turn %d, call %d%s", (name, body.turn, body.call, where)
    return Record(TOOLS, logging.WARNING, text, said, event.recipient, words[:_TEXT], name, frames)


def frames_of(trace: str) -> tuple[str, ...]:
    """Return the frames of a traceback, of a chain those of its first exception, without any words of it.

    A message stands behind the frames of its exception, so nothing in it is taken for a frame. A traceback
    that was cut at its beginning has none.
    """
    lines = trace.splitlines()
    if not lines or not lines[0].startswith("Traceback (most recent call last):"):
        return ()
    own = takewhile(lambda line: line.startswith("  "), lines[1:])
    found = [f"{one[1]}:{one[2]} in {one[3]}" for line in own if (one := _FRAME.fullmatch(line))]
    return tuple(found[-_FRAMES:])


def _text_of(body: ToolReturned) -> str:
    value = msgspec.json.decode(body.output)
    return value if isinstance(value, str) else bytes(body.output).decode()


def _finished(event: Event, body: Finished) -> Record | None:
    return _budget(event.sender, body.detail) if body.kind == "budget" else None


def _stop(event: Event, body: Stop) -> Record | None:
    return _budget(event.recipient, "") if body.reason == "budget" else None


def _budget(actor: str, detail: str) -> Record:
    return Record(
        REFUSALS, logging.WARNING, "refused by a budget: %s", (actor,), actor, detail[:_TEXT], "budget"
    )


def _approval(event: Event, body: ApprovalGiven) -> Record | None:
    if body.verdict != "denied":
        return None
    text, said = "call denied by a person: turn %d, call %d", (body.turn, body.call)
    return Record(REFUSALS, logging.INFO, text, said, event.recipient, body.note[:_TEXT], "denied")


def _tell_ended(event: Event, body: TellEnded) -> Record | None:
    if body.status != "refused":
        return None
    text = "message to a running agent refused"
    return Record(REFUSALS, logging.INFO, text, (), event.sender, body.detail[:_TEXT], "refused")


def _resumed(event: Event, body: Resumed) -> Record:
    doing = "reopened" if body.reopens else "resumed"
    return Record(SESSIONS, logging.INFO, "session %s at event %d", (doing, event.seq), event.sender)


def _forked(event: Event, body: Forked) -> Record:
    text = "session forked from %s at event %d"
    return Record(SESSIONS, logging.INFO, text, (body.origin, body.at), event.sender)


_HANDLERS: Final[dict[type, Callable[[Event, Any], Record | None]]] = {
    AskEnded: _ask_ended,
    DelegationEnded: _delegation_ended,
    ModelReplied: _replied,
    ToolReturned: _returned,
    Finished: _finished,
    Stop: _stop,
    ApprovalGiven: _approval,
    TellEnded: _tell_ended,
    Resumed: _resumed,
    Forked: _forked,
}
