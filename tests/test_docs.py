"""Documentation that cannot rot: examples run, links lead somewhere, promises name their tests."""

import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from callboard.actors.protocol import errors
from callboard.cli.main import cli
from tests.pages import ROOT, Reader, blocks, first_missing
from tests.tables import table

DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted(DOCS.rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
    ROOT / "tests" / "mutants" / "RESULTS.md",
]
FOLLOWED = [
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in (
            "tutorial",
            "guide",
            "limit-cost",
            "budgets",
            "capacity",
            "typed-reports",
            "approvals",
            "background",
            "orchestrator",
            "tool-output",
            "telemetry",
            "shared-state",
            "memory",
            "files",
            "shell",
            "permissions",
            "contracts",
            "http",
            "changing-tools",
            "change-a-program",
            "pydantic-ai",
            "openai-agents",
            "context",
            "compaction",
            "streaming",
            "front-ends",
            "look-back",
            "diagnose",
            "replay-changes",
            "record-tests",
            "operate",
            "watch",
            "export",
            "write-a-store",
            "write-a-model-provider",
        )
    ),
]
"""Pages whose examples stand alone. testing.md, explore.md and resume.md have tests of their own."""
SOURCES = ("actors", "callboard", "replay", "runtime")
WITH_EXAMPLES = sorted(
    path for folder in SOURCES for path in (ROOT / folder).rglob("*.py") if ">>>" in path.read_text()
)
SHIPPED = ("actors", "runtime", "replay", "callboard", "tools", "benchmarks", "docs", "examples", "tests")
FORBIDDEN = re.compile(r"\.\./shared|\bDESIGN\.md|\bSTYLE\.md|\bpypi\.org|\bfiles\.pythonhosted\.org")
TEXT = {".md", ".py", ".toml", ".yml", ".svg"}
MAY_NAME_THEM = {
    "tests/test_docs.py",
}


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.name)
def test_the_examples_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    assert blocks(page.read_text())
    Reader(tmp_path).follow_page(page)


def test_the_readmes_first_example_is_short() -> None:
    first, *_ = [block for block in blocks((ROOT / "README.md").read_text()) if block.language == "python"]
    assert len(first.text.splitlines()) <= 15


@table("path", WITH_EXAMPLES)
def test_docstring_examples_hold(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    result = doctest.testmod(importlib.import_module(f"callboard.{name.removeprefix('callboard.')}"))
    assert result.attempted
    assert not result.failed


def test_links_lead_somewhere() -> None:
    assert not [f"{page.name}: {target}" for page in PAGES for target in dead_links(page)]


def dead_links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        found = (page.parent / path) if path else page
        if not found.exists() or (anchor and anchor not in anchors(found.read_text())):
            yield target


def test_every_page_that_the_code_names_is_there() -> None:
    named: set[str] = set()
    for folder in SHIPPED:
        for path in (ROOT / folder).rglob("*.py"):
            named |= set(re.findall(r"\bdocs/([\w/-]+\.md)\b", path.read_text()))
    assert not {name for name in named if not (DOCS / name).exists()}


def test_every_file_that_a_page_names_is_there() -> None:
    named = [
        (page, name)
        for page in PAGES
        for name in re.findall(rf"`((?:{'|'.join(SHIPPED)})/[\w./-]*)`", page.read_text())
    ]
    assert len(named) > 100
    for page, name in named:
        path = name.removeprefix("callboard/") if name.startswith("callboard/runtime/") else name
        assert (ROOT / path).exists(), f"{page.name}: {name}"


def test_every_page_has_its_place_in_the_navigation() -> None:
    listed = set(
        re.findall(r"- (?:[^:\n]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    )
    assert listed == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_nothing_that_ships_names_private_or_outside_places() -> None:
    files = [path for folder in SHIPPED for path in (ROOT / folder).rglob("*") if path.suffix in TEXT]
    files += [path for path in ROOT.glob("*") if path.suffix in TEXT or path.name == "Makefile"]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        if path.relative_to(ROOT).as_posix() not in MAY_NAME_THEM
        for match in FORBIDDEN.finditer(path.read_text())
    ]
    assert not found, found


def test_every_guarantee_names_a_test_that_is_there() -> None:
    contract = (ROOT / "replay/testing/stores").glob("*.py")  # inherited by the tests of each store
    known = "\n".join(path.read_text() for path in [*(ROOT / "tests").rglob("test_*.py"), *contract])
    lines = (DOCS / "GUARANTEES.md").read_text().splitlines()
    promised = lines[: lines.index("## Not promised")]
    promises = [line for line in promised if line.startswith("- ")]
    assert len(promises) >= 40
    for line in promises:
        named = re.findall(r"`(test_\w+)`", line)
        assert named, f"no test named: {line}"
        for name in named:
            assert f"def {name}(" in known, f"{name} is not in the suite: {line}"


def test_every_sentence_of_the_guarantees_is_a_promise() -> None:
    lines = (DOCS / "GUARANTEES.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("## "))
    for line in lines[start : lines.index("## Not promised")]:
        assert not line or line.startswith(("## ", "- ")), f"write it as a promise with a test: {line}"


def test_errors_that_pages_name_exist() -> None:
    page = (DOCS / "resume.md").read_text()
    refused = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert len(refused) == 8
    assert all(issubclass(getattr(errors, name), errors.CallboardError) for name in refused)


def commands_named(page: Path) -> list[list[str]]:
    """List the commands of callboard that a page shows: in blocks of shell, and in the text."""
    text = page.read_text()
    shown = "\n".join(block.text for block in blocks(text) if block.language in ("sh", "console"))
    lines = re.findall(r"^(?:\$ )?callboard ([a-z].*)$", shown, re.MULTILINE)
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines += re.findall(r"`callboard ([a-z][^`\n]*)`", outside)
    return [re.split(r" [#|<>]|\s{2,}", line)[0].split() for line in lines]


def test_every_command_that_a_page_names_exists_with_its_options() -> None:
    # Decisions and the changelog name commands of their time.
    pages = [page for page in PAGES if page.name != "CHANGELOG.md" and "decisions" not in page.parts]
    for page, (name, *rest) in [(one, words) for one in pages for words in commands_named(one)]:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, f"{page.name}: callboard {name}"
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        named = {word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)}
        assert named <= known | {"--help", "--debug"}, f"{page.name}: callboard {name} {' '.join(rest)}"


def test_lines_are_found_in_order_with_gaps_only_where_the_page_has_dots() -> None:
    shown = ["a", "b 17 c", "d"]
    assert first_missing(["a", "b ... c", "d"], shown) is None
    assert first_missing(["...", "d"], shown) is None
    assert first_missing(["a", "d"], shown) == "d"
    assert first_missing(["...", "d", "...", "a"], shown) == "a"
    assert first_missing(["a", "b . c"], shown) == "b . c"


def without_code(page: str) -> str:
    """Return a page without its fenced blocks and code spans: brackets there are no links."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", page, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
