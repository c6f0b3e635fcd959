"""The tables of public names: all can be imported, and the stubs say the same."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import callboard
import callboard.testing
from callboard.actors.protocol import errors
from callboard.lazy_names import lazy_names
from tools.public_names import stub, stubs

PACKAGES = [callboard, callboard.testing]


@pytest.mark.parametrize("path", stubs(), ids=lambda path: str(path.parent.name))
def test_the_committed_stub_agrees_with_the_table(path: Path) -> None:
    assert path.read_text() == stubs()[path], "run `python -m tools.public_names`"


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))
    assert package.__all__ == sorted(set(package.__all__))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_comes_from_the_module_that_defines_it(package: ModuleType) -> None:
    for home, names in vars(package)["_HOMES"].items():
        for name in names:
            value = getattr(package, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert value.__module__ == f"callboard.{home}", f"{name} is defined in {value.__module__}"


def test_every_exception_of_the_tree_is_public() -> None:
    found = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == errors.__name__
    }
    assert found <= set(callboard.__all__)


@pytest.mark.slow
def test_a_star_import_gives_exactly_the_public_names() -> None:
    script = "from callboard import *; print(' '.join(name for name in dir() if name[:2] != '__'))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == callboard.__all__


def test_a_submodule_that_is_not_loaded_yet_can_be_public() -> None:
    package = ModuleType("a_package")
    sys.modules["a_package"] = package
    try:
        names, load, listed = lazy_names("a_package", {"testing": ("runs",)})
        assert names == ["runs"]
        assert load("runs") is sys.modules["callboard.testing.runs"]
        assert "runs" in vars(package)
        assert set(listed()) >= {"runs", "__name__"}
    finally:
        del sys.modules["a_package"]


def test_a_stub_is_python_with_one_import_for_each_name() -> None:
    tree = ast.parse(stub({"runtime.agent": ("Agent", "roster")}, has_version=True))
    imported = [node.names[0].name for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert imported == ["Agent", "roster"]
