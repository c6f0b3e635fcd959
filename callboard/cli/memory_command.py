"""`callboard memory`: look into a memory's file, and forget an entry."""

import click

from callboard.actors.protocol.errors import MemoryFailed
from callboard.cli.errors import CORRUPT, FAILED, Failure, not_found
from callboard.cli.options import json_option
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import local, utc
from callboard.runtime.log.reading import file_of, is_server, shown_address
from callboard.runtime.memory.access import HITS_MAX, MemoryEntry
from callboard.runtime.memory.opening import memory_at
from callboard.runtime.memory.postgres import PostgresMemory
from callboard.runtime.memory.sqlite import SQLiteMemory

_CORRUPT = ("damaged", "foreign", "too_new")


@click.command("memory")
@click.argument("file")
@click.argument("name", default="")
@click.argument("query", default="")
@click.option(
    "-n",
    "--number",
    default=20,
    show_default=True,
    type=click.IntRange(1, HITS_MAX),
    help="List at most this many.",
)
@click.option("--forget", metavar="ID", default="", help="Remove this entry of the memory.")
@json_option
def memory(file: str, name: str, query: str, number: int, forget: str, as_json: bool) -> None:
    """List the memories of a file, or the entries of one, or forget an entry.

    FILE, or the URL of a PostgreSQL server, is that of `Runtime(memory=...)`. NAME is `shared`, or
    `agent:NAME` for the memory of the agents of a profile. The newest entries are listed, or
    those that match QUERY, best match first.

    \b
    Examples:
      callboard memory memory.db
      callboard memory memory.db shared "tea coffee"
      callboard memory memory.db shared --forget 5f0c1e9b2d3a4c5e
    """
    if not (is_server(file) or file_of(file).exists()):  # a look must not make a file
        raise not_found(f"there is no file {file}")
    store = memory_at(file)
    try:
        if forget:
            _forget(store, name, forget)
        elif name:
            _list_entries(store.recall(name, query, number), as_json=as_json)
        else:
            _list_memories(store.sizes(), as_json=as_json)
    except MemoryFailed as error:
        raise Failure(
            f"{shown_address(file)}: {error}", CORRUPT if error.reason in _CORRUPT else FAILED
        ) from error


def _forget(store: SQLiteMemory | PostgresMemory, name: str, entry_id: str) -> None:
    if not store.forget(name, entry_id):
        raise not_found(f"the memory {name!r} has no entry {entry_id!r}")
    talk(f"forgot {safe_line(entry_id, 80)}")


def _list_memories(sizes: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        emit_json({"memories": sizes})
    elif sizes:
        emit_lines(
            table([(safe_line(name, 80), f"{n:,}") for name, n in sizes.items()], ("MEMORY", "ENTRIES"), (1,))
        )
    else:
        talk("the file has no entries")


def _list_entries(entries: list[MemoryEntry], *, as_json: bool) -> None:
    if as_json:
        emit_json({"entries": [_json(one) for one in entries]})
    elif entries:
        cells = [
            (one.id, local(one.at), safe_line(one.by, 40), " ".join(one.labels), safe_line(one.text, 200))
            for one in entries
        ]
        emit_lines(table(cells, ("ID", "TIME", "BY", "LABELS", "TEXT")))
    else:
        talk("no entry matches")


def _json(entry: MemoryEntry) -> dict[str, object]:
    return {
        "id": entry.id,
        "text": entry.text,
        "labels": entry.labels,
        "by": entry.by,
        "session": entry.session_id,
        "at": utc(entry.at),
    }
