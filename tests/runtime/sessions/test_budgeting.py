"""Binding sessions by budgets: the scopes of their tags, prices, and damaged rows."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from callboard import Agent, Budget, Runtime, ScriptedModel, say
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.profiles import ModelSpec
from callboard.errors import CorruptLog, MisuseError
from callboard.log import MemoryLog
from callboard.runtime.budgets import SharedBudgets
from callboard.runtime.sessions.budgeting import Budgeting

OPENED = SessionOpened(2, "host", (), ModelSpec("m"))
HOST = Agent("host", model=ScriptedModel(lambda request: say("done")))


def budgeting(**budgets: Budget) -> Budgeting:
    return Budgeting(
        SharedBudgets({name.replace("_", ":*"): one for name, one in budgets.items()}, MemoryLog())
    )


def test_a_session_is_bound_by_the_scopes_of_its_tags() -> None:
    bound = budgeting(batch=Budget(tokens=5), t_=Budget(tokens=5)).bind(OPENED, ["t:a", "batch"], "m")
    assert bound.scopes == ("batch", "t:*=t:a")


def test_without_a_scope_nothing_is_added_or_kept() -> None:
    made = budgeting(batch=Budget(tokens=5))
    assert made.bind(OPENED, ["other"], "m") is OPENED
    bound = made.begin("s", 1, ())
    assert (bound.scopes, bound.keys) == ((), None)


def test_an_unknown_price_matters_only_where_a_cost_budget_binds() -> None:
    made = budgeting(batch=Budget(cost_usd=5), t_=Budget(tokens=5))
    assert made.bind(OPENED, ["t:a"], "m").scopes == ("t:*=t:a",)
    assert made.bind(OPENED, ["batch"], "").scopes == ("batch",)
    with pytest.raises(MisuseError, match="the budget 'batch' limits cost"):
        made.bind(OPENED, ["batch"], "m")


def test_a_damaged_row_of_a_budget_lets_no_session_of_it_begin(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def once(*tags: str) -> str:
        async with Runtime(path, budgets={"t:*": Budget(tokens=10_000_000)}) as runtime:
            return (await runtime.run(HOST, "go", tags=tags)).kind

    assert asyncio.run(once("t:a")) == "answered"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE budgets SET tokens = 'many'")
    with pytest.raises(CorruptLog, match="the row of a budget is damaged"):
        asyncio.run(once("t:a"))
    assert asyncio.run(once("t:b")) == "answered"
    assert asyncio.run(once()) == "answered"
