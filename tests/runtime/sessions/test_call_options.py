"""The options of `run` are split into those of `open` and those of `ask`."""

from typing import Any, cast

import pytest

from callboard.actors.protocol.limits import Limits
from callboard.runtime.sessions.call_options import AskOptions, OpenOptions, RunOptions, limits_of_ask, split

OPEN: dict[str, Any] = {
    "session_id": "s",
    "tags": ("a",),
    "files": "here",
    "memory": None,
    "metadata": {"a": 1},
    "permissions": None,
}
ASK: dict[str, Any] = {"request_id": "r", "on_cancel": "detach", "deps": 5, "labels": ("mail",)}


def test_every_option_goes_to_one_of_the_two() -> None:
    opens, asks = split(cast("RunOptions[Any]", {**OPEN, **ASK}))
    assert opens == OPEN
    assert asks == ASK
    assert set(RunOptions.__annotations__) == {*OpenOptions.__annotations__, *AskOptions.__annotations__}
    assert {*OPEN, *ASK, "limits"} == set(RunOptions.__annotations__)


def test_the_limits_of_a_run_are_those_of_its_session() -> None:
    limits = Limits(tokens=500)
    opens, asks = split({"limits": limits})
    assert opens == {"limits": limits}
    assert asks == {}
    assert split({}) == ({}, {})


def test_the_bound_of_questions_is_stated_by_the_ask_too() -> None:
    opens, asks = split({"limits": Limits(tokens=500, max_iterations=3), "request_id": "r"})
    assert opens == {"limits": Limits(tokens=500, max_iterations=3)}
    assert asks == {"limits": Limits(max_iterations=3), "request_id": "r"}


@pytest.mark.parametrize("limits", [None, Limits(), Limits(tokens=5), {"max_iterations": 3}])
def test_other_limits_are_none_of_the_ask(limits: Any) -> None:
    assert limits_of_ask(limits) is None
