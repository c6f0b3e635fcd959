"""Paths beside the point: folders whose code serves the project, or is no part of it."""

from typing import Final


def words(*lines: str) -> frozenset[str]:
    """A set of words, written as one would write them."""
    return frozenset(word for line in lines for word in line.split())


_TESTS: Final = words("test tests testing __tests__ spec specs e2e testdata test_data")
_SAMPLES: Final = words(
    "fixtures fixture __fixtures__ samples sample examples example _examples demo demos",
    "templates template cookiecutter snippets playground",
)
_SERVICE: Final = words(
    "docs doc docs_src documentation bench benches benchmark benchmarks perf fuzz",
    "scripts script tools tool tooling ci .ci .github .circleci hack misc contrib extras etc dev packaging",
    "util utils migrations",
)


def is_sample(path: str) -> bool:
    """Whether a file belongs to a sample or a fixture: another little project within this one."""
    folders = path.split("/")[:-1]
    return any(folder.lower() in _SAMPLES or folder.lower() in _TESTS for folder in folders)


def is_aside(path: str) -> bool:
    """Whether a file serves the project's authors (tests, docs, benchmarks, scripts) more than its users.

    Hidden files and folders do.
    """
    names = path.split("/")
    is_hidden = any(name.startswith(".") and name != "." for name in names)
    return is_hidden or is_sample(path) or any(folder.lower() in _SERVICE for folder in names[:-1])


def depth(path: str) -> int:
    """How many folders a path goes through."""
    return path.count("/")
