import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
import pytest

from callboard.actors.protocol.limits import TABLE, Limits
from callboard.cli.errors import NOT_FOUND, USAGE, Failure
from callboard.cli.foreground import parse_limits, read_prompt, read_schema

T = TypeVar("T")


def refusal(code: int, read: Callable[[T], object], value: T) -> str:
    """Return the message of the refusal of a value, which must have this exit code."""
    with pytest.raises(Failure) as caught:
        read(value)
    assert caught.value.exit_code == code
    return caught.value.message


def test_limits_are_written_by_name() -> None:
    assert parse_limits(["tokens=200_000", "cost_usd=0.5", "max_depth=2"]) == Limits(
        tokens=200_000, cost_usd=0.5, max_depth=2
    )
    assert parse_limits([]) == Limits()


def test_whole_numbers_may_be_written_in_thousands_and_millions() -> None:
    assert parse_limits(["tokens=200k"]).tokens == 200_000
    assert parse_limits(["tokens=2M"]).tokens == 2_000_000


def test_an_unknown_limit_is_answered_with_the_names_there_are() -> None:
    told = refusal(USAGE, parse_limits, ["token=3"])
    assert told == f"--limit 'token=3': write NAME=VALUE; names: {', '.join(TABLE)}"


@pytest.mark.parametrize(
    ("pair", "advice"),
    [
        ("tokens=many", "the value must be a whole number"),
        ("tokens=1.5", "the value must be a whole number"),
        ("tokens=", "the value must be a whole number"),
        ("deadline_s=soon", "the value must be a number"),
        ("deadline_s=5k", "the value must be a number"),
        ("tokens", "write NAME=VALUE"),
    ],
)
def test_a_limit_that_is_no_number_is_refused_by_name(pair: str, advice: str) -> None:
    assert refusal(USAGE, parse_limits, [pair]).startswith(f"--limit {pair!r}: {advice}")


@pytest.mark.parametrize("pair", ["max_depth=-1", "deadline_s=nan", "deadline_s=0"])
def test_a_limit_out_of_bounds_is_refused_with_the_bounds(pair: str) -> None:
    told = refusal(USAGE, parse_limits, [pair])
    assert f"Limits.{pair.split('=')[0]} must be" in told


def test_a_schema_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"type": "object", "properties": {"z": {}, "a": {}}}')
    assert json.dumps(read_schema(str(path))) == path.read_text()  # the order of names is kept
    assert read_schema("") is None


def test_a_missing_schema_is_answered_with_the_files_there_are(tmp_path: Path) -> None:
    (tmp_path / "count.json").write_text("{}")
    told = refusal(NOT_FOUND, read_schema, str(tmp_path / "cuont.json"))
    assert told.startswith(f"there is no file {tmp_path / 'cuont.json'}; ")
    assert "count.json" in told


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
    told = refusal(USAGE, read_schema, str(path))
    assert told.startswith(f"{path} is not ")
    assert words in told


def test_a_schema_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="cannot be read"):
        read_schema(str(tmp_path))


def test_an_empty_prompt_is_refused() -> None:
    assert "empty" in refusal(USAGE, read_prompt, "  \n")
    assert read_prompt("go on") == "go on"
