"""No test drops a verdict: a call that returns one in place of raising is never a statement of its own."""

import ast
from collections.abc import Iterator

from tests.tables import table
from tools.sources import ROOT, files_of, statements

ENGINE = "callboard.replay.testing.explore"
"""Its `explore` returns the findings. That of `callboard.testing` raises, unless it is told not to."""

LISTS = frozenset({"check_log", "check_requests", "breaches_of"})


def dropped(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the source of each statement that drops a verdict."""
    if not any(name in source for name in ("explore", "verify", *LISTS)):
        return
    found = list(statements(ast.parse(source)))
    engine = set(_names_of_engine(found))
    raising = {id(inner) for block in found if _expects_error(block) for inner in statements(block)}
    for node in found:
        if isinstance(node, ast.Expr) and id(node) not in raising and _returns_verdict(node.value, engine):
            yield node.lineno, ast.unparse(node)


def _names_of_engine(found: list[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.ImportFrom) and node.module == ENGINE:
            yield from (one.asname or one.name for one in node.names if one.name == "explore")


def _expects_error(node: ast.AST) -> bool:
    """Return True for `with pytest.raises(...)`: calls there return nothing."""
    return isinstance(node, ast.With) and any("raises" in ast.unparse(one) for one in node.items)


def _returns_verdict(value: ast.expr, engine: set[str]) -> bool:
    if isinstance(value, ast.Await):
        return _returns_verdict(value.value, engine)
    if not isinstance(value, ast.Call):
        return False
    name = value.func.attr if isinstance(value.func, ast.Attribute) else ast.unparse(value.func)
    is_method = isinstance(value.func, ast.Attribute) and not value.args
    unchecked = any(one.arg == "check" and ast.unparse(one.value) != "True" for one in value.keywords)
    return (name == "verify" and is_method) or name in engine | LISTS or (name == "explore" and unchecked)


def test_no_test_and_no_example_drops_a_verdict() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {statement}"
        for path in files_of("tests", "examples")
        for line, statement in dropped(path.read_text())
    ]
    assert not found, "assert the result, or call its `check()`:\n" + "\n".join(found)


@table(
    ("source", "count"),
    [
        ("recording.verify()", 1),
        ("async def f():\n    await log.verify()", 1),
        ("recording.verify().check()", 0),
        ("assert recording.verify().is_ok", 0),
        ("with pytest.raises(CorruptLog):\n    recording.verify()", 0),
        ("verify(chain, rows)", 0),
        ("explore(host, policy)", 0),
        ("explore(host, policy, check=False)", 1),
        ("scenario.explore(check=wanted)", 1),
        (f"from {ENGINE} import explore as look\nlook(world, rules, plan)", 1),
        ("check_log(events)", 1),
        ("assert check_log(events) == []", 0),
    ],
)
def test_a_dropped_verdict_is_found(source: str, count: int) -> None:
    assert len(list(dropped(source))) == count
