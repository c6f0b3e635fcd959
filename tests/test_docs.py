"""Documentation that cannot rot: examples run, generated pages are up to date, links lead somewhere."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
WITH_EXAMPLES = [
    "callboard.runtime.agent",
    "callboard.runtime.models.scripted",
    "callboard.runtime.tools.context",
    "callboard.runtime.tools.output",
    "callboard.runtime.tools.tool",
]


def test_the_readmes_example_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    promised = re.findall(r"#\s*(ok .*)", code)[-1]
    assert capsys.readouterr().out.strip() == promised
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "verify"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstring_examples_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        found = (page.parent / path) if path else page
        assert found.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, target


def test_every_guarantee_names_a_test_that_is_there() -> None:
    known = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    lines = (ROOT / "docs" / "GUARANTEES.md").read_text().splitlines()
    promised = lines[: lines.index("## Not promised")]
    promises = [line for line in promised if line.startswith("- ")]
    assert len(promises) >= 40
    for line in promises:
        named = re.findall(r"`(test_\w+)`", line)
        assert named, f"no test named: {line}"
        for name in named:
            assert f"def {name}(" in known, f"{name} is not in the suite: {line}"
