"""No test asserts a time: a busy machine stretches it, that of a processor too. `benchmarks/` measures such.

A test bounds its work by counts: of calls, messages, beats (`tests/steps.py`). What must not hang needs no
clock: each test has a limit of minutes, and something that would hang can be given a time that exceeds it.
"""

import ast
from collections.abc import Iterator

from tests.tables import table
from tools.sources import ROOT, files_of, statements

CLOCKS = frozenset(
    {
        f"{name}{unit}"
        for name in ("monotonic", "perf_counter", "process_time", "thread_time")
        for unit in ("", "_ns")
    }
) | {"time_ns"}


def asserted(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the source of each assertion about the time that something took."""
    if not any(clock in source for clock in (*CLOCKS, "time.time", "from time import")):
        return
    tree = ast.parse(source)
    clocks = _clocks(tree)
    for function in _functions(tree):
        timed = _timed_names(function, clocks)
        for node in statements(function):
            if isinstance(node, ast.Assert) and (_reads(node.test, clocks) or _names(node.test) & timed):
                yield node.lineno, ast.unparse(node.test)


def _clocks(tree: ast.AST) -> set[str]:
    """Return the functions of this module that return the time, and those that measure with them."""
    clocks = {f"time.{name}" for name in CLOCKS} | {"time.time"}
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            clocks |= {one.asname or one.name for one in node.names if one.name in CLOCKS | {"time"}}
    for function in _functions(tree):
        returned = [one.value for one in statements(function) if isinstance(one, ast.Return) and one.value]
        timed = _timed_names(function, clocks)
        if any(_reads(one, clocks) or _names(one) & timed for one in returned):
            clocks.add(function.name)
    return clocks


def _functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in statements(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]


def _timed_names(function: ast.AST, clocks: set[str]) -> set[str]:
    """Return the names of a function that hold a time, or one counted from another."""
    timed: set[str] = set()
    for node in statements(function):
        if isinstance(node, ast.Assign) and (_reads(node.value, clocks) or _is_sum_of(node.value, timed)):
            timed |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return timed


def _is_sum_of(value: ast.expr, timed: set[str]) -> bool:
    return isinstance(value, ast.BinOp) and bool(_names(value) & timed)


def _reads(node: ast.AST, clocks: set[str]) -> bool:
    return any(isinstance(one, ast.Call) and ast.unparse(one.func) in clocks for one in ast.walk(node))


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def test_no_test_asserts_a_time() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {test}"
        for path in files_of("tests", "examples")
        for line, test in asserted(path.read_text())
    ]
    assert not found, "bound counts, or measure it in benchmarks/:\n" + "\n".join(found)


@table(
    ("body", "count"),
    [
        ("assert time.monotonic() - began < 5", 1),
        ("took = time.perf_counter() - began\n    assert took < 5", 1),
        ("now = time.time()\n    took = now - began\n    assert took < 5", 1),
        ("assert monotonic() < ends", 1),
        ("assert min(took() for _ in range(3)) < 1", 1),
        ("assert time.process_time() - began < 5", 1),
        ("start = time.thread_time_ns()\n    took = time.thread_time_ns() - start\n    assert took < 5", 1),
        ("if time.monotonic() > ends:\n        raise TimeoutError", 0),
        ("seen.append(time.monotonic())\n    assert len(seen) > 3", 0),
    ],
)
def test_an_assertion_about_a_time_is_found(body: str, count: int) -> None:
    before = "import time\nfrom time import monotonic\ndef took():\n    return time.time() - 1\n"
    source = f"{before}def test():\n    {body}"
    assert len(list(asserted(source))) == count
