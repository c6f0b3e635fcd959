"""The index of the core names every module, and only modules that exist."""

import ast
import re
from pathlib import Path

import pytest

ACTORS = Path(__file__).parents[2] / "actors"
PARTS = ("protocol", "agent", "supervisor", "session")

_ROW = re.compile(r"^    ([a-z_.]+(?:, [a-z_.]+)*)  +\S", re.MULTILINE)
"""A line of an index: names of modules, and what they add to the life that is told."""


def doc_of(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text()), clean=False) or ""


def named_in(package: Path) -> list[str]:
    """Return the modules that the docstring of a package names, below its first heading."""
    doc = doc_of(package)
    heading = re.search(r"^  [A-Z]", doc, re.MULTILINE)
    assert heading is not None
    return [name for row in _ROW.findall(doc, heading.start()) for name in row.split(", ")]


def modules(part: str) -> set[str]:
    return {path.stem for path in (ACTORS / part).glob("*.py")} - {"__init__"}


def test_the_life_of_a_delegation_goes_through_modules_that_exist_each_once() -> None:
    named = named_in(ACTORS)
    assert len(named) == len(set(named)) > 25
    for name in named:
        part, _, module = name.partition(".")
        assert module in modules(part), name
    assert {name.partition(".")[0] for name in named} == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_names_each_of_its_modules_once(part: str) -> None:
    assert sorted(named_in(ACTORS / part)) == sorted(modules(part))
