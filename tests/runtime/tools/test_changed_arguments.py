"""Arguments that a person gives a call instead of the model's are checked as the tool would."""

from typing import Any

import pytest

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.runtime.schemas.validators import TooComplex
from callboard.runtime.tools import changed_arguments as module
from callboard.runtime.tools.changed_arguments import changed_arguments
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import tool


@tool
def pay(amount: int, to: str = "me") -> str:
    """Pay an amount."""
    return "paid"


class Foreign:
    """A tool with a ready schema, as those of MCP servers."""

    name = "pay"
    input_schema = (
        b'{"type":"object","properties":{"amount":{"type":"integer"},"to":{"type":"string"}},'
        b'"required":["amount"]}'
    )

    def __init__(self) -> None:
        self.bound: list[tuple[bytes, str]] = []

    def bind(self, data: Any, context: ToolContext) -> None:
        self.bound.append((bytes(data), context.tool))


def test_fitting_arguments_are_returned_as_json() -> None:
    assert bytes(changed_arguments(pay, {"amount": 3, "to": "ß"})) == '{"amount":3,"to":"ß"}'.encode()
    foreign: Any = Foreign()
    assert bytes(changed_arguments(foreign, {"amount": 3})) == b'{"amount":3}'
    assert foreign.bound == [(b'{"amount":3}', "pay")]


@pytest.mark.parametrize("arguments", [{"amount": "much"}, {}, {"amount": 3, "tip": 1}])
def test_arguments_that_the_function_does_not_take_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidPrompt):
        changed_arguments(pay, arguments)


def test_each_problem_with_a_ready_schema_has_its_place() -> None:
    foreign: Any = Foreign()
    with pytest.raises(InvalidPrompt, match=r"^Invalid arguments for pay: at /amount: .*; at /to: "):
        changed_arguments(foreign, {"amount": "much", "to": 3})
    with pytest.raises(InvalidPrompt, match=r"^Invalid arguments for pay: at /: .*amount"):
        changed_arguments(foreign, {})


def test_values_that_are_no_json_are_refused_by_name() -> None:
    with pytest.raises(InvalidPrompt, match="The arguments"):
        changed_arguments(pay, {"amount": object()})


def test_a_schema_that_is_too_complex_leaves_a_plain_yes_or_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_complex(*_: object) -> None:
        raise TooComplex

    monkeypatch.setattr(module, "problems_in", too_complex)
    foreign: Any = Foreign()
    with pytest.raises(InvalidPrompt, match="the schema of pay is too complex to check changed arguments"):
        changed_arguments(foreign, {"amount": 3})
