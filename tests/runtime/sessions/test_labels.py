"""Tags and metadata: accepted values, refused ones, secrets."""

import msgspec
import pytest

from callboard.actors.protocol.errors import InvalidPrompt, MisuseError
from callboard.actors.protocol.immutable import NULL
from callboard.runtime.secrets.registry import NO_SECRETS, Secrets
from callboard.runtime.sessions.labels import (
    TAGS_MAX,
    checked_tags,
    metadata_json,
    title_text,
)
from tests.tables import table


def test_tags_stay_in_their_order_and_occur_once() -> None:
    assert checked_tags(["b", "a", "b", "é ü"], NO_SECRETS) == ("b", "a", "é ü")
    assert checked_tags(["x" * 200], NO_SECRETS) == ("x" * 200,)
    assert checked_tags((str(n) for n in range(TAGS_MAX)), NO_SECRETS)[-1] == str(TAGS_MAX - 1)


@table(
    "tags",
    [
        "text",
        3,
        [3],
        [""],
        ["a\nb"],
        ["\x1b[31m"],
        ["a\0"],
        ["\u202e"],
        ["\ud800"],
        ["x" * 201],
    ],
    ids=repr,
)
def test_a_tag_that_a_line_cannot_hold_is_refused(tags: object) -> None:
    with pytest.raises(MisuseError, match="tag"):
        checked_tags(tags, NO_SECRETS)  # type: ignore[arg-type]  # wrong values on purpose


def test_too_many_tags_are_refused() -> None:
    with pytest.raises(MisuseError, match="at most 32"):
        checked_tags([str(n) for n in range(TAGS_MAX + 1)], NO_SECRETS)


def test_metadata_is_a_small_json_object() -> None:
    assert metadata_json(None, NO_SECRETS) == metadata_json({}, NO_SECRETS) == NULL
    given = {"name": "Ann", "plan": {"seats": [1, None, 2.5]}}
    assert msgspec.json.decode(metadata_json(given, NO_SECRETS)) == given
    for wrong in ("text", [1], 3):
        with pytest.raises(MisuseError, match="dict"):
            metadata_json(wrong, NO_SECRETS)  # type: ignore[arg-type]  # wrong values on purpose
    for odd in ({"x": object()}, {"x": float("nan")}, {"x": "y" * 9_000}, {1: 2}):
        with pytest.raises(InvalidPrompt):
            metadata_json(odd, NO_SECRETS)  # type: ignore[arg-type]  # likewise


def test_a_secret_in_either_is_refused() -> None:
    secrets = Secrets(["correct-horse-battery"])
    with pytest.raises(InvalidPrompt, match="a tag holds a secret"):
        checked_tags(["ok", "key=correct-horse-battery"], secrets)
    with pytest.raises(InvalidPrompt, match="metadata holds a secret"):
        metadata_json({"note": {"deep": "correct-horse-battery"}}, secrets)


def test_a_title_is_the_beginning_of_a_text_and_empty_for_anything_else() -> None:
    assert title_text("go", NO_SECRETS) == "go"
    assert len(title_text("x" * 1_000, NO_SECRETS)) <= 200
    assert title_text(["go"], NO_SECRETS) == ""
