"""The spending and reservations of agents, and the first refusal: `callboard show --budget`."""

from rich.text import Text

from callboard.cli.formats import dollars, tokens
from callboard.cli.options import log_flag
from callboard.cli.outcomes import usage_json
from callboard.cli.output import emit_json, emit_lines, table
from callboard.cli.terminal_escape import safe_line
from callboard.replay.budget import Account, BudgetReport
from callboard.replay.recording import Recording

_SHOWN = 20


def emit_budget(recording: Recording, *, is_full: bool, as_json: bool) -> None:
    """Print what each agent has spent and reserved at the end of a recording, and the first refusal."""
    found = recording.budget()
    if as_json:
        emit_json(_json(recording.session_id, found))
        return
    number = len(found.accounts) if is_full else _SHOWN
    most = sorted(found.accounts, key=lambda one: -one.own.tokens)[:number]
    shown = [one for one in found.accounts if one in most]
    headings = ("AGENT", "SPENT", "WITH BELOW", "COST", "RESERVED", "LIMIT")
    emit_lines(table(list(map(_row, shown)), headings, right=(1, 2, 3, 4, 5)))
    if len(shown) < len(found.accounts):
        left = len(found.accounts) - len(shown)
        emit_lines([Text(f"{left:,} agents that spent less are left out; --full lists them", style="dim")])
    emit_lines([Text(), _refusal(recording.session_id, found)])


def _row(account: Account) -> tuple[str, ...]:
    name = account.address if account.profile == account.address else f"{account.address} {account.profile}"
    limits = [f"{account.tokens_max:,} tokens"] if account.tokens_max is not None else []
    limits += [dollars(account.micro_usd_max)] if account.micro_usd_max is not None else []
    return (
        safe_line(name, 60),
        tokens(account.own.tokens),
        tokens(account.subtree.tokens),
        dollars(account.subtree.micro_usd),
        tokens(account.reserved.tokens),
        ", ".join(limits),
    )


def _refusal(session_id: str, found: BudgetReport) -> Text:
    if found.refusal is None:
        return Text(f"no refusal by a budget up to event {found.at:,}")
    seq, agent, detail = found.refusal
    said = f"first refusal: event {seq}, {agent}{': ' + safe_line(detail, 300) if detail else ''}"
    return Text(f"{said}\n  callboard why {session_id}#{seq}{log_flag()}")


def _json(session_id: str, found: BudgetReport) -> dict[str, object]:
    accounts = [
        {
            "address": one.address,
            "agent": one.profile,
            "own": usage_json(one.own),
            "with_below": usage_json(one.subtree),
            "reserved": one.reserved,
            "tokens_max": one.tokens_max,
            "micro_usd_max": one.micro_usd_max,
        }
        for one in found.accounts
    ]
    refusal = found.refusal._asdict() if found.refusal else None
    return {"session": session_id, "at": found.at, "accounts": accounts, "refusal": refusal}
