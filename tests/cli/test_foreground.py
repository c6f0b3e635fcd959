import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
import pytest

from callboard.cli.errors import NOT_FOUND, USAGE, Failure
from callboard.cli.foreground import read_prompt, read_schema

T = TypeVar("T")


def refusal(code: int, read: Callable[[T], object], value: T) -> str:
    """Return the message of the refusal of a value, which must have this exit code."""
    with pytest.raises(Failure) as caught:
        read(value)
    assert caught.value.exit_code == code
    return caught.value.message


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
