"""The amounts in a log: usage of sessions, and budgets above them.

`callboard usage`: the usage of sessions by model, day, profile or tag, from the rows of the log alone.

`callboard budgets`: the amounts spent in budgets above sessions, as the log keeps them.
"""

import asyncio
from collections.abc import Sequence
from typing import get_args

import click
from rich.text import Text

from callboard.actors.protocol.money import in_dollars
from callboard.actors.session.budget_keys import Reservation
from callboard.actors.session.budget_periods import period_at
from callboard.actors.session.budget_scope import Spent
from callboard.cli.export_command import opened_log
from callboard.cli.formats import counted, utc
from callboard.cli.options import json_option, log_option
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.recordings import open_reader
from callboard.cli.sessions_command import parse_since
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.log.session_rows import SessionQuery
from callboard.runtime.log.spending import Unlogged
from callboard.runtime.sessions.usage import UsageBy, UsageReport, fill_usage, report_of, tags_of


@click.command("usage")
@click.option(
    "--by", type=click.Choice(get_args(UsageBy)), default="model", show_default=True, help="Sum up by this."
)
@click.option("--tag", metavar="TAG", help="Only sessions with this tag.")
@click.option("--since", metavar="WHEN", help="Only from the UTC day of this moment on: 12h, 7d, or a date.")
@click.option("--fill", is_flag=True, help="First add up the sessions of imports and older logs.")
@log_option
@json_option
def usage(by: UsageBy, tag: str | None, since: str | None, fill: bool, log: str, as_json: bool) -> None:
    """Sum the usage and the cost of sessions up.

    Days are those of UTC. With --by tag a session with several tags counts in each, so the lines overlap.
    Deleted sessions do not count.

    \b
    Examples:
      callboard usage --since 30d
      callboard usage --by day --tag tenant:acme --json
    """
    if fill:
        filled = asyncio.run(_fill(log))
        talk(f"filled in the usage of {counted(filled, 'session')}")
    day = "" if since is None else period_at("day", parse_since(since))
    with open_reader(log) as reader:
        tags = tags_of(reader.sessions(SessionQuery(tag=tag)), None)
        report = report_of(reader.usage(day), tags, by)
    if as_json:
        emit_json({"log": log, **_json(report)})
    elif report.lines:
        _emit(report)
    else:
        talk("no session has used anything; `callboard usage --fill` adds up imported and older sessions")


async def _fill(path: str) -> int:
    async with opened_log(path) as log:
        return await fill_usage(log)


def _emit(report: UsageReport) -> None:
    lines = [(line.key or "(none)", line.usage) for line in report.lines]
    rows = [
        (safe_line(key, 80), f"{used.calls:,}", f"{used.tokens:,}", in_dollars(used.micro_usd))
        for key, used in [*lines, ("total", report.total)]
    ]
    emit_lines(table(rows, (report.by.upper(), "CALLS", "TOKENS", "COST"), right=(1, 2, 3)))
    if report.overlaps:
        talk("a session with several tags counts in each line, and once in the total")


def _json(report: UsageReport) -> dict[str, object]:
    lines = [{report.by: line.key, **line.usage.to_dict()} for line in report.lines]
    return {"by": report.by, "overlaps": report.overlaps, "lines": lines, "total": report.total.to_dict()}


@click.command("budgets")
@log_option
@json_option
def budgets(log: str, as_json: bool) -> None:
    """List the amounts spent in the budgets above sessions, by scope and period.

    Reservations are those of calls without an answer: of sessions that run, or that wait for a resume. A
    charge that is `not logged` is that of a call which a crash has lost (docs/budgets.md). The limits are not
    in the log: they are those of `Runtime(budgets=...)`.

    \b
    Examples:
      callboard budgets
      callboard budgets --json | jq '.spent[] | select(.scope == "*")'
    """
    with open_reader(log) as reader:
        (spent, reserved), unlogged = reader.spending()
    if as_json:
        emit_json(
            {
                "log": log,
                "spent": list(map(_spent_json, spent)),
                "reserved": list(map(_call_json, reserved)),
                "unlogged": [{**_call_json(one.reservation), "at": utc(one.at_ms)} for one in unlogged],
            }
        )
    elif spent or reserved or unlogged:
        _emit_budgets(spent, reserved, unlogged)
    else:
        talk("nothing is spent or reserved under a budget above sessions; see docs/budgets.md")


def _emit_budgets(
    spent: Sequence[Spent], reserved: Sequence[Reservation], unlogged: Sequence[Unlogged]
) -> None:
    rows = [
        (
            safe_line(one.scope, 80),
            one.period or "all time",
            f"{one.amount.tokens:,}",
            in_dollars(one.amount.micro_usd),
        )
        for one in spent
    ]
    emit_lines(table(rows, ("SCOPE", "PERIOD", "TOKENS", "COST"), right=(2, 3)))
    calls = [(one, "reserved") for one in reserved]
    calls += [(one.reservation, "not logged") for one in unlogged]
    cells = [
        (
            safe_line(one.key.session, 80),
            f"{one.key.agent}, turn {one.key.turn}.{one.key.attempt}",
            f"{one.need.tokens:,}",
            in_dollars(one.need.micro_usd),
            state,
        )
        for one, state in calls
    ]
    if cells:
        emit_lines([Text(), *table(cells, ("SESSION", "CALL", "TOKENS", "COST", "STATE"), right=(2, 3))])


def _spent_json(one: Spent) -> dict[str, object]:
    amount = {"tokens": one.amount.tokens, "cost_usd": one.amount.micro_usd / 1_000_000}
    return {"scope": one.scope, "period": one.period or None, **amount}


def _call_json(one: Reservation) -> dict[str, object]:
    key, need = one.key, one.need
    return {
        "session": key.session,
        "agent": key.agent,
        "turn": key.turn,
        "attempt": key.attempt,
        "tokens": need.tokens,
        "cost_usd": need.micro_usd / 1_000_000,
        "scopes": [scope for scope, _ in one.spans],
    }
