"""The facts of Python files: tests that lie about their names, and code that stands in strings."""

import pytest

from callboard.demo.python_source import python_file


@pytest.mark.parametrize(
    ("text", "tests", "cases"),
    [
        ("def test_a():\n    pass\n", ["test_a"], []),
        ("async def test_a():\n    pass\n", ["test_a"], []),
        ("class TestA:\n    def test_a(self): ...\n", ["TestA"], []),
        ("class TestRunner:\n    def run(self): ...\n", [], []),
        ("class Thing:\n    def test_a(self): ...\n", [], []),
        ("def test_a(): ...\n\nif __name__ == '__main__':\n    test_a()\n", [], []),
        ("TEXT = '''\ndef test_a():\n    pass\n'''\n", [], []),
        ("class TestA:\n    def test_a(self): ...\n\nclass B(TestA, Base): ...\n", [], []),
        ("import unittest\nclass A(unittest.TestCase): ...\n", [], ["A"]),
        ("class A(SimpleTestCase): ...\n", [], ["A"]),
        ("import unittest\nclass A(Base):\n    def test_a(self): ...\n", [], ["A"]),
        ("import unittest\nclass A(Base):\n    def helper(self): ...\n", [], []),
        ("def helper():\n    class A(TestCase): ...\n", [], []),
    ],
)
def test_tests_are_known_by_their_code(text: str, tests: list[str], cases: list[str]) -> None:
    found = python_file("a.py", text)
    assert (list(found.tests), list(found.test_cases)) == (tests, cases)


@pytest.mark.parametrize(
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
    assert found.imports == {"a.b": 1, "e": 4, "c": 3}


def test_the_first_sentence_of_a_file_is_its_docstring() -> None:
    found = python_file("a.py", '"""One\ntwo. Three."""\n')
    assert found.docstring == "One two."


@pytest.mark.parametrize("text", ["def f(:\n", "print 'x'\n", "\0", "(" * 5_000, "-" * 200_000 + "1"])
def test_a_source_that_does_not_parse_says_so(text: str) -> None:
    assert python_file("a.py", text).problem.startswith("a.py is not the syntax of this Python")
