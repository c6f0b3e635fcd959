"""The tables of `callboard tree --reports`."""

from collections.abc import Callable, Container, Sequence

import msgspec
from rich.text import Text

from callboard.cli.errors import not_found
from callboard.cli.folding import Folding
from callboard.cli.output import WIDE, emit, emit_json, emit_lines, table, width_of_stdout
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.replay.reports import Report, Siblings, sibling_reports

_CELL_CHARS = 40
_CELL_MIN = 8
_TEXT_CHARS = 400
_FIRST_ROWS = 40
_LAST_ROWS = 10


def emit_reports(
    recording: Recording, at: int | None, fold: Folding, *, actor: str = "", as_json: bool
) -> None:
    """Print one table for the sub-agents of each parent and profile.

    actor: only the tables of its own sub-agents and of its siblings; '' for all. Raises Failure for an agent
    without any.
    """
    upto = recording.head.seq if at is None else recording.event(at).seq
    found = sibling_reports(recording.events.upto(upto))
    if actor:
        found = [siblings for siblings in found if siblings.is_around(actor)]
        if not found:
            raise not_found(f"no delegation of or by {actor} has ended; `callboard tree` lists the agents")
    odd = {finding.seq for finding in recording.diagnose() if finding.kind == "outlier"}
    if as_json:
        shown = [_json(siblings, odd) for siblings in found]
        emit_json({"session": recording.session_id, "at": upto, "siblings": shown})
        return
    if not found:
        emit("no delegation has ended")
    for siblings in found:
        _emit_siblings(siblings, odd, fold)
    fold.say()


def _emit_siblings(siblings: Siblings, odd: Container[int], fold: Folding) -> None:
    heading, *rows = _table(siblings, odd, width_of_stdout(), fold)
    title = Text(f"\n{siblings.parent} → {safe_line(siblings.profile, 80)}", style="bold")
    emit_lines([title, heading, *fold.lines(rows, _FIRST_ROWS, _LAST_ROWS)], is_whole=fold.is_full)


def _table(siblings: Siblings, odd: Container[int], width: int, fold: Folding) -> Sequence[Text]:
    columns = siblings.columns
    share = max(_CELL_MIN, (width - 30) // max(1, len(columns)) - 2)
    longest = min(_TEXT_CHARS if len(columns) == 1 else _CELL_CHARS, share)
    longest = _TEXT_CHARS if width == WIDE else longest

    def cell(value: object) -> str:
        return fold.line(value if isinstance(value, str) else msgspec.json.encode(value).decode(), longest)

    rows = [_row(report, columns, cell, is_odd=report.seq in odd) for report in siblings.reports]
    headings = ("EVENT", "AGENT", "END", *(safe_line(path, longest) or "TEXT" for path in columns))
    lines = table(rows, headings, right=(0,))
    for line, report in zip(lines[1:], siblings.reports, strict=True):
        line.stylize("yellow" if report.seq in odd else "")
    return lines


def _row(
    report: Report, columns: Sequence[str], cell: Callable[[object], str], *, is_odd: bool
) -> tuple[str, ...]:
    mark = "*" if is_odd else ""
    cells = (cell(report.values[path]) if path in report.values else "" for path in columns)
    return (f"{report.seq}", f"{report.address or '-'}{mark}", report.kind, *cells)


def _json(siblings: Siblings, odd: Container[int]) -> dict[str, object]:
    return {
        "parent": siblings.parent,
        "agent": siblings.profile,
        "reports": [
            {
                "seq": report.seq,
                "address": report.address,
                "kind": report.kind,
                "outlier": report.seq in odd,
                "values": report.values,
            }
            for report in siblings.reports
        ],
    }
