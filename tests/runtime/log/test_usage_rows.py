"""The usage of sessions in every store: added with its events, replaced, and dropped with its session."""

import asyncio
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import SessionNotFound
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stopped
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Append, EventLog
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.usage_rows import UsageRow, summed, total

ONE, TWO = Usage(1, 2, 3, 4, 5, 6, 1, 0), Usage(10, micro_usd=7, calls=1, unknown_calls=1)
BOTH = Usage(11, 2, 3, 4, 5, 13, 2, 1)


def charge(usage: Usage, day: str = "2026-11-28", model: str = "m") -> Charge:
    return Charge(day, model, "host", usage)


def test_charges_are_summed_by_day_model_and_profile() -> None:
    found = summed([charge(ONE), charge(TWO), charge(ONE, model="n")])
    assert found == {("2026-11-28", "m", "host"): BOTH, ("2026-11-28", "n", "host"): ONE}
    assert total([ONE, TWO]) == BOTH
    assert total([]) == ZERO


@pytest.mark.parametrize("kind", ["memory", "sqlite", "encrypted"])
def test_a_store_adds_replaces_and_drops_usage(kind: str, tmp_path: Path) -> None:
    key = b"k" * 32 if kind == "encrypted" else None
    log: EventLog = MemoryLog() if kind == "memory" else SQLiteLog(tmp_path / "log", encryption_key=key)

    async def append(seq: int, *charges: Charge) -> object:
        event = Event(seq, 5, "host", "supervisor", 0, Stopped())
        (answer,) = await log.append([Append("s", seq - 1, 1, [event], (), charges)])
        return answer

    async def body() -> None:
        await log.open()
        await log.create("s", 0, "")
        await append(1, charge(ONE))
        await append(2, charge(TWO), charge(ONE, day="2026-11-29"))
        assert isinstance(await append(9, charge(ONE)), Exception)
        first = UsageRow("s", "2026-11-28", "m", "host", BOTH)
        second = UsageRow("s", "2026-11-29", "m", "host", ONE)
        assert await log.usage() == [first, second]
        assert await log.usage("2026-11-29") == [second]
        (row,) = await log.sessions()
        assert row.usage == total([BOTH, ONE])
        await log.set_usage("s", [charge(TWO)])
        assert [one.usage for one in await log.usage()] == [TWO]
        with pytest.raises(SessionNotFound):
            await log.set_usage("t", [])
        await log.delete("s")
        assert await log.usage() == []
        await log.close()

    asyncio.run(body())
