"""The tables of public names: all can be imported, and the stubs say the same."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import callboard
import callboard.errors
from callboard.actors.protocol import errors
from callboard.lazy_names import lazy_names
from tests.pages import ROOT, blocks
from tests.tables import table
from tools.public_names import public_modules, stub, stubs

MODULES = list(public_modules())
READY_TOOLS = ("callboard.tools.files", "callboard.tools.memory", "callboard.tools.shell")


@table("path", stubs(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_committed_stub_agrees_with_the_table(path: Path) -> None:
    assert path.read_text() == stubs()[path], "run `python -m tools.public_names`"


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_can_be_imported(module: ModuleType) -> None:
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    assert module.__all__ == sorted(set(module.__all__))


@table("module", MODULES, ids=lambda module: module.__name__)
def test_a_name_comes_from_the_module_that_defines_it(module: ModuleType) -> None:
    for home, names in vars(module)["_HOMES"].items():
        for name in names:
            value = getattr(module, name)
            if getattr(value, "__name__", "") == name and not inspect.ismodule(value):
                assert value.__module__ == f"callboard.{home}", f"{name} is defined in {value.__module__}"


def test_every_exception_of_the_tree_is_public() -> None:
    found = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == errors.__name__
    }
    assert found <= set(callboard.errors.__all__)


@pytest.mark.slow
def test_a_star_import_gives_exactly_the_public_names() -> None:
    script = "from callboard import *; print(' '.join(name for name in dir() if name[:2] != '__'))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == callboard.__all__


def test_callboard_itself_has_at_most_eighty_names() -> None:
    assert len(callboard.__all__) <= 80


def test_every_public_name_is_in_exactly_one_place() -> None:
    places: dict[object, list[str]] = {}
    for module in MODULES:
        for home, names in vars(module)["_HOMES"].items():
            for name in names:
                places.setdefault((home, name), []).append(module.__name__)
    assert not {name: where for name, where in places.items() if len(where) > 1}


def imports_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield what some Python imports of callboard: (module, name)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "callboard":
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                (alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "callboard"
            )


def private(text: str) -> list[str]:
    """Return the imports of some Python that no public module offers."""
    offered = {module.__name__: {"", *module.__all__} for module in MODULES}
    modules = {*offered, *READY_TOOLS}
    return [
        f"{module}: {name}"
        for module, name in imports_of(text)
        if module not in READY_TOOLS
        if name not in offered.get(module, ()) and f"{module}.{name}" not in modules
    ]


def test_an_example_imports_public_names_only() -> None:
    paths = sorted((ROOT / "examples").rglob("*.py"))
    assert paths
    assert not [(path.name, found) for path in paths if (found := private(path.read_text()))]


def test_a_page_imports_public_names_only() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [
        (page, block.text)
        for page in pages
        if "reference" not in page.parts
        for block in blocks(page.read_text())
        if block.language == "python" and "callboard" in block.text
    ]
    assert texts
    assert not [(page.name, found) for page, text in texts if (found := private(text))]


def test_a_private_import_is_found() -> None:
    assert private("from callboard.runtime.agent import Agent") == ["callboard.runtime.agent: Agent"]
    assert private("from callboard import Agents") == ["callboard: Agents"]
    assert private("import callboard.runtime") == ["callboard.runtime: "]
    assert not private("from callboard import Agent, errors; from callboard.tools.shell import shell_tool")


def test_a_submodule_that_is_not_loaded_yet_can_be_public() -> None:
    package = ModuleType("a_package")
    sys.modules["a_package"] = package
    try:
        names, load, listed = lazy_names("a_package", {"replay.testing.agents": ("runs",)})
        assert names == ["runs"]
        assert load("runs") is sys.modules["callboard.replay.testing.agents.runs"]
        assert "runs" in vars(package)
        assert set(listed()) >= {"runs", "__name__"}
    finally:
        del sys.modules["a_package"]


def test_a_stub_is_python_with_one_import_for_each_name() -> None:
    tree = ast.parse(stub({"runtime.agent": ("Agent", "roster")}, has_version=True))
    imported = [node.names[0].name for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert imported == ["Agent", "roster"]
