"""The layout and its rules, as a table that fails with a sentence."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.sources import statements

ROOT = Path(__file__).parent.parent
FOLDERS = ("actors", "runtime", "replay", "callboard")

MAY_IMPORT = {
    "actors/protocol": {"actors.protocol"},
    "actors/agent": {"actors.protocol", "actors.agent"},
    "actors/supervisor": {"actors.protocol", "actors.agent", "actors.supervisor"},
    "actors/cluster": {"actors.protocol", "actors.session", "actors.cluster"},
    "actors/session": {"actors.protocol", "actors.agent", "actors.supervisor", "actors.session"},
    "runtime": {"actors", "runtime"},
    "replay": {"actors", "runtime.log", "replay", "lazy_names"},
    "callboard": {
        "actors", "runtime", "replay", "cli", "demo", "keywords", "lazy_names", "",
        "pytest_fixtures", "tools",
    },
}  # fmt: skip
"""Folder -> the parts of callboard it may import. A folder inside another has a line of its own."""

SIMULATED_AGENTS = "replay/testing/agents"
"""The part of the testing kit that makes agents as users write them, so it needs the runtime.

The rest of the kit needs no runtime, and nothing else in replay/ may import this part.
"""

PURE = {
    "bisect", "collections", "dataclasses", "difflib", "enum", "functools", "hashlib", "heapq", "itertools",
    "math", "msgspec", "re", "types", "typing", "__future__",
}  # fmt: skip
"""All that the core may import from outside: nothing with a clock, chance, a thread or I/O."""

ONLY_IN = {
    "pykka": {"runtime/scheduling/loop_actor.py"},
    "time": {"runtime/clock.py", "runtime/shell/guard.py", "replay/testing/statistics.py"},
    "random": {"replay/testing/", "runtime/programs/run.py", "runtime/programs/context.py"},
    "secrets": {"runtime/clock.py"},
    "uuid": {"runtime/json_kinds.py"},
}
"""Modules that only these files and folders of actors/, runtime/ and replay/ may import.

An explorer is chance: its schedulers draw from generators that they are given, made from a seed (see
`test_the_chance_of_the_explorer_has_a_seed`), so that a campaign can be made again. No world draws.
"""

NO_PORTS_IN_REPLAY = {"pykka", "anthropic", "asyncio", "threading", "subprocess", "socket", "httpx2"}


def sources(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    if folder == "callboard":
        links = {ROOT / "callboard" / name for name in ("actors", "runtime", "replay")}
        found = [path for path in found if not links & set(path.parents)]
    return found


def imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} relative import"
            yield (node.module or "", node.lineno)


@cache
def all_imports() -> list[tuple[str, Path, str, int]]:
    return [
        (folder, path.relative_to(ROOT), name, line)
        for folder in FOLDERS
        for path in sources(folder)
        for name, line in imports(path)
    ]


def test_folders_import_only_what_their_layer_may() -> None:
    for folder, path, name, line in all_imports():
        if name.split(".")[0] != "callboard":
            continue
        part = name.removeprefix("callboard").removeprefix(".")
        allowed = MAY_IMPORT.get("/".join(path.parts[:2])) or MAY_IMPORT.get(folder, set())
        if path.is_relative_to(SIMULATED_AGENTS):
            allowed = allowed | {"runtime"}
        else:
            assert not part.startswith("replay.testing.agents") or folder == "callboard", (
                f"{path}:{line}: only commands may import {SIMULATED_AGENTS}"
            )
        is_allowed = any(part == one or part.startswith(one + ".") for one in allowed if one) or (
            not part and "" in allowed
        )
        assert is_allowed, f"{path}:{line}: {folder}/ may not import callboard.{part}"


def test_the_core_imports_nothing_that_could_act() -> None:
    for folder, path, name, line in all_imports():
        if folder == "actors" and not name.startswith("callboard"):
            assert name.split(".")[0] in PURE, f"{path}:{line}: actors/ decides, {name} could act"


def test_clock_chance_and_pykka_have_one_home_each() -> None:
    for folder, path, name, line in all_imports():
        homes = ONLY_IN.get(name.split(".")[0])
        if homes is not None and folder != "callboard":
            is_home = any(str(path) == home or str(path).startswith(home) for home in homes)
            assert is_home, f"{path}:{line}: {name} is imported only in {homes or 'no file'}"


def test_the_chance_of_the_explorer_has_a_seed() -> None:
    for path in sources("replay"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if re.search("[Rr]andom", text) else ():
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                assert "random" not in {alias.name for alias in node.names}, f"{where}: take Random only"
            elif isinstance(node, ast.ImportFrom) and node.module == "random":
                assert {alias.name for alias in node.names} == {"Random"}, f"{where}: take random.Random only"
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Random":
                assert node.args, f"{where}: Random() without a seed cannot be made again"


def test_nothing_that_can_act_is_reachable_from_replay() -> None:
    script = "import sys, callboard.replay.recording, callboard.replay.steps; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & (NO_PORTS_IN_REPLAY - {"threading", "asyncio", "subprocess", "socket"})
    assert not [name for name in loaded if name.startswith("callboard.runtime.") and ".log" not in name]


@pytest.mark.slow
def test_importing_callboard_loads_none_of_the_heavy_libraries() -> None:
    script = "import sys, callboard; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & {
        "anthropic",
        "hypothesis",
        "pydantic",
        "jsonschema",
        "jsonschema_rs",
        "rich",
        "pykka",
        "starlette",
        "mcp",
        "agents",
        "openai",
        "pydantic_ai",
    }


@pytest.mark.slow
def test_the_runtime_loads_neither_the_sdk_nor_the_schema_library_until_they_are_used() -> None:
    script = "import sys; from callboard import Agent, Runtime, tool; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    heavy = {"anthropic", "hypothesis", "mcp", "pydantic", "jsonschema", "jsonschema_rs"}
    assert not loaded & (heavy | {"openai", "pydantic_ai"})


def test_there_are_no_import_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for _, path, name, _ in all_imports():
        module = ".".join(path.with_suffix("").parts)
        module = module if module.startswith("callboard") else f"callboard.{module}"
        graph.setdefault(module.removesuffix(".__init__"), set()).add(name)
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, f"import cycle: {' -> '.join([*above, module])}"
        if module not in done:
            for other in graph.get(module, ()):
                visit(other, (*above, module))
            done.add(module)

    for module in list(graph):
        visit(module, ())


def test_the_package_list_is_the_tree() -> None:
    packages = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = set()
    for folder in FOLDERS:
        for path in sources(folder):
            if path.name == "__init__.py":
                parts = path.parent.relative_to(ROOT).parts
                found.add(".".join(parts if parts[0] == "callboard" else ("callboard", *parts)))
    assert packages == found


WITH_TESTS_OF_THEIR_OWN = ("ports", "forks", "sessions", "programs", "log", "tools", "shell")
"""The folders of runtime/ in which each module has its test file, in the same place below tests/."""

WITHOUT_TESTS = {
    "runtime/sessions/port_protocol.py": "protocols, and a clock whose methods do nothing",
    "runtime/sessions/settings.py": "the type of a runtime's parameters",
}
"""Modules that only declare types, each with the reason."""


def test_each_module_of_the_shell_has_its_own_tests() -> None:
    found = {
        path.relative_to(ROOT) for name in WITH_TESTS_OF_THEIR_OWN for path in sources(f"runtime/{name}")
    }
    modules = {path for path in found if path.name != "__init__.py"}
    for path in sorted(modules):
        own = ROOT / "tests" / path.parent / f"test_{path.name}"
        if str(path) in WITHOUT_TESTS:
            assert not own.exists(), f"{path} has tests: take it from the list of those without"
            continue
        assert own.exists(), f"{path} has no tests of its own: write {own.relative_to(ROOT)}"
        text = own.read_text()
        assert "\ndef test_" in text or "    async def test_" in text, (
            f"{own.relative_to(ROOT)} tests nothing"
        )
    assert WITHOUT_TESTS.keys() <= set(map(str, modules)), "a module without tests is not there any more"


def test_the_folders_refuse_to_be_imported_by_their_own_name() -> None:
    for folder in ("actors", "runtime", "replay"):
        done = subprocess.run(
            [sys.executable, "-c", f"import {folder}"], capture_output=True, text=True, cwd=ROOT, check=False
        )
        assert f"import callboard.{folder}, not {folder}" in done.stderr
