"""`callboard diagnose`: what went wrong in a session, and the next command to look at it."""

from collections.abc import Sequence

import click
from rich.text import Text

from callboard.cli.options import json_option, log_flag, log_option, session_argument
from callboard.cli.output import emit, emit_json, emit_lines, talk
from callboard.cli.recordings import open_recording
from callboard.cli.terminal_escape import safe_line
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.recording import Recording

_HEADLINE_EVENTS_MAX = 100_000  # a longer session would take seconds
_HEADLINE_FINDINGS = 3


@click.command("diagnose")
@session_argument
@log_option
@json_option
def diagnose(session: str, log: str, as_json: bool) -> None:
    """Find what went wrong in a session.

    Facts: asks that failed, failures below an ask that ended well, loops (a tool called three times with the
    same arguments), refusals by limits, calls whose effect is not known, errors that repeat, late reports,
    lost prompt caches. Guesses, marked `maybe`: a report whose values the parent never used, a report far
    from its siblings'. Every digest is checked on the way.

    \b
    Examples:
      callboard diagnose
      callboard diagnose 2026 --json | jq '.findings[].says'
    """
    recording, row = open_recording(log, session)
    found = recording.diagnose()
    if as_json:
        emit_json(
            {"session": row.session_id, "findings": [finding_json(row.session_id, one) for one in found]}
        )
    elif found:
        emit_lines(lines_of(row.session_id, found, log_flag()))
    else:
        emit(f"nothing found in the {row.head:,} events of session {row.session_id}")


def emit_headline(recording: Recording) -> None:
    """Say on stderr what a session's diagnosis found, the most telling first; nothing without findings."""
    if recording.head.seq > _HEADLINE_EVENTS_MAX:
        return
    found = recording.diagnose()
    for one in found[:_HEADLINE_FINDINGS]:
        talk(f"{_mark(one)} event {one.seq}: {safe_line(one.says, 200)}")
    if found:
        more = f"{len(found) - _HEADLINE_FINDINGS:,} more findings, and" * (len(found) > _HEADLINE_FINDINGS)
        talk(f"  {more or 'for'} the next commands: callboard diagnose {recording.session_id}{log_flag()}\n")


def _mark(finding: Finding) -> str:
    return "maybe" if finding.is_maybe else "!"


def lines_of(session_id: str, found: Sequence[Finding], flag: str) -> list[Text]:
    """Return two lines for each finding: its sentence, and the next command."""
    lines = []
    for one in found:
        style = "yellow" if one.is_maybe else "bold red"
        said = Text.assemble(
            (f"{_mark(one):<5} ", style), (f"{one.seq:>6}  ", "bold"), safe_line(one.says, 400)
        )
        lines += [said, Text(f"              callboard {_command(session_id, one)}{flag}", style="dim")]
    return lines


def _command(session_id: str, finding: Finding) -> str:
    return finding.command.format(at=f"{session_id}#{finding.seq}", session=session_id, seq=finding.seq)


def finding_json(session_id: str, finding: Finding) -> dict[str, object]:
    """Return a finding for `--json`."""
    return {
        "kind": finding.kind,
        "maybe": finding.is_maybe,
        "seq": finding.seq,
        "agent": finding.agent,
        "says": finding.says,
        "command": f"callboard {_command(session_id, finding)}",
    }
