"""MemorySpending: the contract of `test_spending` runs on it; here is what that does not see."""

import asyncio

from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement
from callboard.runtime.log.memory_spending import MemorySpending
from callboard.runtime.log.spending import Unlogged

CALL = Reservation(CallKey("s", 1, "host", 1, 1), Need(5), (("*", ""),))


def test_a_list_of_charges_is_the_callers_own() -> None:
    spending = MemorySpending()
    spending.apply([CALL, Settlement(CALL, Need(5))])
    asyncio.run(spending.hand_over("s", 2, [], [CALL], 9))
    asyncio.run(spending.unlogged()).clear()
    assert asyncio.run(spending.unlogged()) == [Unlogged(CALL, 9)]
