from pathlib import Path

import click
import pytest

from callboard.actors.protocol.limits import Limits
from callboard.cli.errors import NOT_FOUND, USAGE, Failure
from callboard.cli.foreground import parse_limits, read_prompt, read_schema


def refused(code: int, *words: str) -> "pytest.RaisesExc[Failure]":
    return pytest.raises(
        Failure,
        check=lambda error: error.exit_code == code and all(word in error.message for word in words),
    )


def test_limits_are_written_by_name() -> None:
    assert parse_limits(["tokens=200_000", "cost_usd=0.5", "max_depth=2"]) == Limits(
        tokens=200_000, cost_usd=0.5, max_depth=2
    )
    assert parse_limits([]) == Limits()


def test_whole_numbers_may_be_written_in_thousands_and_millions() -> None:
    assert parse_limits(["tokens=200k"]).tokens == 200_000
    assert parse_limits(["tokens=2M"]).tokens == 2_000_000


def test_an_unknown_limit_is_answered_with_the_names_there_are() -> None:
    with refused(USAGE, "'token=3'", "tokens", "max_depth", "deadline_s"):
        parse_limits(["token=3"])


@pytest.mark.parametrize(
    "pair", ["tokens=many", "tokens=1.5", "tokens=", "deadline_s=soon", "tokens", "deadline_s=5k"]
)
def test_a_limit_that_is_no_number_is_refused_by_name(pair: str) -> None:
    with refused(USAGE, pair):
        parse_limits([pair])


@pytest.mark.parametrize("pair", ["max_depth=-1", "deadline_s=nan", "deadline_s=0"])
def test_a_limit_out_of_bounds_is_refused_with_the_bounds(pair: str) -> None:
    with refused(USAGE, pair.split("=")[0], "must be"):
        parse_limits([pair])


def test_a_schema_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"type": "object", "properties": {"z": {}, "a": {}}}')
    schema = read_schema(str(path))
    assert schema is not None
    assert list(schema["properties"]) == ["z", "a"]  # type: ignore[call-overload]
    assert read_schema("") is None


def test_a_missing_schema_is_answered_with_the_files_there_are(tmp_path: Path) -> None:
    (tmp_path / "count.json").write_text("{}")
    with refused(NOT_FOUND, "there is no file", "count.json"):
        read_schema(str(tmp_path / "cuont.json"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not valid JSON"),
        ('{"type": "objct"}', "/type"),
        ("[]", "JSON object"),
        ('{"$ref": "http://x/y"}', "$ref"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_before_anything_runs(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with refused(USAGE, str(path), words):
        read_schema(str(path))


def test_a_schema_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="cannot be read"):
        read_schema(str(tmp_path))


def test_an_empty_prompt_is_refused() -> None:
    with refused(USAGE, "empty"):
        read_prompt("  \n")
    assert read_prompt("go on") == "go on"
