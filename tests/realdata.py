"""Recorded Messages API traffic for tests.

`tests/data/recordings` has a selection (its README names sources and licences). CALLBOARD_RECORDINGS names a
folder with a larger collection in the same files. `samples()` are six records that tests know one by one.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Final, cast

DATA: Final = Path(__file__).resolve().parent / "data"
RECORDINGS: Final = Path(os.environ.get("CALLBOARD_RECORDINGS") or DATA / "recordings")
SAMPLES: Final = DATA / "anthropic"

COUNTS: Final = {"messages_json": 49, "messages_sse": 30, "messages_errors": 17, "responses_only": 10}
"""Records of the selection. A collection in its place has no fewer."""
LOOPS: Final = 13
"""Episodes of the selection that are pure tool loops."""

JsonObject = dict[str, object]


@cache
def records(name: str) -> tuple[JsonObject, ...]:
    """Read all records of a file: messages_json, messages_sse, messages_errors or responses_only."""
    found = tuple(json.loads(line) for line in _lines(name))
    assert len(found) >= COUNTS[name], (
        f"{RECORDINGS} has {len(found)} {name}, and the selection {COUNTS[name]}"
    )
    return found


@cache
def record(record_id: str) -> JsonObject:
    """Find one record by its id."""
    return next(found for name in COUNTS for found in records(name) if found["id"] == record_id)


def episodes(*, is_pure_tool_loop: bool = False) -> list[JsonObject]:
    """Read chains of records, each request of which continues the one before.

    is_pure_tool_loop: only chains in which every request but the first returns tool results.
    """
    found = [json.loads(line) for line in _lines("episodes")]
    return [episode for episode in found if episode["pure_tool_loop"] or not is_pure_tool_loop]


@cache
def samples() -> tuple[JsonObject, ...]:
    """Read the few records that tests know one by one, by the name of their file."""
    return tuple(json.loads(path.read_text("utf-8")) for path in sorted(SAMPLES.glob("*.json")))


def sample(name: str) -> JsonObject:
    """Read one sample by the name of its file, without `.json`."""
    return cast(JsonObject, json.loads((SAMPLES / f"{name}.json").read_text("utf-8")))


def _lines(name: str) -> list[str]:
    return (RECORDINGS / f"{name}.jsonl").read_text("utf-8").split("\n")[:-1]
