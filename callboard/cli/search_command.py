"""`callboard search`: the events of a session that hold a text, or a value at a path."""

from collections.abc import Iterator

import click
import msgspec
from rich.text import Text

from callboard.cli.errors import refuse_if
from callboard.cli.event_lines import line_of
from callboard.cli.events_command import kinds_named
from callboard.cli.folding import Folding
from callboard.cli.options import full_option, json_option, log_option
from callboard.cli.output import WIDE, emit_json, emit_lines, talk, width_of_stdout
from callboard.cli.recordings import open_place
from callboard.replay.recording import Recording
from callboard.replay.search import Match, Query
from callboard.runtime.log.protocol import event_of

_AROUND = 60  # characters before and behind a found text
_VALUE_CHARS = 160


@click.command("search")
@click.argument("words", nargs=-1, metavar="[SESSION] TEXT")
@click.option("--path", default="", metavar="PATH", help="A value in the message, such as body.output.cents.")
@click.option("--eq", metavar="VALUE", help="The value at the path is this one.")
@click.option("--ne", metavar="VALUE", help="It is another one.")
@click.option("--gt", metavar="VALUE", help="It is greater.")
@click.option("--ge", metavar="VALUE", help="It is greater or equal.")
@click.option("--lt", metavar="VALUE", help="It is less.")
@click.option("--le", metavar="VALUE", help="It is less or equal.")
@click.option("--agent", default="", metavar="A", help="Only events that this agent sent or received.")
@click.option("--kind", "kinds", multiple=True, metavar="K", help="Only this kind. May be repeated.")
@click.option("--tool", default="", metavar="T", help="Only calls of this tool, and their answers.")
@full_option
@log_option
@json_option
def search(
    words: tuple[str, ...],
    path: str,
    agent: str,
    kinds: tuple[str, ...],
    tool: str,
    full: bool,
    log: str,
    as_json: bool,
    **compared: str | None,
) -> int:
    """List the events that contain a text, or a value at a path.

    The text is searched in every string and number of a message; upper and lower case are ignored unless the
    text has a capital letter. A path leads through objects, lists and JSON that a tool returned as text; `*`
    stands for every field or item. With one word and --path, the word is the session. SESSION#SEQ starts at
    that event. Long values are folded. The exit code is 3 if nothing is found.

    \b
    Examples:
      callboard search "refund failed"
      callboard search 2026 invoice --tool fetch --kind ToolReturned
      callboard search --path body.output.cents --gt 1000
      callboard search 2026 --path 'body.content.*.name' --eq report_back
    """
    session, text = _session_and_text(words, has_path=bool(path))
    tests = tuple((name, value_of(said)) for name, said in compared.items() if said is not None)
    query = Query(text, path, tests, agent, kinds_named(kinds), tool)
    recording, seq = open_place(log, session)
    fold, count = Folding(is_full=full), 0
    for match in _matches(recording, query, seq or 1):
        _emit(recording.session_id, match, query, fold, as_json=as_json)
        count += 1
    if not count:
        said = f"the {recording.head.seq:,} events of session {recording.session_id}"
        talk(f"nothing found in {said}{f' from {seq} on' if seq else ''}")
    fold.say()
    return 0 if count else 3


def _matches(recording: Recording, query: Query, first: int) -> Iterator[Match]:
    return (match for match in recording.search(query) if match.row.seq >= first)


def _emit(session_id: str, match: Match, query: Query, fold: Folding, *, as_json: bool) -> None:
    width = width_of_stdout()
    if as_json:
        emit_json(match_json(session_id, match), is_line=True)
    else:
        lines = [line_of(event_of(session_id, match.row), width), _shown(match, query, width, fold)]
        emit_lines(lines, is_whole=fold.is_full)


def _session_and_text(words: tuple[str, ...], *, has_path: bool) -> tuple[str, str]:
    refuse_if(len(words) > 2, "write one text, in quotes if it has spaces: callboard search [SESSION] TEXT")
    refuse_if(not words and not has_path, "write a text, or a --path: callboard search [SESSION] TEXT")
    if len(words) == 2:
        return words[0], words[1]
    word = words[0] if words else ""
    return (word, "") if has_path else ("", word)


def value_of(said: str) -> object:
    """Return the JSON value that a person wrote, or the text itself."""
    try:
        return msgspec.json.decode(said)
    except msgspec.DecodeError:
        return said


def match_json(session_id: str, match: Match) -> dict[str, object]:
    """Return a match for `--json`."""
    return {
        "session": session_id,
        "seq": match.row.seq,
        "sender": match.row.sender,
        "recipient": match.row.recipient,
        "kind": match.kind,
        "path": match.path,
        "value": match.value,
    }


def _shown(match: Match, query: Query, width: int, fold: Folding) -> Text:
    """Return the value that was found, cut around the text."""
    value = match.value if isinstance(match.value, str) else msgspec.json.encode(match.value).decode()
    place = value.casefold().find(query.text.casefold()) if query.text else 0
    start = 0 if fold.is_full else max(0, place - _AROUND)
    said = ("…" if start else "") + value[start:]
    longest = _VALUE_CHARS if width == WIDE else max(40, width - 8)
    return Text(f"       {fold.line(f'{match.path} = {said}', longest)}", style="dim")
