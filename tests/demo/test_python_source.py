"""What is told of a Python file, whatever is in it."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.demo.facts import Class, Function, Imported
from callboard.demo.python_source import LISTED_MAX, PARSED_BYTES_MAX, python_facts

SOURCE = b'''"""Says what it is. And more.

>>> 1 + 1
2
"""
import os, sys
from . import sibling
from ..pkg import one as two, three

try:
    import ujson as json
except ImportError:
    import json


@app.route("/")
async def home(request):
    import lazy
    return lazy


class TestHome(unittest.TestCase, Generic[T]):
    """>>> home()"""

    def test_one(self): ...
    async def test_two(self): ...
    def helper(self): ...


if __name__ == "__main__":
    unittest.main()
'''


def test_a_file_is_told_by_its_syntax_tree() -> None:
    facts = python_facts("a.py", SOURCE)
    assert facts.docstring.startswith("Says what it is.")
    assert {each.module for each in facts.imports} == {"os", "sys", ".", "..pkg", "ujson", "json", "lazy"}
    assert Imported("..pkg", 8, ("one", "three")) in facts.imports
    assert facts.functions == (Function("home", 17, ("app.route",)),)
    assert facts.classes == (Class("TestHome", 22, ("unittest.TestCase", "Generic"), 3, 2),)
    assert (facts.main_line, facts.main_calls, facts.examples) == (30, ("unittest.main",), 2)
    assert not facts.problem


@pytest.mark.parametrize(
    ("line", "is_main"),
    [
        ("if __name__ == '__main__':", True),
        ("if '__main__' == __name__:", True),
        ("if __name__ != '__main__':", False),
        ("if __name__ == 'main':", False),
        ("if name == '__main__':", False),
    ],
)
def test_a_main_part_is_known_by_its_condition(line: str, is_main: bool) -> None:
    assert bool(python_facts("a.py", f"{line}\n    pass\n".encode()).main_line) == is_main


def test_what_stands_in_a_string_is_neither_imported_nor_defined() -> None:
    facts = python_facts("a.py", b"TEXT = '''\nimport pytest\ndef test_x():\n    pass\n'''\n")
    assert not facts.imports
    assert not facts.functions


def test_python_2_is_read_line_by_line() -> None:
    facts = python_facts(
        "a.py", b"import os\nfrom a.b import c, d\nprint 'x'\nclass A(B, C):\n  pass\ndef f(): pass\n"
    )
    assert facts.problem.startswith("no syntax of this Python")
    assert facts.imports == (Imported("os", 1), Imported("a.b", 2, ("c", "d")))
    assert facts.classes == (Class("A", 4, ("B", "C")),)
    assert facts.functions == (Function("f", 6),)


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\xef\xbb\xbfx = 1\n",
        b"# coding: latin-1\nname = '\xf6'\n",
        b"# coding: klingon\n",
        b"name = '\xf6'\n",
        b"x = '\xed\xa0\x80'\n",
        "größe = 'ß'\n".encode(),
        b"(" * 5_000,
        b"-" * 100_000 + b"1",
        b"x = " + b"[" * 90 + b"]" * 90,
        b"f(" * 3_000 + b")" * 3_000,
        b"a." * 50_000 + b"b",
        b"1+" * 50_000 + b"1",
        b"if x:\n\tpass\n        pass\n",
        b'"""\\ud800"""\n',
    ],
    ids=range(15),
)
def test_no_source_is_too_odd_to_be_told(source: bytes) -> None:
    facts = python_facts("a.py", source)
    assert facts.docstring.isprintable()
    assert facts.problem.isprintable()


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_told(source: bytes) -> None:
    assert python_facts("a.py", source).path == "a.py"


def test_the_code_of_others_makes_no_warnings() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not python_facts("a.py", b"x = '\\d'\nif x is 'a': pass\n").problem
    assert not caught


def test_a_file_that_is_too_large_to_parse_is_read_in_part() -> None:
    facts = python_facts("a.py", b"import os\n" + b"x = 1\n" * (PARSED_BYTES_MAX // 6))
    assert "too many to parse" in facts.problem
    assert facts.imports == (Imported("os", 1),)


def test_what_is_left_out_is_said_to_be() -> None:
    facts = python_facts("a.py", b"import a\n" * (LISTED_MAX + 1))
    assert facts.is_cut
    assert len(facts.imports) == LISTED_MAX
