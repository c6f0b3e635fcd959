"""`callboard usage`."""

import asyncio
import json
from pathlib import Path

import pytest

from callboard import Agent, Runtime, ScriptedModel, Usage, say
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stopped
from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.log import SQLiteLog
from callboard.runtime.log.protocol import Append
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


SPANS = (("*", ""), ("tenant:*=tenant:a", "2026-11-28"))


def call(turn: int) -> Reservation:
    return Reservation(CallKey("s", 1, "host.1", turn, 1), Need(1_500, 15_100), SPANS)


@pytest.fixture
def budgets_log(tmp_path: Path) -> str:
    """Write a log with one call settled, one open and one lost."""
    path = tmp_path / "log.db"

    async def write() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 0, "")
        changes: list[SpendingChange] = [call(1), call(2), call(3)]
        changes.append(Settlement(call(1), Need(1_200, 12_000)))
        await log.append([Append("s", 0, 1, [Event(1, 5, "host", "supervisor", 0, Stopped())], changes)])
        held = call(2)._replace(key=call(2).key._replace(epoch=2))
        await log.spending.hand_over("s", 2, [held], [], 6)
        await log.close()

    asyncio.run(write())
    return str(path)


def test_amounts_reservations_and_unlogged_charges_are_listed(callboard: Callboard, budgets_log: str) -> None:
    lines = [line.split() for line in callboard("budgets", "--log", budgets_log).stdout.splitlines()]
    assert lines == [
        ["SCOPE", "PERIOD", "TOKENS", "COST"],
        ["*", "all", "time", "2,700", "$0.0271"],
        ["tenant:*=tenant:a", "2026-11-28", "2,700", "$0.0271"],
        [],
        ["SESSION", "CALL", "TOKENS", "COST", "STATE"],
        ["s", "host.1,", "turn", "2.1", "1,500", "$0.0151", "reserved"],
        ["s", "host.1,", "turn", "3.1", "1,500", "$0.0151", "not", "logged"],
    ]


def test_the_same_as_json(callboard: Callboard, budgets_log: str) -> None:
    found = json.loads(callboard("budgets", "--log", budgets_log, "--json").stdout)
    assert found["spent"][0] == {"scope": "*", "period": None, "tokens": 2_700, "cost_usd": 0.0271}
    assert found["reserved"] == [
        {
            "session": "s",
            "agent": "host.1",
            "turn": 2,
            "attempt": 1,
            "tokens": 1_500,
            "cost_usd": 0.0151,
            "scopes": ["*", "tenant:*=tenant:a"],
        }
    ]
    assert [(one["turn"], one["at"]) for one in found["unlogged"]] == [(3, "1970-01-01T00:00:00.006Z")]


def test_a_log_without_budgets_says_so(callboard: Callboard, tmp_path: Path) -> None:
    asyncio.run(_empty(tmp_path / "log.db"))
    done = callboard("budgets", "--log", str(tmp_path / "log.db"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing is spent or reserved" in done.stderr


async def _empty(path: Path) -> None:
    log = SQLiteLog(path)
    await log.open()
    await log.close()
