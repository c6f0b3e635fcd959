"""Outcomes as text and as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind
from callboard.actors.protocol.usage import Usage
from callboard.cli.output import attributes
from callboard.cli.terminal_escape import indented, safe_line
from callboard.replay.forks import Billing
from callboard.replay.formats import counted, dollars, duration, tokens
from callboard.runtime.log.reading import is_server, shown_address

if TYPE_CHECKING:  # readers of a log need no agents, which it loads
    from callboard.runtime.sessions.outcomes import Outcome

_FAILED_SHOWN: Final = 5


def head_text(head: tuple[int, str]) -> str:
    """Format a head as `verify --head` takes it."""
    return f"{head[0]}:{head[1]}"


def usage_json(usage: Usage) -> dict[str, object]:
    """Return the usage as JSON; cost in millionths of a US dollar, as in the log, and in dollars."""
    return attributes(usage, "tokens", "cost_usd", *usage.__struct_fields__)


def outcome_json(outcome: "Outcome", log: str, elapsed_ms: int) -> dict[str, object]:
    """Return the outcome as one JSON document."""
    return {
        "session": outcome.session_id,
        "log": shown_address(log) if is_server(log) else str(Path(log).resolve()),
        "head": head_text(outcome.head),
        **attributes(outcome, "status", "kind", "detail", "text"),
        "structured_output": outcome.report,
        "usage": usage_json(outcome.usage),
        "unsettled": {"tokens": outcome.unsettled.tokens, "micro_usd": outcome.unsettled.micro_usd},
        "in_doubt": list(outcome.in_doubt),
        "by": outcome.by,
        "elapsed_s": elapsed_ms / 1_000,
    }


def usage_text(usage: Usage) -> str:
    """Describe the usage in one line."""
    cached, charged = usage.cache_read_tokens + usage.cache_write_tokens, usage.charged_tokens
    parts = [f"{tokens(usage.input_tokens)} in", f"{tokens(usage.output_tokens)} out"]
    parts += [f"{tokens(cached)} cache"] * bool(cached)
    parts += [f"{tokens(charged)} charged for calls without figures"] * bool(charged)
    said = f"{counted(usage.calls, 'model call')}, {usage.tokens:,} tokens ({', '.join(parts)})"
    return said + (f", {dollars(usage.micro_usd)}" if usage.micro_usd else "")


def ending(kind: OutcomeKind, detail: str = "") -> str:
    """Describe a kind of ending, with its detail.

    >>> ending("answered"), ending("cancelled", "by hand"), ending("deadline")
    ('ok: answered in text', 'cancelled: by hand', 'failed (deadline): ran out of time')
    """
    status = STATUS[kind]
    if kind == "cancelled" and detail:
        return f"cancelled: {safe_line(detail, 1_000)}"
    head = f"{status} ({kind})" if status == "failed" else status
    return f"{head}: {EXPLAINED[kind]}" + (f": {safe_line(detail, 1_000)}" if detail else "")


def summary(outcome: "Outcome", log: str, elapsed_ms: int, cost: str = "") -> str:
    """Summarise an outcome for stderr, with its partial work if it failed. cost: in place of its usage."""
    failed = [one for one in outcome.delegations if STATUS[one.kind] == "failed"]
    lines = [ending(outcome.kind, outcome.detail)]
    if outcome.is_ok and failed:
        names = ", ".join(f"{one.profile or one.address} ({one.kind})" for one in failed[:_FAILED_SHOWN])
        more = f", {len(failed) - _FAILED_SHOWN} more" if len(failed) > _FAILED_SHOWN else ""
        count = counted(len(outcome.delegations), "delegation")
        lines[0] += f"; below it {len(failed):,} of {count} failed: {safe_line(names)}{more}"
    if not outcome.is_ok and outcome.text:
        lines += ["partial work:", indented(outcome.text)]
    if outcome.in_doubt:
        lines.append(f"not stopped in time, last effects unknown: {', '.join(outcome.in_doubt)}")
    lines += [
        f"{cost or usage_text(outcome.usage)}, {duration(elapsed_ms)}",
        f"session {outcome.session_id} in {shown_address(log)}, head {head_text(outcome.head)}",
    ]
    return "\n".join(lines)


def billed_text(paid: Billing) -> str:
    """Return in words the cost of a fork: calls answered by the recording, calls made, and their price."""
    taken = f"{counted(paid.reused + paid.reused_tools, 'call')} taken from the recording"
    made = f"{counted(paid.called, 'model call')}" + f" and {counted(paid.tools, 'tool call')}" * bool(
        paid.tools
    )
    price = f", {dollars(paid.billed.micro_usd)}" if paid.billed.micro_usd else ""
    return f"{taken}; asked again: {made}; paid: {tokens(paid.billed.tokens)} tokens{price}"
