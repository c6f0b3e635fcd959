"""The figures of style count as their module describes."""

from pathlib import Path

from tools.sources import ROOT, SHIPPED, files_of, python_files
from tools.style_metrics import module_shape, percentile

SOURCE = '''"""A module.

Two lines of docstring.
"""

from typing import overload

LIMIT = 3
"""A note below a constant."""


@overload
def pick(x: int) -> int: ...


def pick(x):
    """Pick."""
    # a comment
    if x and LIMIT:
        return [y for y in x]

    return (
        x
    )
'''


def test_code_leaves_out_docstrings_comments_and_blank_lines() -> None:
    shape = module_shape(SOURCE)
    assert shape.lines == 24
    assert shape.code == 2 + 2 + 6


def test_an_overload_does_not_count_as_a_function() -> None:
    (pick,) = module_shape(SOURCE, "pick.py").functions
    assert pick.where == "pick.py:16 pick"
    assert pick.code == 6


def test_branches_are_one_plus_one_for_each_decision() -> None:
    (pick,) = module_shape(SOURCE).functions
    assert pick.branches == 4  # itself, the if, the `and`, the comprehension


def test_each_use_of_any_counts_but_not_its_import() -> None:
    source = "from typing import Any\n\nx: dict[str, Any] = {}\n\ndef f(*args: Any) -> Any: ...\n"
    assert module_shape(source).any_uses == 3


def test_a_percentile_is_a_value_that_occurs() -> None:
    assert percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 100], 90) == 9
    assert percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 100], 91) == 100
    assert percentile([7], 50) == 7


def test_links_are_not_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "one.py").write_text("")
    (tmp_path / "link").symlink_to("real")
    assert [path.name for path in python_files(tmp_path)] == ["one.py"]


def test_every_shipped_file_is_counted_once() -> None:
    files = files_of(*SHIPPED)
    assert len({path.resolve() for path in files}) == len(files)
    assert ROOT / "actors" / "protocol" / "messages.py" in files
