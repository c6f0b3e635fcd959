"""`callboard fork --n`: several forks with the same changes, beside the session that was forked."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.cli.formats import dollars, tokens
from callboard.cli.output import emit_json, emit_lines, table
from callboard.cli.terminal_escape import safe_line
from callboard.replay.billing import billing

_TEXT_CHARS = 40
_HEADINGS = ("SESSION", "OUTCOME", "TURNS", "CALLED", "REUSED", "TOKENS", "BILLED", "COST", "TEXT")


class Variant(NamedTuple):
    """The figures of one fork, or of the session that was forked.

    turns: replies of models in the whole session. called, reused: of those of the fork itself, the ones that
    were made and the ones that were taken from the recording. used: of the whole session, recorded answers
    included. billed: for the calls that were made.
    """

    session: str
    outcome: OutcomeKind
    text: str
    turns: int
    called: int
    reused: int
    used: Usage
    billed: Usage


def variant_of(session_id: str, events: Sequence[Event]) -> Variant:
    """Return the figures of a session."""
    paid = billing(events)
    bodies = [event.body for event in events]
    replies = [body for body in bodies if isinstance(body, ModelReplied)]
    turns = sum(reply.status == "ok" for reply in replies)
    used = reduce(plus, (reply.usage or ZERO for reply in replies), ZERO)
    ends = [body for body in bodies if isinstance(body, AskEnded)]
    end = ends[-1] if ends else AskEnded("", "cancelled")
    figures = (turns, paid.called, paid.reused, used, paid.billed)
    return Variant(session_id, end.kind, end.text or bytes(end.value).decode(), *figures)


def emit_variants(origin: Variant, found: Sequence[Variant], *, as_json: bool) -> None:
    """Print a row for each fork, below the one of the session that was forked."""
    if as_json:
        emit_json({"origin": _json(origin), "forks": [_json(one) for one in found]})
        return
    emit_lines(table([_row(one) for one in (origin, *found)], _HEADINGS, right=range(2, 8)))


def _row(one: Variant) -> tuple[str, ...]:
    counts = (f"{one.turns:,}", f"{one.called:,}", f"{one.reused:,}")
    sums = (tokens(one.used.tokens), tokens(one.billed.tokens), dollars(one.billed.micro_usd))
    return (safe_line(one.session), one.outcome, *counts, *sums, safe_line(one.text, _TEXT_CHARS))


def _json(one: Variant) -> dict[str, object]:
    sums = {"tokens": one.used.tokens, "billed_tokens": one.billed.tokens}
    return {
        **{name: getattr(one, name) for name in ("session", "outcome", "text", "turns", "called", "reused")},
        **sums,
        "cost_micro_usd": one.used.micro_usd,
        "billed_micro_usd": one.billed.micro_usd,
    }
