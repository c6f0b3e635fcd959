"""`callboard usage`."""

import asyncio
import json
from pathlib import Path

import pytest

from callboard import Agent, Runtime, ScriptedModel, Usage, say
from callboard.actors.protocol.profiles import Prices
from callboard.log import SQLiteLog
from tests.cli.conftest import Callboard


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Record two sessions of one call each."""
    path = tmp_path / "log.db"
    usage = Usage(input_tokens=1_000, output_tokens=100)
    model = ScriptedModel(lambda request: say("done"), name="m", usage=usage, prices=Prices(1, 5))

    async def record() -> None:
        async with Runtime(path) as runtime:
            for tags in (["t:a", "t:b"], []):
                await runtime.run(Agent("host", model=model), "go", tags=tags)

    asyncio.run(record())
    return str(path)


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_usage_is_listed_with_a_total(callboard: Callboard, log: str) -> None:
    assert lines(callboard("usage", "--log", log).stdout) == [
        ["MODEL", "CALLS", "TOKENS", "COST"],
        ["m", "2", "2,200", "$0.0030"],
        ["total", "2", "2,200", "$0.0030"],
    ]


def test_lines_by_tag_overlap_and_say_so(callboard: Callboard, log: str) -> None:
    done = callboard("usage", "--by", "tag", "--log", log)
    assert [line[:2] for line in lines(done.stdout)[1:]] == [
        ["(none)", "1"],
        ["t:a", "1"],
        ["t:b", "1"],
        ["total", "2"],
    ]
    assert "counts in each line" in done.stderr
    one = json.loads(callboard("usage", "--tag", "t:a", "--since", "7d", "--log", log, "--json").stdout)
    assert (one["by"], one["overlaps"], one["total"]["calls"]) == ("model", False, 1)
    assert one["lines"][0]["model"] == "m"


def test_usage_that_is_missing_is_filled_in(callboard: Callboard, log: str) -> None:
    async def forget() -> None:
        opened = SQLiteLog(log)
        await opened.open()
        for row in await opened.sessions():
            await opened.set_usage(row.session_id, [])
        await opened.close()

    asyncio.run(forget())
    empty = callboard("usage", "--log", log)
    assert (empty.stdout, "usage --fill" in empty.stderr) == ("", True)
    filled = callboard("usage", "--fill", "--log", log)
    assert "filled in the usage of 2 sessions" in filled.stderr
    assert lines(filled.stdout)[1][:2] == ["m", "2"]
