"""`callboard diagnose`: what went wrong in a session, and the next command to look at it."""

from collections.abc import Sequence

import click
from rich.text import Text

from callboard.cli.options import json_option, log_flag, log_option, session_argument
from callboard.cli.output import emit, emit_json, emit_lines, talk, width_of_stderr, width_of_stdout
from callboard.cli.recordings import open_recording
from callboard.cli.terminal_escape import safe_line
from callboard.cli.word_wrap import wrapped
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.recording import Recording

_HEADLINE_EVENTS_MAX = 100_000  # a longer session would take seconds
_HEADLINE_FINDINGS = 3
_HEADLINE_CHARS = 240
_CHARS = 600
_INDENT = 14  # the columns of a finding's mark and event


@click.command("diagnose")
@session_argument
@log_option
@json_option
def diagnose(session: str, log: str, as_json: bool) -> None:
    """Find what went wrong in a session.

    Each cause is reported once, with its event and the next command, which shows it.

    Facts, marked `!`: asks that failed, failures below an ask that ended well, ends at limits, calls that an
    agent refused and that never succeeded later, loops (the same call with the same result three times, and
    no effect in between), a task that was repeated several times, calls whose effect is unknown, errors that
    a tool returned until the end, approvals with changed arguments, another model than the one that was
    asked, messages that no agent read, late reports, lost prompt caches.

    Guesses, marked `maybe`: messages that came after the call they were about, a read before another agent's
    write of the same thing, an empty value after an error, a report that differs from those of its siblings,
    a requested report that was not used, a tool that always returns the same. Every digest is checked.

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
        emit_lines(lines_of(row.session_id, found, log_flag(), width_of_stdout()), is_whole=True)
    else:
        emit(f"nothing found in the {row.head:,} events of session {row.session_id}")


def emit_headline(recording: Recording) -> None:
    """Say on stderr what a session's diagnosis found, the most telling first; nothing without findings."""
    if recording.head.seq > _HEADLINE_EVENTS_MAX:
        return
    found, width = recording.diagnose(), width_of_stderr()
    for one in found[:_HEADLINE_FINDINGS]:
        talk(wrapped(f"{_mark(one)} event {one.seq}: {safe_line(one.says, _HEADLINE_CHARS)}", width))
    if found:
        more = f"{len(found) - _HEADLINE_FINDINGS:,} more findings, and" * (len(found) > _HEADLINE_FINDINGS)
        said = f"  {more or 'for'} the next commands: callboard diagnose {recording.session_id}{log_flag()}"
        talk(wrapped(said, width) + "\n")


def _mark(finding: Finding) -> str:
    return "maybe" if finding.is_maybe else "!"


def lines_of(session_id: str, found: Sequence[Finding], flag: str, width: int) -> list[Text]:
    """Return the lines of each finding: its sentence, broken at words, and the next command.

    width: of the terminal, in columns.
    """
    lines = []
    for one in found:
        style = "yellow" if one.is_maybe else "bold red"
        first, *more = wrapped(safe_line(one.says, _CHARS), max(1, width - _INDENT)).split("\n")
        lines.append(Text.assemble((f"{_mark(one):<5} ", style), (f"{one.seq:>6}  ", "bold"), first))
        lines += [Text(" " * _INDENT + line) for line in more]
        command = safe_line(_command(session_id, one), _CHARS)
        lines.append(Text(f"{' ' * _INDENT}callboard {command}{flag}", style="dim"))
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
