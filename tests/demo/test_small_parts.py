"""The tables and helpers that the agents lean on: texts, languages, places aside, definitions."""

import pytest

from callboard.demo.aside import is_aside, is_sample
from callboard.demo.definitions import DEFINITIONS, defined_name
from callboard.demo.languages import CODE, globs_of, is_code, language_of
from callboard.demo.names import many
from callboard.demo.patterns import any_glob, regex
from callboard.demo.testing_config import COMMANDS, DECLARED_LINES, PACKAGES, lock_line
from callboard.demo.testing_evidence import _is_command
from callboard.demo.testing_signs import FAMILIES
from callboard.demo.testing_signs_more import MORE_FAMILIES
from callboard.demo.texts import first_sentence, is_binary, lines_in, safe_text


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.py", "Python"),
        ("A.PY", "Python"),
        ("x/Makefile", "Make"),
        ("x.py/data", ""),
        (".gitignore", ""),
        (".py", ""),
        ("archive.tar.gz", ""),
        ("a.R", "R"),
        ("page.test.tsx", "TypeScript"),
    ],
)
def test_a_language_is_known_by_a_files_name(name: str, language: str) -> None:
    assert language_of(name) == language
    assert is_code(name) == (language in CODE)


def test_the_globs_of_a_language_find_its_files() -> None:
    assert any_glob(globs_of(["Python", "Go"])).search(b"src/a.go")
    assert not any_glob(globs_of(["Python", "unknown"])).search(b"src/a.go")


@pytest.mark.parametrize(
    ("path", "aside", "sample"),
    [
        ("src/app/main.py", False, False),
        ("tests/app/main.py", True, True),
        ("scripts/release.py", True, False),
        ("docs/conf.py", True, False),
        (".github/run.py", True, False),
        (".hidden.sh", True, False),
        ("./main.py", False, False),
        ("tests.py", False, False),
        ("Examples/one.py", True, True),
    ],
)
def test_places_aside_are_known_by_their_folders(path: str, aside: bool, sample: bool) -> None:
    assert (is_aside(path), is_sample(path)) == (aside, sample)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", False),
        (b"plain", False),
        (b"zero\0", True),
        ("größe".encode("utf-16"), False),
        (b"\xef\xbb\xbftext", False),
        (b"\x01\x02\x03\x04", True),
        (b"\x1b[31mred\x1b[0m", False),
        ("größe".encode("latin-1"), False),
        (b"a" * 9_000 + b"\0", False),
    ],
)
def test_binary_is_what_begins_with_zeros_or_controls(data: bytes, expected: bool) -> None:
    assert is_binary(data) == expected


def test_lines_are_counted_with_a_last_one_that_has_no_end() -> None:
    assert [lines_in(data) for data in (b"", b"\n", b"a", b"a\n", b"a\nb")] == [0, 1, 1, 1, 2]


def test_a_sentence_ends_at_its_full_stop_or_its_paragraph() -> None:
    assert first_sentence("One\ntwo. Three.\n\nFour.") == "One two."
    assert first_sentence("One 1.5 two\n\nThree.") == "One 1.5 two"
    assert first_sentence("  ") == ""
    assert safe_text(b"a\r\nb\x07") == "a\nb\\x07"


@pytest.mark.parametrize(
    ("language", "line", "name"),
    [
        ("TypeScript", "export default abstract class Shape {", "Shape"),
        ("Go", "func Hello() string {", "Hello"),
        ("Go", "func hello() string {", ""),
        ("Rust", "pub async fn run() {", "run"),
        ("Java", "public final class Main {", "Main"),
        ("C", "static int add(int a, int b)", "add"),
        ("C", "int add(int a, int b);", ""),
        ("Ruby", "  module Greet", "Greet"),
        ("Shell", "install() {", "install"),
        ("SQL", "CREATE TABLE IF NOT EXISTS users (", "users"),
        ("Elixir", "defmodule Clock.CLI do", "Clock.CLI"),
    ],
)
def test_a_definition_is_known_by_its_line(language: str, line: str, name: str) -> None:
    assert defined_name(language, line) == name
    assert bool(regex(DEFINITIONS[language]).search(line.encode())) == bool(name)


def test_every_pattern_of_the_tables_is_one_that_re2_takes() -> None:
    for family in (*FAMILIES, *MORE_FAMILIES):
        any_glob(family.files)
        for sign in family.signs:
            regex(sign.pattern)
    for pattern in (*COMMANDS.values(), *DECLARED_LINES.values(), *DEFINITIONS.values()):
        regex(pattern)


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("pytest", "pytest -q", True),
        ("pytest", "    python3 -m pytest tests/", True),
        ("pytest", 'session.run("pytest", "-x")', True),
        ("pytest", "uv run --group dev pytest", True),
        ("pytest", "$(BIN)/python -m pytest", True),
        ("pytest", "- run: coverage run -m pytest", True),
        ("pytest", "pip install pytest", False),
        ("pytest", "# pytest", False),
        ("pytest", "- name: pytest", False),
        ("pytest", "pytest-cov>=3", False),
        ("pytest", "echo pytest", False),
        ("pytest", "pytest benchmarks/", False),
        ("pytest", "mypytest", False),
        ("unittest", "python -m unittest discover", True),
        ("unittest", "./manage.py test", True),
        ("jest", "jest --ci", True),
        ("jest", "react-scripts test", True),
        ("jest", "cross-env CI=1 npx jest", True),
        ("jest", "eslint-plugin-jest", False),
        ("mocha", "nyc mocha", True),
        ("node:test", "node --import tsx --test src/", True),
        ("node:test", "node test.js", False),
        ("go test", "go test ./...", True),
        ("cargo test", "cargo +nightly test --all", True),
        ("RSpec", "bundle exec rspec", True),
        ("ava", "java -jar x.jar", False),
        ("tap", "tap test/*.js", True),
        ("tap", "tape test/*.js", False),
    ],
)
def test_a_command_that_runs_tests_is_known_by_its_words(name: str, line: str, expected: bool) -> None:
    is_match = regex(COMMANDS[name]).search(line.encode()) is not None
    assert (is_match and _is_command(line)) == expected


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("pytest", 'name = "pytest"'),
        ("pytest", '    "pytest": {'),
        ("jest", '    "node_modules/jest": {'),
        ("jest", "jest@^29.0.0:"),
        ("jest", '"jest@npm:^29.0.0":'),
        ("jest", "  jest@29.7.0:"),
        ("jest", "  /jest@29.7.0:"),
        ("@playwright/test", '    "node_modules/@playwright/test": {'),
        ("rspec", "    rspec (3.13.0)"),
        ("phpunit/phpunit", '            "name": "phpunit/phpunit",'),
    ],
)
def test_an_entry_of_a_lock_file_is_known_in_every_format(package: str, line: str) -> None:
    assert regex(lock_line(package)).search(line.encode())
    assert package in {name for packages in PACKAGES.values() for name in packages}


@pytest.mark.parametrize(
    "line", ['name = "pytest-cov"', '"node_modules/jest-worker": {', "jest-cli@^29:", "# jest@1"]
)
def test_an_entry_of_another_package_is_not_taken_for_it(line: str) -> None:
    assert not any(regex(lock_line(package)).search(line.encode()) for package in ("pytest", "jest"))


def test_numbers_of_things_are_said_as_people_say_them() -> None:
    assert [many(count, "file") for count in (0, 1, 2, 1_000)] == [
        "0 files",
        "1 file",
        "2 files",
        "1,000 files",
    ]
