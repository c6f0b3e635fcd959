"""The set of messages: closed, grouped by sender and recipient. Calls are named by turn and place."""

import inspect
from copy import copy
from typing import get_args

import msgspec

from callboard.actors.protocol import messages, port_messages
from callboard.actors.protocol.immutable import Message, RichMessage
from tests.strategies import MESSAGES
from tests.tables import table

GROUPS = {
    name: set(get_args(getattr(messages, name)))
    for name in ("ClientInput", "AgentInput", "FromAgent", "SupervisorInput", "PortInput", "ClientOutput")
}


def test_every_message_class_is_in_the_union_and_in_nothing_else() -> None:
    defined = {
        cls
        for module in (messages, port_messages)
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Message) and cls not in (Message, RichMessage)
    }
    assert defined == set(MESSAGES)


def test_every_message_has_one_kind_of_recipient() -> None:
    recipients = ("AgentInput", "SupervisorInput", "PortInput", "ClientOutput")
    for kind in MESSAGES:
        assert sum(kind in GROUPS[name] for name in recipients) == 1, kind.__name__


def test_the_supervisor_hears_the_client_and_the_agents() -> None:
    assert GROUPS["ClientInput"] | GROUPS["FromAgent"] < GROUPS["SupervisorInput"]


@table("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_has_a_sentence_that_explains_it(kind: type[msgspec.Struct]) -> None:
    first = (kind.__doc__ or "").splitlines()[0]
    assert first[-1] in ".?", kind.__name__
    assert first[0].isupper()


def test_only_messages_to_the_supervisor_can_settle_a_grant() -> None:
    settling = {kind for kind in MESSAGES if hasattr(kind, "settled")}
    assert settling == GROUPS["FromAgent"] - {messages.CancelTask}


def test_a_call_is_named_by_turn_and_place_and_never_by_an_id_of_the_model() -> None:
    for kind in (
        messages.ReportBack,
        messages.Delegate,
        port_messages.ToolReturned,
        messages.DelegationEnded,
    ):
        assert kind.__struct_fields__[:2] == ("turn", "call")
        assert "id" not in kind.__struct_fields__


@table("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_value_that_equals_a_default_becomes_it_so_that_the_log_leaves_it_out(
    kind: type[msgspec.Struct],
) -> None:
    fields = msgspec.structs.fields(kind)
    required: dict[str, object] = {field.name: None for field in fields if field.required}
    for field in fields:
        if isinstance(field.default, msgspec.Raw | msgspec.Struct):
            equal: object = copy(field.default)
            if isinstance(field.default, msgspec.Raw):
                equal = msgspec.Raw(bytes(field.default))
            assert equal is not field.default
            one = kind(**required, **{field.name: equal})
            assert getattr(one, field.name) is field.default, field.name
