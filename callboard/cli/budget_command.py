"""`callboard budget`: what each agent has spent and reserved, and the first refusal."""

import click
from rich.text import Text

from callboard.cli.formats import dollars, tokens
from callboard.cli.options import full_option, json_option, log_flag, log_option, session_argument
from callboard.cli.outcomes import usage_json
from callboard.cli.output import emit_json, emit_lines, table
from callboard.cli.recordings import open_recording
from callboard.cli.terminal_escape import safe_line
from callboard.replay.budget import Account, BudgetReport

_SHOWN = 20


@click.command("budget")
@session_argument
@click.option("--at", type=int, metavar="N", help="After event N; by default after the last.")
@full_option
@log_option
@json_option
def budget(session: str, at: int | None, full: bool, log: str, as_json: bool) -> None:
    """Show what each agent has spent and reserved after an event, and the first refusal.

    SPENT is an agent's own, WITH BELOW counts the agents under it. RESERVED is held for model calls in
    flight. An agent that has ended has no limit any more.

    \b
    Examples:
      callboard budget
      callboard budget 2026 --at 1200 --json | jq .refusal
    """
    recording, row = open_recording(log, session)
    found = recording.budget(at)
    if as_json:
        emit_json(_json(row.session_id, found))
        return
    most = sorted(found.accounts, key=lambda one: -one.own.tokens)[: len(found.accounts) if full else _SHOWN]
    shown = [one for one in found.accounts if one in most]
    headings = ("AGENT", "SPENT", "WITH BELOW", "COST", "RESERVED", "LIMIT")
    emit_lines(table(list(map(_row, shown)), headings, right=(1, 2, 3, 4, 5)))
    if len(shown) < len(found.accounts):
        left = len(found.accounts) - len(shown)
        emit_lines([Text(f"{left:,} agents that spent less are left out; --full lists them", style="dim")])
    emit_lines([Text(), _refusal(row.session_id, found)])


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
