"""The facts of sources and settings: tests that lie about their names, text in strings, broken files."""

import pytest

from callboard.demo.sources import one_line, printable, python_file, settings_of
from tests.tables import table


@table(
    ("text", "style", "tests"),
    [
        ("def test_a():\n    pass\n", "plain tests", ["test_a"]),
        ("async def test_a():\n    pass\n", "plain tests", ["test_a"]),
        ("class TestA:\n    def test_a(self): ...\n", "plain tests", ["TestA"]),
        ("class TestRunner:\n    def run(self): ...\n", "plain tests", []),
        ("class Thing:\n    def test_a(self): ...\n", "plain tests", []),
        ("def test_a(): ...\n\nif __name__ == '__main__':\n    test_a()\n", "plain tests", []),
        ("TEXT = '''\ndef test_a():\n    pass\n'''\n", "plain tests", []),
        ("class TestA:\n    def test_a(self): ...\n\nclass B(TestA, Base): ...\n", "plain tests", []),
        ("import unittest\nclass A(unittest.TestCase): ...\n", "unittest", ["A"]),
        ("class A(SimpleTestCase): ...\n", "unittest", ["A"]),
        ("import unittest\nclass A(Base):\n    def test_a(self): ...\n", "unittest", ["A"]),
        ("import unittest\nclass A(Base):\n    def helper(self): ...\n", "plain tests", []),
        ("def helper():\n    class A(TestCase): ...\n", "plain tests", []),
    ],
)
def test_tests_are_known_by_their_code(text: str, style: str, tests: list[str]) -> None:
    found = python_file("a.py", text)
    assert (found.style, list(found.tests)) == (style, tests)


@table(
    ("text", "line"),
    [
        ("x = 1\nif __name__ == '__main__':\n    pass\n", 2),
        ('if "__main__" == __name__:\n    pass\n', 1),
        ("if __name__ != '__main__':\n    pass\n", 0),
        ("'''\nif __name__ == '__main__':\n    pass\n'''\n", 0),
        ("def f():\n    if __name__ == '__main__':\n        pass\n", 0),
    ],
)
def test_a_main_part_is_code_at_the_top(text: str, line: int) -> None:
    assert python_file("a.py", text).main_line == line


def test_imports_are_found_wherever_they_stand() -> None:
    found = python_file("a.py", "import a.b\ndef f():\n    from c import d\nfrom . import e\n'import g'\n")
    assert found.imports == {"a.b": 1, ".": 4, "c": 3}


def test_the_first_sentence_of_a_file_is_its_docstring() -> None:
    found = python_file("a.py", '"""One\ntwo. Three."""\n')
    assert found.docstring == "One two."


@table("text", ["def f(:\n", "print 'x'\n", "\0", "(" * 5_000, "-" * 200_000 + "1"])
def test_a_source_that_does_not_parse_says_so(text: str) -> None:
    assert python_file("a.py", text).problem.startswith("a.py is not the syntax of this Python")


def pairs(path: str, text: str) -> list[tuple[str, str, int]]:
    return [(each.key, each.value, each.place.line) for each in settings_of(path, text)]


def test_toml_is_flat_with_the_lines_of_its_values() -> None:
    text = '# b = "x:y"\n[a]\nb = "x:y"\nlist = [\n  "one",\n  # "two",\n]\n[empty]\n'
    assert pairs("pyproject.toml", text) == [("a.b", "x:y", 3), ("a.list.0", "one", 5), ("empty", "", 0)]


def test_ini_values_of_several_lines_are_settings_of_their_own() -> None:
    text = "[options.entry_points]\nconsole_scripts =\n    a = a:main\n    # b = b:main\n    c = c:main\n"
    found = pairs("x/setup.cfg", text)
    assert [value for _, value, _ in found] == ["a = a:main", "c = c:main"]
    assert [line for _, _, line in found] == [3, 5]
    assert {key for key, _, _ in found} == {"options.entry_points.console_scripts"}


def test_setup_is_read_without_running_it() -> None:
    text = "import os\nos.abort()\nsetup(name='n', version=read(), scripts=['a'], x={'k': ('v',)})\n"
    assert pairs("setup.py", text) == [
        ("name", "n", 3),
        ("version", "", 0),
        ("scripts.0", "a", 3),
        ("x.k.0", "v", 3),
    ]


@table(
    ("path", "text"),
    [
        ("pyproject.toml", "= nothing"),
        ("pyproject.toml", "a = " + "[" * 5_000),
        ("setup.cfg", "no section = here\n"),
        ("setup.py", "setup(\n"),
        ("Pipfile", "[a"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_one_setting_without_a_key(path: str, text: str) -> None:
    ((key, value, line),) = pairs(path, text)
    assert (key, line) == ("", 0)
    assert value.startswith("cannot be parsed: ")


def test_requirements_are_settings_line_by_line() -> None:
    found = pairs("requirements-dev.txt", "# pytest\npytest>=7\n")
    assert found == [("requirements", "# pytest", 0), ("requirements", "pytest>=7", 2)]


@pytest.mark.parametrize("path", ["pyproject.toml", "setup.py", "tox.ini", "requirements.txt"])
def test_a_file_that_was_not_read_says_why(path: str) -> None:
    (found,) = settings_of(path, "", "It is too large.")
    assert (found.key, found.value, found.problem) == ("", "", "It is too large.")


def test_nothing_printable_moves_a_cursor() -> None:
    assert printable("größe") == "größe"
    assert printable("a\x1b[2J\n\u202eb\udcff") == "a\\x1b[2J\\n\\u202eb\\udcff"


def test_one_line_is_short_and_says_where_it_was_cut() -> None:
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert len(one_line("x\x1b" * 10**6)) == 160
