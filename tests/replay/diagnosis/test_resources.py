"""Writes and reads of one thing by two agents, recorded by the real runtime."""

import asyncio

from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Step, call, calls, say
from callboard.runtime.tools.tool import tool
from tests.replay.diagnosis.user_stories import Script, told

ITEM = "SKU-4471"


class Shop:
    """A stock of ten, which changes once both clerks have read it."""

    def __init__(self) -> None:
        self.stock = 10
        self.left = 2
        self.is_read = asyncio.Event()

    async def read_stock(self, item: str) -> int:
        """Read the stock."""
        self.left -= 1
        if not self.left:
            self.is_read.set()
        return self.stock

    async def write_stock(self, item: str, value: int) -> str:
        """Write the stock."""
        await self.is_read.wait()
        self.stock = value
        return "ok"


def test_an_update_that_another_one_overwrites_is_one_finding() -> None:
    shop = Shop()
    clerk = Agent(
        "clerk", tools=[tool(effect="read")(shop.read_stock), tool(effect="write")(shop.write_stock)]
    )

    def sells(value: int) -> list[Step]:
        return [call("read_stock", item=ITEM), call("write_stock", item=ITEM, value=value), say("Sold.")]

    tasks = calls(*(call("task", agent="clerk", prompt=f"Sell {n} of {ITEM}") for n in (3, 4)))
    script: Script = {"host": [tasks, say("Sold 7.")], "host.1": sells(7), "host.2": sells(6)}
    (finding,) = told(Agent("host", agents=[clerk]), "Sell 7.", script).diagnose()
    assert finding.kind == "overwritten"
    assert f"read {ITEM!r} before" in finding.says
