from typing import Literal, get_args, get_origin

import msgspec
import pytest

from callboard.actors.protocol.client_messages import Ask, Resumed
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Delegate, ReportJudged, TurnRequested
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import ModelFailure, SchemaProblem
from callboard.cli.message_summary import summary_of, whole_prompt


def raw(value: object) -> Json:
    return Json(msgspec.json.encode(value))


def example(kind: type) -> object:
    """Make a value of this type with its required fields only."""
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if get_origin(kind) is tuple:
        return ()
    if issubclass(kind, msgspec.Struct):
        needed = [one for one in msgspec.structs.fields(kind) if one.required]
        return kind(**{one.name: example(one.type) for one in needed})
    return raw({"name": "x"}) if kind is msgspec.Raw else kind()


@pytest.mark.parametrize("kind", get_args(AnyMessage), ids=lambda kind: str(kind.__name__))
def test_every_kind_of_message_has_words_that_fit_on_a_line(kind: type[AnyMessage]) -> None:
    message = example(kind)
    assert isinstance(message, kind)
    assert len(summary_of(message).splitlines()) <= 1


def test_a_prompt_is_told_and_whether_there_is_a_schema() -> None:
    assert summary_of(Ask("1", raw("How\nmany?"))) == "How many?"
    assert summary_of(Delegate(1, 0, ("a", "b"), raw("Go."), raw({}))) == "to a, b: Go. (with a schema)"


def test_a_reply_is_told_with_its_text_and_its_calls() -> None:
    blocks = [
        {"type": "text", "text": "Hm."},
        {"type": "tool_use", "id": "1", "name": "look", "input": {"at": 1}},
    ]
    reply = ModelReplied(1, 1, "ok", raw(blocks), usage=Usage(input_tokens=3))
    assert summary_of(reply) == 'ok, 3 tokens: Hm. | look {"at":1}'


def test_a_failure_is_told_with_its_code() -> None:
    reply = ModelReplied(1, 1, "error", failure=ModelFailure("overloaded_error", "later"))
    assert summary_of(reply) == "error: overloaded_error: later; use not known"


def test_a_verdict_is_told_with_its_problems() -> None:
    judged = ReportJudged(1, 0, "invalid", (SchemaProblem("/count", "must be an integer"),))
    assert summary_of(judged) == "invalid; /count: must be an integer"


def test_a_turn_is_told_with_its_need_and_its_wait() -> None:
    assert summary_of(TurnRequested(2, 3, Need(12_345), "", after_ms=1_500)) == (
        "turn 2, attempt 3, needs at most 12.3k tokens, after 1.5s"
    )


def test_foreign_text_is_safe_and_cut() -> None:
    said = summary_of(CallTool(1, 0, "look", "read", raw({"path": "\u202e" + "x" * 500})))
    assert "\u202e" not in said
    assert said.endswith("…")


def test_a_prompt_of_blocks_is_its_texts() -> None:
    assert whole_prompt(raw([{"type": "text", "text": "one"}, {"type": "image"}])) == "one\n[image]"
    assert whole_prompt(raw(None)) == ""


def test_a_resume_is_told_with_when_its_agents_hold() -> None:
    assert summary_of(Resumed(1, "host", (raw({}),))) == "with 1 agent profile of now"
    assert summary_of(Resumed(2, extend_ms=5_000, left_out_ms=5_000)) == (
        "deadlines 5.0s later, 5.0s left out for programs"
    )
    later = Resumed(1, "host", (raw({}),), from_next_ask=True)
    assert summary_of(later) == "with 1 agent profile of now from the next ask on"


def test_a_result_that_is_given_again_names_its_origin() -> None:
    assert summary_of(ToolReturned(1, 0, output=raw("seen"), cached_from="s-1#7")) == 'ok, as s-1#7: "seen"'
