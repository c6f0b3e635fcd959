"""Random mutants: the changes of each kind, the places that are left alone, and the stages of a mutant."""

import re
from pathlib import Path

import pytest

from tests.mutants import mutant as mutants
from tests.mutants import random_mutants, random_sample
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.random_mutants import changed, changes_in, draw, is_another, mutant_of, places
from tests.mutants.random_sample import Copy, Found, measured, mirrored_by, stages_of, summary
from tests.tables import table


def mutated(source: str, kind: str) -> list[str]:
    """Return the sources that the changes of one kind make, as far as they are other programs."""
    found = [changed(source, one) for at, changes in changes_in(source) if at == kind for one in changes]
    return [new for new in found if is_another(source, new)]


@table(
    ("kind", "source", "expected"),
    [
        ("compare", "a < b", ["(a <= b)", "(a >= b)"]),
        ("compare", "a is not b", ["(a is b)"]),
        ("compare", "a in b", ["(a not in b)"]),
        ("logic", "a and b", ["(a or b)", "b", "a"]),
        ("logic", "f(not a)", ["f(a)"]),
        ("logic", "if a:\n    b()", ["if (not (a)):\n    b()"]),
        ("number", "f(x, 1)", ["f(x, (2))", "f(x, (0))"]),
        ("number", "f(x, True)", ["f(x, False)"]),
        ("operator", "a + b", ["(a - b)"]),
        ("operator", "a -= b", ["a += b"]),
        ("operator", "min(a)", ["max(a)"]),
        ("return", "def f():\n    return a", ["def f():\n    return None"]),
        (
            "statement",
            "def f():\n    a()\n    b()",
            ["def f():\n    pass\n    b()", "def f():\n    a()\n    pass"],
        ),
        ("statement", "def f(a):\n    a = b(a)", ["def f(a):\n    pass"]),
        ("swap", "f(a, b, *c)", ["f(b, a, *c)"]),
        ("empty", "f([a])", ["f([])"]),
        ("empty", "f({a: b for a in c})", ["f({})"]),
        ("element", "f((a, b))", ["f((b,))", "f((a,))"]),
        ("element", "f({a: b, c: d})", ["f({c: d})", "f({a: b})"]),
        ("keyword", "f(a, b=c, **d)", ["f(a, **d)"]),
        (
            "case",
            "match a:\n    case 1 if b:\n        c()\n    case 2:\n        d()",
            [
                "match a:\n    case 2:\n        d()",
                "match a:\n    case 1:\n        c()\n    case 2:\n        d()",
                "match a:\n    case 1 if b:\n        c()",
            ],
        ),
        (
            "case",
            "match a:\n    case 1:\n        c()\n    case _:\n        pass",
            ["match a:\n    case _:\n        pass"],
        ),
        (
            "case",
            "match a:\n    case 1:\n        c()\n    case _:\n        d()",
            ["match a:\n    case _:\n        d()", "match a:\n    case 1:\n        c()"],
        ),
    ],
)
def test_a_place_has_the_changes_of_its_kind(kind: str, source: str, expected: list[str]) -> None:
    assert mutated(source, kind) == expected


@table(
    "source",
    [
        '"""A docstring with 1 < 2."""',
        "__all__ = ['a', 'b']",
        "import a",
        "def f(a: Literal[1, 2]) -> Literal[3]: ...",
        "A: TypeAlias = tuple[1, 2]",
        "assert a < b",
        "f'{a + b}'",
        "class A(B, frozen=True): ...",
        "@f(1)\ndef g(): ...",
        "def f():\n    a = 'the only one'",
        "zip(*a, strict=True)",
        "if TYPE_CHECKING:\n    import a",
    ],
)
def test_texts_types_and_names_without_another_value_are_left_alone(source: str) -> None:
    assert [new for _, changes in changes_in(source) for new in changes] == []


@table(
    ("source", "expected"),
    [
        ("min(a, b)", []),
        ("max(a, *b, c, d)", []),
        ("min(a, b, key=c)", ["min(b, a, key=c)"]),
        ("x.min(a, b)", ["x.min(b, a)"]),
        ("minimum(a, b)", ["minimum(b, a)"]),
        ("plus(a, b)", []),
        ("add(a, b)", []),
        ("x.add(a, b)", ["x.add(b, a)"]),
    ],
)
def test_the_least_and_the_sum_of_some_values_are_the_same_in_any_order(
    source: str, expected: list[str]
) -> None:
    assert mutated(source, "swap") == expected


def test_an_error_may_go_and_its_text_stays() -> None:
    assert mutated("def f():\n    raise E(1 + 2)", "statement") == ["def f():\n    pass"]
    assert mutated("def f():\n    raise E(1 + 2)", "operator") == []


def test_false_becomes_true_and_not_none_which_is_false_too() -> None:
    source = "def f():\n    return False"
    assert mutated(source, "return") == []
    assert mutated(source, "number") == ["def f():\n    return True"]


def test_pairs_that_are_taken_apart_stay_pairs() -> None:
    assert mutated("def f():\n    return a, (b, c)", "element") == [
        "def f():\n    return a, (c,)",
        "def f():\n    return a, (b,)",
    ]
    assert mutated("a, b = c, d", "element") == []
    assert mutated("def f():\n    return (*a, b)", "element") == [
        "def f():\n    return (b,)",
        "def f():\n    return (*a,)",
    ]


def test_a_change_keeps_the_rest_of_its_lines_and_their_indentation() -> None:
    source = "def f():\n    x = 'ä' < 1  # why\n    match a:\n        case 1 if b:\n            c()\n"
    assert mutated(source, "compare")[0] == source.replace("'ä' < 1", "('ä' <= 1)")
    assert mutated(source, "case") == [source.replace(" if b", "")]


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants_each_time_and_each_place_once() -> None:
    paths = ["actors/supervisor/budgets.py"]
    first = draw(paths, 20, 1)
    assert first == draw(paths, 20, 1)
    assert first != draw(paths, 20, 2)
    assert len({one.name for one in first}) > 15
    assert all(is_another(one.old, one.new) and one.applied(one.old) == one.new for one in first)


def test_the_row_of_a_mutant_tells_only_the_lines_that_differ() -> None:
    found = places(ROOT / "actors" / "supervisor" / "telling.py")
    change = next(one for place in found for one in place.changes if "<= granted" in one.text)
    place = next(place for place in found if change in place.changes)
    one = mutant_of(place, change)
    assert re.fullmatch(r"actors/supervisor/telling.py:\d+ \w+", one.name)
    assert one.what.startswith("while (first := unheard.first()) is not None and first[0] <= granted.told:")
    assert one.what.count(" => ") == 1


def test_a_mutant_is_sent_to_the_mirrored_file_first_and_then_to_less_work_before_more() -> None:
    (one,) = draw(["actors/supervisor/telling.py"], 1, 1)
    stages = stages_of(one, "folder", 2_000)
    assert [(stage[0], stage[-1]) for stage in stages] == [
        ("mirrored", "tests/actors/supervisor/test_telling.py"),
        ("explore", "200"),
        ("folder", "tests/actors/supervisor"),
        ("explore", "2000"),
    ]
    assert [stage[0] for stage in stages_of(one, "mirrored", 0)] == ["mirrored"]
    (other,) = draw(["actors/protocol/value_types.py"], 1, 1)  # without a test file of its own
    assert [stage[0] for stage in stages_of(other, "mirrored", 0)] == []


# --- the stages -----------------------------------------------------------------------


@pytest.fixture
def small_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    (root / "actors").mkdir(parents=True)
    (root / "actors" / "one.py").write_text("VALUE = 1\n")
    for module in (mutants, random_mutants, random_sample):
        monkeypatch.setattr(module, "ROOT", root)
    return root


def one_is(value: int) -> tuple[str, ...]:
    return ("mirrored", "-c", f"from actors.one import VALUE; assert VALUE == {value}, 'wrong'")


def test_a_copy_has_one_mutant_at_a_time_and_the_repository_none(small_repository: Path) -> None:
    found = draw(["actors"], 10, 0)
    verdicts: dict[int, Found] = {}
    told = measured([*found, *found], lambda one: [one_is(1)], 2, verdicts.__setitem__)
    assert told == [Found("mirrored", "AssertionError: wrong")] * 2
    assert told == [verdicts[0], verdicts[1]]
    assert (small_repository / "actors" / "one.py").read_text() == "VALUE = 1\n"


def test_a_mutant_that_passes_all_stages_is_not_found(small_repository: Path) -> None:
    told = measured(draw(["actors"], 1, 0), lambda one: [("mirrored", "-c", "")], 1, lambda at, found: None)
    assert summary(told) == "0 of 1 found (; 0 of them by their CPU time)"


def test_the_unchanged_copy_has_to_pass(small_repository: Path) -> None:
    with pytest.raises(RuntimeError, match="the unchanged core does not pass mirrored"):
        measured(draw(["actors"], 1, 0), lambda one: [one_is(7)], 1, lambda at, found: None)


@pytest.mark.slow
def test_a_stage_that_never_ends_has_found_the_mutant(
    small_repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(random_sample, "CPU_S", 1)
    copy = Copy(tmp_path / "copy")
    assert copy.run(("folder", "-c", "while True: pass")) == Found("folder", "too long")


@pytest.mark.slow
def test_bytecode_of_one_mutant_is_never_taken_for_that_of_another(
    small_repository: Path, tmp_path: Path
) -> None:
    copy = Copy(tmp_path / "copy")
    for value in (2, 3, 4):  # texts of one length, within one second
        with copy.with_mutant(Mutant("", "", "one", "VALUE = 1\n", f"VALUE = {value}\n")):
            assert copy.run(one_is(value)) == Found()
        assert copy.run(one_is(1)) == Found()


def test_the_copies_hold_what_the_tests_need() -> None:
    kept = {path.name for path in ROOT.iterdir()} - set(random_sample.LEFT_OUT)
    assert {"actors", "runtime", "replay", "callboard", "tests", "docs", "pyproject.toml"} <= kept


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("runtime/log/sqlite/meta.py", ["meta", "meta_opening", "meta_wal"]),
        # The others are of `session_tools.py` and its like.
        (
            "runtime/sessions/session.py",
            [
                "session",
                "session_edges",
                "session_misbehaviour",
                "session_moments",
            ],
        ),
        ("runtime/sessions/session_types.py", ["session_types", "session_types_live"]),
        ("runtime/sessions/port_protocol.py", []),
    ],
)
def test_files_that_continue_a_mirrored_one_are_named_after_its_module(module: str, files: list[str]) -> None:
    folder = Path("tests") / Path(module).parent
    assert mirrored_by(Path(module)) == [folder / f"test_{name}.py" for name in files]
