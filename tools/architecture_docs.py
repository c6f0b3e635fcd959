"""docs/img/architecture.svg: the parts of callboard and their imports, drawn from the table of a test."""

from collections.abc import Collection, Mapping
from typing import Final

from tests.test_architecture import MAY_IMPORT
from tools.svg import arrow, box, picture, text

VERBS: Final = {
    "actors/protocol": "messages, limits, addresses",
    "actors/agent": "decides for one agent",
    "actors/supervisor": "decides who may start, and when all ends",
    "actors/session": "mailboxes, states, the port gate",
    "actors/cluster": "leases, claims and shares of workers",
    "runtime/log": "stores events: SQLite, PostgreSQL",
    "runtime": "acts: sessions, ports, models, tools",
    "replay": "looks back: recording, verify, simulator",
    "callboard": "the face: public names, commands",
}
"""The purpose of each part, in a few words."""

WIDTH: Final = 270
HEIGHT: Final = 48
GAP_X: Final = 40
GAP_Y: Final = 46


def architecture_picture() -> str:
    """Draw the parts, each above everything that it may import."""
    graph = direct(MAY_IMPORT)
    at = _places(graph)
    columns = max(x for x, _ in at.values()) + 1
    rows = max(y for _, y in at.values()) + 1
    width = round(columns * (WIDTH + GAP_X))
    parts = []
    for part, below in graph.items():
        x, y = _pixel(at[part], rows)
        parts += [
            box(x, y, WIDTH, HEIGHT),
            text(x + WIDTH / 2, y + 20, part),
            text(x + WIDTH / 2, y + 37, VERBS.get(part, ""), kind="small"),
        ]
        parts += [_arrow(_pixel(at[part], rows), _pixel(at[one], rows)) for one in sorted(below)]
    return picture("Which part of callboard may import which", width, rows * (HEIGHT + GAP_Y), parts)


def with_inner_parts(table: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Add the parts that the table names only as allowed: `runtime.log`, for replay.

    Such a part may import what its folder may import, but not the rest of its folder.
    """
    found = {part: {name.replace(".", "/") for name in allowed if name} for part, allowed in table.items()}
    inner = {name for allowed in found.values() for name in allowed if name not in table and "/" in name}
    for name in inner:
        folder = name.split("/")[0]
        found[name] = found[folder] - {folder}
    return found


def direct(table: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Reduce the table to its direct arrows: one that follows from two others is left out."""
    parts = with_inner_parts(table)
    reach = {part: _imported(part, allowed, parts) for part, allowed in parts.items()}
    return {
        part: {one for one in below if not any(one in reach[other] for other in below)}
        for part, below in reach.items()
    }


def floor_of(part: str, graph: Mapping[str, set[str]]) -> int:
    """Count the floors below a part."""
    return max((1 + floor_of(one, graph) for one in graph[part]), default=0)


def _imported(part: str, allowed: set[str], parts: Collection[str]) -> set[str]:
    """List the other parts that a part may import."""
    names = tuple(f"{name}/" for name in allowed)
    return {other for other in parts if other != part and f"{other}/".startswith(names)}


def _places(graph: Mapping[str, set[str]]) -> dict[str, tuple[float, int]]:
    """Give each part a column and a floor; the parts of one floor stand side by side in the middle."""
    floors: dict[int, list[str]] = {}
    for part in graph:
        floors.setdefault(floor_of(part, graph), []).append(part)
    widest = max(len(parts) for parts in floors.values())
    return {
        part: ((widest - len(parts)) / 2 + column, floor)
        for floor, parts in floors.items()
        for column, part in enumerate(parts)
    }


def _pixel(place: tuple[float, int], rows: int) -> tuple[float, float]:
    column, floor = place
    return GAP_X / 2 + column * (WIDTH + GAP_X), GAP_Y / 2 + (rows - 1 - floor) * (HEIGHT + GAP_Y)


def _arrow(above: tuple[float, float], below: tuple[float, float]) -> str:
    x, y = above[0] + WIDTH / 2, above[1] + HEIGHT
    to_x, to_y = below[0] + WIDTH / 2, below[1] - 2
    middle = (y + to_y) / 2
    return arrow(f"M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}")
