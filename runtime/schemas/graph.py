"""References as a graph: what each means, whether following them ends, and how often a value is looked at.

The work of a check is at most (values of the report) x (subschemas that may look at one value). The
second figure is `width`. Repeating a reference beside another (`properties` that all refer to one
definition) does not raise it, repeating it on the same value (`allOf`) does; doubling at every level,
at the same value or one level of the value further down, makes it exponential. A schema that can look
at deeper and deeper values for ever (a tree) has no such figure; its checks are bounded as they run.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from callboard.runtime.schemas.keywords import NEVER_APPLIED, SAME_VALUE
from callboard.runtime.schemas.limits import CHAIN_MAX, SUBSCHEMAS_MAX
from callboard.runtime.schemas.outline import Outline
from callboard.runtime.schemas.wording import show

_INSTEAD_OF_EACH_OTHER = {"properties": "p", "additionalProperties": "p", "prefixItems": "i", "items": "i"}
"""Keywords of which at most one subschema looks at a given part of the value."""


def link(outline: Outline) -> None:
    """Find what every reference means; note those that mean nothing."""
    for path, reference in outline.references.items():
        target = unquote(reference[1:], errors="replace")
        if target and not target.startswith("/"):
            target = outline.anchors.get(target, "?")
        if target in outline.nodes:
            outline.targets[reference] = target
            outline.edges[path].append(("$ref", target))
        else:
            outline.refuse(
                f"{path}/$ref",
                f"{show(reference)} is no place of this schema where a schema stands: use #/$defs/...",
            )


def width_of(outline: Outline) -> int | None:
    """How many subschemas may look at one value at most; None if the schema is recursive.

    Notes loops that never end and what is too wide or too long, in the outline's problems.
    """
    same = {path: [to for how, to in edges if how in SAME_VALUE] for path, edges in outline.edges.items()}
    order = _leaves_first(same)
    if len(order) < len(same):
        _refuse_loop(outline, same, set(order))
        return None
    here: dict[str, int] = {}
    chain: dict[str, int] = {}
    for path in order:
        here[path] = 1 + sum(here[to] for to in same[path])
        chain[path] = 1 + max((chain[to] for to in same[path]), default=0)
    _refuse_if(outline, chain, CHAIN_MAX, "follows more than {} references and combinators in a row")
    _refuse_if(outline, here, SUBSCHEMAS_MAX, "makes more than {} subschemas look at one value")
    if outline.problems:
        return None
    widths = _widths(outline, here)
    _refuse_if(outline, widths, SUBSCHEMAS_MAX, "makes more than {} subschemas look at one part of a value")
    return widths.get("")


def _widths(outline: Outline, here: Mapping[str, int]) -> dict[str, int]:
    """Per subschema, how many may look at the value or at any one part of it; recursive ones are left out."""
    applied = {
        path: [(how, to) for how, to in edges if how not in NEVER_APPLIED]
        for path, edges in outline.edges.items()
    }
    below: dict[str, int] = {}
    widths: dict[str, int] = {}
    for path in _leaves_first({path: [to for _, to in edges] for path, edges in applied.items()}):
        parts = _at_one_part((how, widths[to]) for how, to in applied[path] if how not in SAME_VALUE)
        below[path] = parts + sum(below[to] for how, to in applied[path] if how in SAME_VALUE)
        widths[path] = max(here[path], below[path])
    return widths


def _at_one_part(widths: Iterable[tuple[str, int]]) -> int:
    """How many subschemas may look at one part of the value, given those of each child."""
    either: dict[str, int] = {}
    every = 0
    for keyword, width in widths:
        if group := _INSTEAD_OF_EACH_OTHER.get(keyword):
            either[group] = max(either.get(group, 0), width)
        else:
            every += width
    return every + max(either.values(), default=0)


def _leaves_first(children: Mapping[str, list[str]]) -> list[str]:
    """The nodes in an order in which every child precedes its parents; those above a loop are left out.

    Not recursive: a schema of 1,000 references in a row would exceed Python's stack.
    """
    parents: dict[str, list[str]] = {path: [] for path in children}
    missing = {path: len(below) for path, below in children.items()}
    for path, below in children.items():
        for child in below:
            parents[child].append(path)
    order = [path for path, count in missing.items() if not count]
    for path in order:
        for parent in parents[path]:
            missing[parent] -= 1
            if not missing[parent]:
                order.append(parent)
    return order


def _refuse_loop(outline: Outline, same: Mapping[str, list[str]], ended: set[str]) -> None:
    """Name one place of a loop: from any node that does not end, follow those that do not end either."""
    path = next(each for each in same if each not in ended)
    seen: set[str] = set()
    while path not in seen:
        seen.add(path)
        path = next(to for to in same[path] if to not in ended)
    why = "refers to itself for the same value, which never ends"
    outline.refuse(path, f"{why}: put the $ref under properties or items")


def _refuse_if(outline: Outline, sizes: Mapping[str, int], most: int, what: str) -> None:
    for path in outline.nodes:
        if sizes.get(path, 0) > most:
            outline.refuse(path, f"{what.format(f'{most:,}')} once references are followed: simplify it")
            return
