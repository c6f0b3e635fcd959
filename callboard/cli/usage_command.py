"""`callboard usage`: the usage of sessions by model, day, profile or tag, from the rows of the log alone."""

import asyncio
from typing import get_args

import click

from callboard.actors.protocol.money import in_dollars
from callboard.actors.session.budget_limits import period_at
from callboard.cli.export_command import opened_log
from callboard.cli.options import json_option, log_option
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.recordings import open_reader
from callboard.cli.sessions_command import parse_since
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import counted
from callboard.runtime.log.reading import shown_address
from callboard.runtime.log.session_rows import SessionQuery
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
    """Add up the usage and the cost of sessions.

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
        emit_json({"log": shown_address(log), **_json(report)})
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
