"""`callboard diff`: where two sessions differ, and what that cost."""

from collections.abc import Sequence
from typing import TypeAlias

import click
import msgspec
from msgspec import to_builtins
from rich.text import Text

from callboard.cli.errors import DIVERGED
from callboard.cli.folding import Folding
from callboard.cli.options import full_option, json_option, log_option
from callboard.cli.output import emit_json, emit_lines, table
from callboard.cli.recordings import open_recording
from callboard.cli.terminal_escape import safe_line
from callboard.replay.descriptions import words_of
from callboard.replay.diff import Difference, SessionDiff, Totals
from callboard.replay.divergence import ABSENT, ABSENT_TEXT
from callboard.replay.file_diffs import FileChange, folder_diff
from callboard.replay.folders import files_of
from callboard.replay.formats import dollars, tokens
from callboard.replay.recording import Recording

Sides: TypeAlias = tuple[Recording, Recording]

_SHOWN = 20
_VALUE_CHARS = 200
_PROFILE_LINES = 60
_TITLES = ("first event that differs", "further events that differ")


@click.command("diff")
@click.argument("first", metavar="FIRST")
@click.argument("second", metavar="SECOND")
@full_option
@click.option(
    "--other-log", default="", metavar="FILE", help="The second session's log, if it is another one."
)
@log_option
@json_option
def diff(first: str, second: str, full: bool, other_log: str, log: str, as_json: bool) -> int:
    """Compare two sessions: their agents, their behaviour, their cost.

    Events are paired by agent, turn, attempt and call, and sub-agents by profile and prompt. Seqs, ids, times
    and usage figures do not count as differences. The output has the changes of the agents' definitions
    first, then the first event that differs, then the others, then the files that differ at the ends of both
    sessions, then the totals. SESSION#SEQ is a session as it was after that event. The exit code is 5 if the
    sessions differ.

    \b
    Examples:
      callboard diff 20260801-101500 20260802-101500
      callboard diff one two --json | jq '.differences[0]'
    """
    one, mine = open_recording(log, first)
    other, theirs = open_recording(other_log or log, second)
    found = one.diff(other)
    names = (mine.session_id, theirs.session_id)
    changed = list(folder_diff(files_of(one), files_of(other)))
    if as_json:
        emit_json(diff_json(names, found) | {"files": [_file_json(file) for file in changed]})
    else:
        fold = Folding(is_full=full)
        lines = [*_lines(found, (one, other), fold), *_file_lines(changed, fold)]
        emit_lines([*lines, Text(""), *_totals(found.totals, names)], is_whole=full)
        fold.say()
    return 0 if found.is_same else DIVERGED


def _lines(found: SessionDiff, sides: Sides, fold: Folding) -> list[Text]:
    lines = [Text("agents", style="bold")] if found.profiles else []
    profiles = [Text(fold.line(line, 2_000), style=_STYLES.get(line[:1], "")) for line in found.profiles]
    lines += fold.lines(profiles, _PROFILE_LINES)
    lines += _difference_lines(found.differences, sides, fold)
    if found.is_same:
        lines.append(
            Text(f"both sessions did the same: all {found.pairs:,} compared pairs of events are equal")
        )
    return lines


def _difference_lines(differences: Sequence[Difference], sides: Sides, fold: Folding) -> list[Text]:
    shown, left, _ = fold.ends(differences, _SHOWN, 0)
    lines = []
    for place, one in enumerate(shown):
        if place < len(_TITLES):
            lines.append(Text(_TITLES[place], style="bold"))
        lines += _difference(one, sides, fold)
    if left:
        lines.append(fold.gap(left, "differences"))
    return lines


def _file_lines(changed: Sequence[FileChange], fold: Folding) -> list[Text]:
    """Return the files that differ at the ends of both sessions, with their lines."""
    lines = [Text("files that differ", style="bold")] if changed else []
    shown, left, _ = fold.ends(changed, _SHOWN, 0)
    for file in shown:
        lines.append(Text(f"  {safe_line(file.path)}"))
        styled = [Text(f"    {fold.line(line, 200)}", style=_STYLES.get(line[:1], "")) for line in file.lines]
        lines += fold.lines(styled, _PROFILE_LINES)
    return [*lines, fold.gap(left, "files")] if left else lines


def _file_json(file: FileChange) -> dict[str, object]:
    return {**file._asdict(), "first": to_builtins(file.first), "second": to_builtins(file.second)}


_STYLES = {"+": "green", "-": "red", "@": "dim"}


def _difference(one: Difference, sides: Sides, fold: Folding) -> list[Text]:
    where = f"{one.place or one.agent or 'client'} {one.kind}"
    if 0 in one.seqs:
        place, sign = (0, "-") if one.seqs[0] else (1, "+")
        seq = one.seqs[place]
        said = fold.line(words_of(sides[place].event(seq).body), _VALUE_CHARS)
        only = Text(f"  #{seq}  {where}: only in the {('first', 'second')[place]}")
        return [only, Text(f"    {sign} {said}", style=_STYLES[sign])] if said else [only]
    first, second = fold.pair(_value(one.first), _value(one.second), _VALUE_CHARS)
    return [
        Text(f"  #{one.seqs[0]} / #{one.seqs[1]}  {where}: {fold.line(one.path, 200)}"),
        Text(f"    - {first}", style="red"),
        Text(f"    + {second}", style="green"),
    ]


def _value(value: object) -> str:
    if value is ABSENT:
        return ABSENT_TEXT
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _totals(totals: tuple[Totals, Totals], names: tuple[str, str]) -> list[Text]:
    rows = [
        (
            name,
            one.outcome,
            f"{one.agents:,}",
            f"{one.turns:,}",
            f"{one.tool_calls:,}",
            tokens(one.tokens),
            dollars(one.micro_usd),
        )
        for name, one in zip(names, totals, strict=True)
    ]
    headings = ("SESSION", "OUTCOME", "AGENTS", "TURNS", "TOOLS", "TOKENS", "COST")
    return table(rows, headings, right=(2, 3, 4, 5, 6))


def diff_json(names: tuple[str, str], found: SessionDiff) -> dict[str, object]:
    """Return the difference of two sessions for `--json`."""
    return {
        "sessions": names,
        "same": found.is_same,
        "pairs": found.pairs,
        "profiles": found.profiles,
        "differences": [_without_absent(one) for one in found.differences],
        "totals": [one._asdict() for one in found.totals],
    }


def _without_absent(one: Difference) -> dict[str, object]:
    return {name: value for name, value in one._asdict().items() if value is not ABSENT}
