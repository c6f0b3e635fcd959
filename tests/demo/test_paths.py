"""The meaning of paths: languages, samples, and files beside the point."""

import re

import pytest

from callboard.demo.paths import ASIDE, MANIFESTS, SAMPLES, foreign, is_foreign, language_of, programs


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.py", "Python"),
        ("A.PY", "Python"),
        ("x.py/data", "other"),
        (".gitignore", "other"),
        (".py", "other"),
        ("archive.tar.gz", "other"),
        ("a.R", "R"),
        ("page.test.tsx", "TypeScript"),
        ("README.md", "Markdown"),
    ],
)
def test_a_language_is_known_by_a_files_name(name: str, language: str) -> None:
    assert language_of(name) == language


def test_programs_are_not_documents_or_data() -> None:
    assert programs({"Markdown": 9, "C++": 3, "other": 2, "Python": 1, "Notebook": 1}) == ["C++", "Python"]


@pytest.mark.parametrize(
    ("path", "aside", "sample"),
    [
        ("src/app/main.py", False, False),
        ("tests/app/main.py", True, False),
        ("tests/data/main.py", True, True),
        ("x/fixtures/a/main.py", True, True),
        ("scripts/release.py", True, False),
        (".github/run.py", True, False),
        (".hidden.sh", True, False),
        ("tests.py", False, False),
        ("Examples/one.py", True, False),
        ("contest/one.py", False, False),
    ],
)
def test_places_aside_are_known_by_their_folders(path: str, aside: bool, sample: bool) -> None:
    assert (bool(re.search(ASIDE, path)), bool(re.search(SAMPLES, path))) == (aside, sample)


def test_manifests_are_known_by_their_whole_names() -> None:
    names = ["setup.py", "a/pyproject.toml", "xsetup.py", "setup.py.bak", "pyproject.toml/x", "Pipfile.lock"]
    assert [name for name in names if re.search(MANIFESTS, name)] == ["setup.py", "a/pyproject.toml"]


@pytest.mark.parametrize(
    ("languages", "others", "is_other"),
    [
        ({"Markdown": 9, "Python": 2, "Go": 1}, ["Go"], False),
        ({"Go": 2, "Python": 1}, ["Go"], True),
        ({"Markdown": 9}, [], False),
    ],
)
def test_a_folder_is_foreign_if_most_programs_are_not_in_python(
    languages: dict[str, int], others: list[str], is_other: bool
) -> None:
    assert (foreign(languages), is_foreign(languages)) == (others, is_other)
