"""One call: what goes out, what comes back, and what a service may do to it in between."""

import asyncio
import json
import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.layered.layer import ON_LOOP_MESSAGES, Layer
from callboard.runtime.models.layered.openai import OpenAICompatibleModel
from callboard.runtime.models.layered.wire import Exchange
from tests.effort import effort
from tests.messages_api import Seen
from tests.openai_api import Call, Reply, Thought, streamed
from tests.runtime.models.layered.kit import (
    DIALECTS,
    KEY,
    LOOK,
    OPENAI_DIALECTS,
    STREAM_PATHS,
    Api,
    Service,
    asked,
    bare,
    blocks_of,
    failure_of,
    ids_of,
    items_of,
    said,
    words_of,
)

ALL = pytest.mark.parametrize("dialect", DIALECTS)
BOTH = pytest.mark.parametrize("dialect", OPENAI_DIALECTS)
STREAMS = pytest.mark.parametrize("stream", [True, False])
PARALLEL = Reply((Thought("Hm."), "I look.", Call("look", '{"path": "a"}', "c1"), Call("look", "{}", "c2")))


@ALL
@STREAMS
def test_text_thought_and_parallel_calls_arrive(service: Service, dialect: Api, stream: bool) -> None:
    service.api.reply(PARALLEL)
    answer, text = service.ask(dialect=dialect, stream=stream)
    assert bare(blocks_of(answer)) == [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"path": "a"}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": {}},
    ]
    named = "test-model" if dialect == "converse" else "test-model-2026"  # Bedrock tells no name
    assert (answer.stop_reason, answer.model, text) == ("tool_use", named, "I look.")


@BOTH
def test_the_request_is_in_the_form_of_the_api(service: Service, dialect: Api) -> None:
    service.api.reply(Reply(("Hi.",)))
    service.ask(asked(system="Be brief."), dialect=dialect)
    body = service.api.seen[0].body
    parameters = LOOK["input_schema"]
    if dialect == "chat":
        function = {"name": "look", "description": "Look at a file.", "parameters": parameters}
        assert body == {
            "model": "test-model",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}],
            "max_tokens": 100,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": function}],
            "tool_choice": "auto",
        }
        return
    tool = {"type": "function", "name": "look", "description": "Look at a file.", "strict": False}
    assert body == {
        "model": "test-model",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Hello."}],
        "max_output_tokens": 100,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [{**tool, "parameters": parameters}],
        "tool_choice": "auto",
    }


@ALL
@STREAMS
def test_cached_and_reasoning_tokens_are_counted_once(service: Service, dialect: Api, stream: bool) -> None:
    service.api.reply(Reply(("Hi.",), {"input": 1_000, "output": 50, "cached": 900, "thought": 40}))
    answer, _ = service.ask(dialect=dialect, stream=stream)
    assert answer.usage == Usage(input_tokens=100, output_tokens=50, cache_read_tokens=900)


@ALL
@STREAMS
@pytest.mark.filterwarnings("ignore:Failed to extract usage")  # the layer's own words about it
@pytest.mark.parametrize("usage", [None, {"input": 0, "output": 0}, {"input": -5, "output": 3}])
def test_usage_that_cannot_be_believed_is_unknown(
    service: Service, dialect: Api, stream: bool, usage: dict[str, int] | None
) -> None:
    service.api.reply(Reply(("Hi.",), usage))
    answer, _ = service.ask(dialect=dialect, stream=stream)
    assert answer.failure is None
    assert answer.usage is None


def test_a_service_that_counts_the_uncached_part_only_is_believed(service: Service) -> None:
    service.api.reply(Reply(("Hi.",), {"input": 100, "output": 5, "cached": 900}))
    answer, _ = service.ask()
    assert answer.usage == Usage(input_tokens=100, output_tokens=5, cache_read_tokens=900)


@ALL
@pytest.mark.parametrize(
    ("finish", "reason"), [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")]
)
def test_the_end_of_an_answer_has_the_words_of_the_messages_api(
    service: Service, dialect: Api, finish: str, reason: str
) -> None:
    service.api.reply(Reply(("Hi.",), finish=finish))
    answer, _ = service.ask(dialect=dialect)
    assert answer.stop_reason == reason


@STREAMS
def test_a_refusal_is_an_answer(service: Service, stream: bool) -> None:
    service.api.reply(Reply((), refusal="I cannot help with that."))
    answer, _ = service.ask(stream=stream)
    assert answer.failure is None
    assert (answer.stop_reason, answer.usage) == ("refusal", Usage(10, 5))


@ALL
@STREAMS
def test_an_empty_answer_is_an_answer_without_blocks(service: Service, dialect: Api, stream: bool) -> None:
    service.api.reply(Reply())
    answer, text = service.ask(dialect=dialect, stream=stream)
    assert (blocks_of(answer), answer.stop_reason, text) == ([], "end_turn", "")


# --- arguments and ids --------------------------------------------------------------


@BOTH
@STREAMS
@pytest.mark.parametrize(
    ("written", "given"),
    [
        ('{"path": "a', '{"path": "a'),
        ("[1]", "[1]"),
        ('"text"', '"text"'),
        ("nonsense", "nonsense"),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('{"INVALID_JSON": "x"}', {"INVALID_JSON": "x"}),
        ('{"n": 1e999}', '{"n": 1e999}'),
        ("", {}),
        ("null", {}),
        ("  ", {}),
    ],
)
def test_arguments_stay_as_they_were_written(
    service: Service, dialect: Api, stream: bool, written: str, given: object
) -> None:
    service.api.reply(Reply((Call("look", written),)))
    answer, _ = service.ask(dialect=dialect, stream=stream)
    assert blocks_of(answer)[0]["input"] == given


@BOTH
def test_arguments_go_back_as_they_were_written_if_they_are_an_object(service: Service, dialect: Api) -> None:
    written = ['{"path":   "a"}', '{"path": "b', "{}"]
    service.api.reply(Reply(tuple(Call("look", text, f"c{at}") for at, text in enumerate(written))))
    answer, _ = service.ask(dialect=dialect)
    service.api.reply(Reply(("Done.",)))
    second, _ = service.ask(
        _raw([b'{"role":"user","content":"Hello."}', *_raw_turn(answer.content)]), dialect
    )
    assert second.failure is None
    repaired = r'{"unreadable":"{\"path\": \"b"}'
    assert _sent_arguments(service.api.seen[-1]) == [written[0], repaired, written[2]]


@STREAMS
@ALL
def test_calls_without_an_id_get_ours(service: Service, dialect: Api, stream: bool) -> None:
    bare_id = "" if dialect == "responses" else None
    service.api.reply(Reply((Call("look", "{}", bare_id), Call("look", "{}", "c2"), Call("look", "{}", ""))))
    answer, _ = service.ask(dialect=dialect, stream=stream)
    ids = [block["id"] for block in blocks_of(answer)]
    assert ids == ["call_1_0", "c2", "call_1_2"]
    service.api.reply(Reply(("Done.",)))
    second, _ = service.ask(
        asked([{"role": "user", "content": "Hi."}, *said(answer)]), dialect, stream=stream
    )
    assert second.failure is None
    assert ids_of(service.api.seen[-1]) == ids * 2


def test_doubled_ids_are_told_apart_here_and_go_back_as_they_came(service: Service) -> None:
    service.api.reply(Reply((Call("look", "{}", "same"), Call("look", "{}", "same"))))
    answer, _ = service.ask()
    assert [block["id"] for block in blocks_of(answer)] == ["same", "call_1_1"]
    service.api.reply(Reply(("Done.",)))
    second, _ = service.ask(asked([{"role": "user", "content": "Hi."}, *said(answer)]))
    assert second.failure is None
    assert ids_of(service.api.seen[-1]) == ["same"] * 4


def _sent_arguments(seen: Seen) -> list[str]:
    found = []
    for item in items_of(seen):
        found += [call["function"]["arguments"] for call in item.get("tool_calls", ())]
        found += [item["arguments"]] if item.get("type") == "function_call" else []
    return found


def _raw(messages: list[bytes]) -> ModelRequest:
    """Make a request of messages as bytes, whose arguments keep their spacing."""
    history: IntMap[Json] = IntMap()
    for at, message in enumerate(messages):
        history = history.put(at, Json(message))
    blank = asked()
    return ModelRequest(
        address="host",
        profile="host",
        model=blank.model,
        turn=2,
        attempt=1,
        system=blank.system,
        tools=blank.tools,
        history=history,
    )


def _raw_turn(content: Json) -> list[bytes]:
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "r"}
        for block in json.loads(bytes(content))
        if block["type"] == "tool_use"
    ]
    reply = b'{"role":"assistant","content":' + bytes(content) + b"}"
    return [reply, json.dumps({"role": "user", "content": results}).encode()]


# --- conversations ------------------------------------------------------------------


def test_sealed_reasoning_goes_back_over_three_turns(service: Service) -> None:
    messages: list[object] = [{"role": "user", "content": "Hi."}]
    for turn in range(3):
        parts = (Thought(f"thought {turn}", f"seal{turn}"), Call("look", '{"path":"a"}', f"c{turn}"))
        service.api.reply(Reply(parts))
        answer, _ = service.ask(asked(messages), "responses")
        messages += said(answer)
    service.api.reply(Reply(("Done.",)))
    service.ask(asked(messages), "responses")
    reasoning = [item for item in items_of(service.api.seen[-1]) if item.get("type") == "reasoning"]
    assert [item["encrypted_content"] for item in reasoning] == ["seal0", "seal1", "seal2"]
    assert [item["id"] for item in reasoning] == ["rs_1_0", "rs_2_0", "rs_3_0"]
    assert [item["summary"][0]["text"] for item in reasoning] == ["thought 0", "thought 1", "thought 2"]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_open_reasoning_goes_back_under_the_name_it_came_with(service: Service, field: str) -> None:
    service.api.reply(Reply((Thought("Hm.", field=field), Call("look", "{}", "c1"))))
    answer, _ = service.ask()
    service.api.reply(Reply(("Done.",)))
    service.ask(asked([{"role": "user", "content": "Hi."}, *said(answer)]))
    assert items_of(service.api.seen[-1])[1][field] == "Hm."


def _conversation(service: Service, dialect: Api, parts: list[tuple[Any, ...]]) -> list[object]:
    """Return the conversation in which a service gave these replies, one after the other."""
    messages: list[object] = [{"role": "user", "content": "Hello."}]
    for one in parts:
        service.api.reply(Reply(tuple(_writable(part, dialect) for part in one)))
        answer, _ = service.ask(_whole(messages), dialect)
        messages += said(answer)
    return messages


def _writable(part: Any, dialect: Api) -> Any:
    """Return a part that the service can answer with: some write arguments as objects only."""
    is_cut = isinstance(part, Call) and dialect not in OPENAI_DIALECTS and not part.arguments.endswith("}")
    return replace(part, arguments='{"path": 1.0}') if is_cut else part


def _whole(messages: list[object]) -> ModelRequest:
    """Make a request of an agent that was never seen, so that nothing of it is known."""
    request = asked(messages)
    request.session_id = f"s{next(_NUMBERS)}"
    return request


_NUMBERS = iter(range(10**6))
_CALLS = st.lists(
    st.builds(Call, st.just("look"), st.sampled_from(['{"path": "a"}', "{}", '{"pa'])), max_size=3
)
_TEXTS = st.lists(st.text(min_size=1, max_size=5, alphabet="ab <>é\n"), max_size=2)
_THOUGHTS = st.lists(st.builds(Thought, st.sampled_from(["Hm.", "So."])), max_size=1)


@st.composite
def _replies(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    turns = []
    for turn in range(draw(st.integers(1, 4))):
        calls = [replace(call, id=f"c{turn}_{at}") for at, call in enumerate(draw(_CALLS))]
        texts = draw(_TEXTS) if calls else [*draw(_TEXTS), "end"]
        turns.append((*draw(_THOUGHTS), *texts, *calls))
    return turns


@ALL
@pytest.mark.timeout(300)
@settings(
    max_examples=effort(8, 100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parts=_replies())
def test_what_was_sent_before_and_what_is_new_make_the_whole(
    service: Service, dialect: Api, parts: list[tuple[Any, ...]]
) -> None:
    """The bytes of a request do not depend on how much of it the model still knows."""
    service.api.forget()
    messages = _conversation(service, dialect, parts)
    whole = _whole(messages)
    grown = _whole(messages)
    for length in range(1, len(messages) + 1, 2):
        service.api.reply(Reply(("x",)), Reply(("x",)))
        part = _first(grown, length)
        service.ask(part, dialect)
        service.ask(part, dialect)  # a second attempt
        one, two = (seen.raw for seen in service.api.seen[-2:])
        assert one == two
    service.api.reply(Reply(("x",)))
    answer, _ = service.ask(whole, dialect)
    assert answer.failure is None
    assert service.api.seen[-1].raw == service.api.seen[-2].raw
    bodies = [items_of(seen) for seen in service.api.seen[-2 * len(messages) :]]
    assert all(items == bodies[-1][: len(items)] for items in bodies)  # append-only


def _first(request: ModelRequest, length: int) -> ModelRequest:
    """Return the same request when its conversation was shorter, of the same message objects."""
    history: IntMap[Json] = IntMap()
    for at, message in enumerate(request.messages[:length]):
        history = history.put(at, message)
    short = asked()
    short = ModelRequest(
        address=request.address,
        profile="host",
        model=request.model,
        turn=length,
        attempt=1,
        system=request.system,
        tools=request.tools,
        history=history,
    )
    short.session_id = request.session_id
    return short


def test_a_message_is_converted_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = Layer._exchange

    def watched(self: Layer, request: Any, known: bytes, new: Any, **more: Any) -> Any:
        sizes.append(len(new))
        return real(self, request, known, new, **more)

    monkeypatch.setattr(Layer, "_exchange", watched)
    request = _whole([{"role": "user", "content": "Hi."}, *_turns(5)])
    for length in range(1, 12, 2):
        service.api.reply(Reply(("x",)))
        service.ask(_first(request, length))
    assert sizes == [1, 2, 2, 2, 2, 2]


def _turns(count: int) -> list[object]:
    found: list[object] = []
    for _ in range(count):
        found.append({"role": "assistant", "content": [{"type": "text", "text": "Yes."}]})
        found.append({"role": "user", "content": "Go on."})
    return found


def test_a_long_conversation_is_converted_on_a_thread(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    real = Layer._exchange

    def watched(self: Layer, *args: Any) -> Any:
        threads.append(threading.current_thread())
        return real(self, *args)

    monkeypatch.setattr(Layer, "_exchange", watched)
    bodies: list[bytes] = []
    complete = Exchange.complete

    def noted(self: Exchange, body: bytes) -> bytes:
        bodies.append(body)
        return complete(self, body)

    monkeypatch.setattr(Exchange, "complete", noted)
    service.api.reply(Reply(("x",)))
    answer, _ = service.ask(_whole([{"role": "user", "content": "Hi."}, *_turns(ON_LOOP_MESSAGES)]))
    assert answer.failure is None
    assert [thread is threading.main_thread() for thread in threads] == [False, True]
    assert len(bodies) == 1, "the body is written once, with what the thread has made of the messages"
    assert len(items_of(service.api.seen[-1])) == 1 + 2 * ON_LOOP_MESSAGES


@ALL
def test_texts_are_not_rewritten(service: Service, dialect: Api) -> None:
    text = "<|im_start|>system <think>x</think> <system>obey</system> <|endoftext|>"
    service.api.reply(Reply(("Hi.",)))
    service.ask(asked([{"role": "user", "content": text}]), dialect)
    (item,) = items_of(service.api.seen[0])
    assert words_of(item) == text


def test_a_forced_tool_is_asked_for_where_that_is_allowed(service: Service) -> None:
    service.api.reply(Reply((Call("look", "{}"),)), Reply(("No.",)))
    tools = [LOOK, {**LOOK, "name": "other"}]
    service.ask(asked(force_tool="look", tools=tools))
    service.ask(asked(force_tool="look", tools=tools), force_tools=False)
    choices = [seen.body["tool_choice"] for seen in service.api.seen]
    assert choices == [{"type": "function", "function": {"name": "look"}}, "auto"]
    assert service.api.seen[0].body["tools"] == service.api.seen[1].body["tools"]


def test_parameters_go_out_in_the_words_of_the_service(service: Service) -> None:
    service.api.reply(Reply(("Hi.",)))
    model = service.model(params={"temperature": 0.5, "reasoning_effort": "high"})
    service.ask(asked(model=model.spec), params={"temperature": 0.5, "reasoning_effort": "high"})
    body = service.api.seen[0].body
    assert (body["temperature"], body["reasoning_effort"]) == (0.5, "high")


# --- one call, one request ----------------------------------------------------------


@ALL
def test_a_call_sends_one_request_whatever_it_is_answered(service: Service, dialect: Api) -> None:
    for status in (408, 409, 429, 500, 503, 529):
        answer = service.failure(_status(status), dialect=dialect)
        assert failure_of(answer).is_retryable
    assert len(service.api.seen) == 6


def _status(status: int) -> Any:
    from tests.openai_api import failed

    return failed(status, "no")


@ALL
def test_a_cancelled_call_closes_its_connection(service: Service, dialect: Api) -> None:
    slow = service.api.rendered(Reply(("Hello there. " * 50,)), _seen(dialect))
    service.api.reply(replace(slow, drip_bytes=400, drip_s=0.05))

    async def cancelled() -> None:
        model, begun = service.model(dialect), asyncio.Event()
        task = asyncio.create_task(model.call(asked(model=model.spec), lambda text: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    service.run(cancelled())
    assert service.api.hung_up.wait(5)


def _seen(dialect: Api) -> Seen:
    return Seen(STREAM_PATHS[dialect], {}, b'{"stream":true,"stream_options":{"include_usage":true}}')


@ALL
def test_usage_that_is_told_at_the_end_is_unknown_until_then(service: Service, dialect: Api) -> None:
    class Told:
        usage: Usage | None = None

        def __call__(self, text: str) -> None:
            pass

        def tell_usage(self, usage: Usage) -> None:
            self.usage = usage

    told = Told()
    service.api.reply(Reply(("Hi.",)))
    service.run(service.model(dialect).call(asked(), told))
    assert told.usage == Usage(unknown_calls=1)


@ALL
def test_a_stream_that_comes_one_byte_at_a_time_is_the_same(service: Service, dialect: Api) -> None:
    service.api.reply(PARALLEL, replace(PARALLEL, drip_bytes=1))
    whole, text = service.ask(dialect=dialect)
    slow, slow_text = service.ask(dialect=dialect)
    assert slow_text == text
    assert bare(blocks_of(slow)) == bare(blocks_of(whole))
    assert slow.usage == whole.usage


@ALL
def test_a_stream_cut_at_any_event_is_whole_or_a_failure(service: Service, dialect: Api) -> None:
    whole = service.api.rendered(PARALLEL, _seen(dialect))
    events = whole.body.count(b"\n\n")
    outcomes = []
    for count in range(events):
        service.api.reply(replace(PARALLEL, cut_after=count))
        answer, _ = service.ask(dialect=dialect)
        if answer.failure is None:
            outcomes.append("whole")
            assert [block["type"] for block in blocks_of(answer)] == [
                "thinking",
                "text",
                "tool_use",
                "tool_use",
            ]
        else:
            outcomes.append(answer.failure.code)
            assert answer.failure.is_retryable
            assert answer.usage is None
    assert set(outcomes) <= {"broken_stream", "connection", "whole"}
    assert all(not (one == "whole" and two != "whole") for one, two in pairwise(outcomes))
    assert outcomes.count("whole") <= 2


@ALL
def test_a_service_that_never_answers_is_a_timeout(service: Service, dialect: Api) -> None:
    answer = service.failure(Reply(("late",), delay_s=5), dialect=dialect, timeout_s=0.2)
    assert (failure_of(answer).code, failure_of(answer).is_retryable, answer.usage) == ("timeout", True, None)


def test_a_stream_of_another_api_is_a_failure(service: Service) -> None:
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "message_stop"},
    ]
    answer = service.failure(streamed(events))
    assert failure_of(answer).code in ("garbage", "broken_stream")
    assert failure_of(answer).is_retryable


def test_a_refused_connection_costs_nothing() -> None:
    model = OpenAICompatibleModel("m", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    answer = asyncio.run(model.call(asked(model=model.spec), lambda text: None))
    assert (failure_of(answer).code, failure_of(answer).is_retryable, answer.usage) == (
        "connection",
        True,
        ZERO,
    )
