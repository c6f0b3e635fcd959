"""Recorded Messages API traffic for tests.

The whole collection lies beside the repository (../shared/realdata, with its licences) and is not part of
it; a handful of records stands in tests/data/anthropic, so that something runs anywhere. `records(...)`
gives the collection where it is there, `samples()` the handful, always.
"""

import json
from functools import cache
from pathlib import Path
from typing import cast

import pytest

_TESTS = Path(__file__).resolve().parent
REALDATA = _TESTS.parent.parent / "shared" / "realdata"
SAMPLES = _TESTS / "data" / "anthropic"

JsonObject = dict[str, object]

needs_realdata = pytest.mark.skipif(
    not REALDATA.is_dir(),
    reason="the collection of recordings (shared/realdata) is not beside the repository",
)


@cache
def records(name: str) -> tuple[JsonObject, ...]:
    """Read all records of a file of realdata/anthropic: messages_json, messages_sse, messages_errors, ..."""
    return tuple(json.loads(line) for line in _lines(REALDATA / "anthropic" / f"{name}.jsonl"))


@cache
def record(record_id: str) -> JsonObject:
    """Find one record of the collection by its id."""
    names = ("messages_json", "messages_sse", "messages_errors", "responses_only")
    return next(found for name in names for found in records(name) if found["id"] == record_id)


def episodes(*, is_pure_tool_loop: bool = False) -> list[JsonObject]:
    """Read chains of records, each request of which continues the one before.

    is_pure_tool_loop: only chains in which every request but the first returns tool results.
    """
    found = records("episodes")
    return [episode for episode in found if episode["pure_tool_loop"] or not is_pure_tool_loop]


@cache
def samples() -> tuple[JsonObject, ...]:
    """Read the few records that are part of the repository, by the name of their file."""
    return tuple(json.loads(path.read_text("utf-8")) for path in sorted(SAMPLES.glob("*.json")))


def sample(name: str) -> JsonObject:
    """Read one sample by the name of its file, without `.json`."""
    return cast(JsonObject, json.loads((SAMPLES / f"{name}.json").read_text("utf-8")))


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.is_file() else []
