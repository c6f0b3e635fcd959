"""Patterns and globs that a model may have written."""

import time

import pytest

from callboard.demo.patterns import any_glob, any_regex, regex


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/down/a.py", True),
        ("*.py", "a.pyc", False),
        ("a.*", "a.py/b", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/sub/a.py", False),
        ("src/*.py", "lib/src/a.py", False),
        ("src/**", "src/sub/a.py", True),
        ("**/tests/**/*.js", "tests/a.js", True),
        ("**/tests/**/*.js", "x/tests/y/a.js", True),
        ("**/tests/**/*.js", "attests/a.js", False),
        ("{setup,tox}.{cfg,ini}", "tox.ini", True),
        ("{setup,tox}.{cfg,ini}", "setup.ini.bak", False),
        ("{**/*.rb,**/{bin,exe}/*}", "exe/tool", True),
        ("{**/*.rb,**/{bin,exe}/*}", "a.rb", True),
        ("?.c", "ab.c", False),
        ("a,b.txt", "a,b.txt", True),
        ("[a].txt", "[a].txt", True),
        ("(a+b).$", "(a+b).$", True),
        ("größe.*", "größe.py", True),
        ("a\\\\nb", "a\\\\nb", True),
    ],
)
def test_a_glob_is_about_a_name_or_about_a_path(glob: str, path: str, expected: bool) -> None:
    assert (any_glob([glob]).search(path.encode()) is not None) == expected


def test_no_glob_matches_nothing() -> None:
    assert any_glob([]).search(b"anything") is None
    assert any_glob([]).search(b"") is None


@pytest.mark.parametrize("pattern", ["(", "a{2000}", "(?=x)", r"(a)\1", "*"])
def test_what_re2_does_not_take_is_refused_in_words(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="is no pattern that RE2 takes"):
        regex(pattern)
    assert capfd.readouterr() == ("", "")


def test_a_pattern_of_absurd_length_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1000"):
        regex("a" * 1_001)
    with pytest.raises(ValueError, match="at most 1000"):
        any_glob(["a" * 1_001])


def test_unbalanced_braces_in_a_glob_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="no pattern"):
        any_glob(["{a,b"]).search(b"a")


def test_no_pattern_takes_longer_than_its_text_is_long() -> None:
    started = time.perf_counter()
    assert regex(r"(a+)+$").search(b"a" * 100_000 + b"b") is None
    assert any_glob(["*a*a*a*a*a*a*a*b"]).search(b"a" * 5_000) is None
    assert time.perf_counter() - started < 1


def test_the_union_matches_what_any_of_its_patterns_does() -> None:
    union = any_regex(("^import x", "y$"))
    assert union.search(b"a\nimport x")
    assert union.search(b"y\nz")
    assert not union.search(b"yz")
