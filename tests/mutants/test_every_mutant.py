"""All mutants of a module: which of them change functions only, and the verdicts of forks."""

import pytest

from tests.mutants.every_mutant import changed_functions, mutants_of, shortened, verdict_of, verdicts
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.order_mutants import places_of_order
from tests.tables import table

SOURCE = """
LIMIT = 5

def first(x, y=1):
    return x < LIMIT

class Box:
    size = 7

    def second(self):
        return [one + 1 for one in self.held]
"""


@table(
    ("old", "new", "changed"),
    [
        ("x < LIMIT", "x <= LIMIT", ["first"]),
        ("one + 1", "one - 1", ["Box.second"]),
        ("in self.held", "in ()", ["Box.second"]),
        ("x < LIMIT", "x < LIMIT  # the same program", []),
        ("LIMIT = 5", "LIMIT = 6", None),
        ("y=1", "y=2", None),
        ("size = 7", "size = 8", None),
        ("def second", "def third", None),
    ],
)
def test_a_fork_can_have_a_mutant_that_changes_functions_only(
    old: str, new: str, changed: list[str] | None
) -> None:
    assert old in SOURCE
    found = changed_functions(Mutant("", "", "one", SOURCE, SOURCE.replace(old, new)))
    assert (None if found is None else [before.co_qualname for before, _ in found]) == changed
    assert all(before.co_qualname == after.co_qualname for before, after in found or ())


@pytest.mark.parametrize(("failed", "verdict"), [(0, "survived"), (1, "found")])
def test_a_fork_tells_whether_its_tests_failed(failed: int, verdict: str) -> None:
    assert verdict_of(lambda: failed, 5) == verdict


def test_a_draw_takes_so_many_mutants_of_a_module_and_each_once() -> None:
    module = ROOT / "actors" / "session" / "place_names.py"
    every = mutants_of(module, 0, 0)
    assert len({one.new for one, _ in every}) == len(every) > 10
    some = mutants_of(module, 4, 1)
    assert len(some) == 4
    assert {one.new for one, _ in some} < {one.new for one, _ in every}
    assert mutants_of(module, 4, 1) != mutants_of(module, 4, 2)


def test_a_module_without_mutants_runs_no_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fork", lambda: pytest.fail("a fork without a mutant"))
    assert not [*verdicts(ROOT / "actors" / "__init__.py", places_in=places_of_order)]


def test_a_change_is_told_with_the_words_around_it() -> None:
    call = ", ".join(f"field{at}=value" for at in range(20))
    told = shortened(f"f({call}, last=\"x\") => f({call.replace('field9=', 'field8=')}, last='x')")
    assert "field9" in told
    assert "field8" in told
    assert "field0" not in told
    assert "last" not in told
    assert shortened("return => pass") == "return => pass"
