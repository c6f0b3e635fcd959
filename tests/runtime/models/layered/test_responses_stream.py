"""A stream of Responses, joined to the answer that the API would give in one piece."""

import json
from typing import Any

import pytest

from callboard.runtime.models.call_arguments import DOUBLED
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.dialects import event_of
from callboard.runtime.models.layered.responses_stream import ResponsesStream
from tests.openai_api import Call, Reply, Thought, responses_body, responses_events

REPLY = Reply(
    (Thought("Hm, so."), "Hello there.", Call("look", '{"path": "a"}'), Call("look", "{}", "call_2"))
)


def event(kind: str, **more: object) -> dict[str, Any]:
    return {"type": f"response.{kind}", **more}


def end(*output: object, kind: str = "completed") -> dict[str, Any]:
    return event(kind, response={"id": "r", "status": kind, "output": list(output)})


def joined(*events: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the answer, the reasons not to run its calls, and the texts that were told."""
    texts: list[str] = []
    stream = ResponsesStream(texts.append)
    for one in events:
        stream.take(event_of(one))
    stream.take(b": alive\n\n")
    stream.take(b"data: [DONE]\n\n")
    body, reasons = stream.whole()
    return json.loads(body), reasons, texts


def test_a_whole_stream_is_the_answer_in_one_piece() -> None:
    found, reasons, texts = joined(*responses_events(REPLY))
    whole = responses_body(REPLY)
    assert {key: found[key] for key in whole} == whole
    assert (reasons, "".join(texts)) == (["", ""], "Hello there.")


@pytest.mark.parametrize("kind", ["added", "done", "delta"])
def test_an_item_may_come_in_any_of_its_events(kind: str) -> None:
    whole: Any = responses_body(REPLY)
    found_events: list[Any] = list(responses_events(REPLY)[:-1])
    events = [one for one in found_events if not one["type"].endswith(kind)]
    if kind == "delta":
        events = [one for one in events if not one["type"].endswith(("arguments.done", "text.done"))]
    found, reasons, _ = joined(*events, end())
    items = [{key: item.get(key) for key in ("name", "arguments")} for item in found["output"]]
    assert items == [{key: item.get(key) for key in items[0]} for item in whole["output"]]
    assert found["output"][1]["content"][0]["text"] == "Hello there."
    assert reasons == ["", ""]


def test_an_answer_that_only_the_last_event_has_is_taken_and_told() -> None:
    whole = responses_body(REPLY)
    found, reasons, texts = joined(event("completed", response=whole))
    assert (found["output"], reasons, texts) == (whole["output"], ["", ""], ["Hello there."])


def test_a_stream_without_its_last_event_broke_off() -> None:
    with pytest.raises(CallFailed, match="ended before"):
        joined(*responses_events(REPLY)[:-1])


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow."},
        {"error": {"type": "rate_limit_exceeded", "message": "Slow."}},
        end()
        | {
            "response": {"error": {"code": "rate_limit_exceeded", "message": "Slow."}},
            "type": "response.failed",
        },
    ],
)
def test_an_error_is_one_also_beside_a_whole_answer(error: dict[str, Any]) -> None:
    found, _, _ = joined(*responses_events(REPLY), error)
    assert found["status"] == "failed"
    assert (found["error"]["code"], found["error"]["message"]) == ("rate_limit_exceeded", "Slow.")


def test_an_equal_call_under_one_id_runs_once_and_ids_of_items_stay_single() -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": "{}"}
    found, reasons, _ = joined(end(item, {**item, "status": "completed"}))
    assert reasons == ["", DOUBLED]
    assert [one.get("id") for one in found["output"]] == ["fc", None]


def test_pieces_of_a_call_without_a_name_are_no_call_if_another_one_has_them() -> None:
    piece = event("function_call_arguments.delta", item_id="x", delta='{"a":1}')
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": '{"a": 1}'}
    found, reasons, _ = joined(piece, event("output_item.done", output_index=0, item=item), end())
    assert ([one["call_id"] for one in found["output"]], reasons) == (["c"], [""])
