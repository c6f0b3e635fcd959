"""`callboard budgets`."""

import asyncio
import json
from pathlib import Path

import pytest

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stopped
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.log import SQLiteLog
from callboard.runtime.log.protocol import Append
from tests.cli.conftest import Callboard

SPANS = (("*", ""), ("tenant:*=tenant:a", "2026-11-28"))


def call(turn: int) -> Reservation:
    return Reservation(CallKey("s", 1, "host.1", turn, 1), Need(1_500, 15_100), SPANS)


@pytest.fixture
def log(tmp_path: Path) -> str:
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


def test_amounts_reservations_and_unlogged_charges_are_listed(callboard: Callboard, log: str) -> None:
    lines = [line.split() for line in callboard("budgets", "--log", log).stdout.splitlines()]
    assert lines == [
        ["SCOPE", "PERIOD", "TOKENS", "COST"],
        ["*", "all", "time", "2,700", "$0.0271"],
        ["tenant:*=tenant:a", "2026-11-28", "2,700", "$0.0271"],
        [],
        ["SESSION", "CALL", "TOKENS", "COST", "STATE"],
        ["s", "host.1,", "turn", "2.1", "1,500", "$0.0151", "reserved"],
        ["s", "host.1,", "turn", "3.1", "1,500", "$0.0151", "not", "logged"],
    ]


def test_the_same_as_json(callboard: Callboard, log: str) -> None:
    found = json.loads(callboard("budgets", "--log", log, "--json").stdout)
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
