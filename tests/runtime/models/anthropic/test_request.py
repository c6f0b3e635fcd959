"""The body that is sent: verbatim, append-only, with cache marks that change nothing else."""

import itertools
import json
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.input_rules.messages import problem_of
from callboard.runtime.models.anthropic.request import Cache, body_of, headers_of
from tests.realdata import episodes, record
from tests.runtime.models.anthropic.kit import as_json, request_with
from tests.tables import table

JsonObject = dict[str, object]

MARK = {"type": "ephemeral"}
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "report_back")]
CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}


def raw_body(request: ModelRequest, cache: Cache = True, *, force_tools: bool | None = None) -> bytes:
    return body_of(request, request.messages, stream=True, cache=cache, force_tools=force_tools)


def body(request: ModelRequest, cache: Cache = True, *, force_tools: bool | None = None) -> JsonObject:
    return cast(JsonObject, json.loads(raw_body(request, cache, force_tools=force_tools)))


def user(*blocks: object) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: object) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


def text(value: str, **extra: object) -> JsonObject:
    return {"type": "text", "text": value, **extra}


def places(found: JsonObject) -> list[str]:
    """Return the places of the marks in a body."""
    marked = [f"tools.{at}" for at, tool in enumerate(_list(found, "tools")) if tool.get("cache_control")]
    marked += [
        f"system.{at}" for at, block in enumerate(_list(found, "system")) if block.get("cache_control")
    ]
    for at, message in enumerate(_list(found, "messages")):
        for index, block in enumerate(_list(message, "content")):
            if block.get("cache_control"):
                marked.append(f"messages.{at}.{index}")
    return marked


def _list(value: JsonObject, key: str) -> Sequence[JsonObject]:
    found = value.get(key)
    return cast(Sequence[JsonObject], found) if isinstance(found, list) else []


# --- the body ---------------------------------------------------------------------------


def test_without_caching_everything_is_sent_as_it_is() -> None:
    messages = [{"role": "user", "content": "Hi."}, assistant(text("a", citations=None)), user(RESULT)]
    spec = ModelSpec("m", 9, as_json({"metadata": {"z": 1, "a": 2.50}}))
    request = request_with(messages, system="Be brief.", tools=TOOLS, model=spec)
    assert raw_body(request, False) == bytes(
        as_json(
            {
                "model": "m",
                "max_tokens": 9,
                "metadata": {"z": 1, "a": 2.5},
                "tools": TOOLS,
                "system": "Be brief.",
                "messages": messages,
                "stream": True,
            }
        )
    )


def test_what_is_absent_is_left_out() -> None:
    asked = request_with()
    found = json.loads(body_of(asked, asked.messages, stream=False, cache=False, force_tools=None))
    assert found.keys() == {"model", "max_tokens", "messages"}


def test_numbers_keep_the_form_in_which_they_were_written() -> None:
    request = request_with()
    numbers = b"[0.10,1e2,12345678901234567890123,-0.0]"
    spec = ModelSpec("m", 9, Json(b'{"metadata":' + numbers + b"}"))
    request.model = spec
    assert numbers in raw_body(request)


def test_parameters_of_the_log_cannot_take_the_place_of_the_conversation() -> None:
    spec = ModelSpec("m", 9, as_json({"messages": [], "model": "x", "stream": False, "top_k": 1}))
    found = body(request_with(model=spec))
    assert (found["model"], found["stream"], found["top_k"]) == ("m", True, 1)
    assert len(_list(found, "messages")) == 1


def test_headers_come_from_the_logged_parameters() -> None:
    spec = ModelSpec("m", 9, as_json({"betas": ["a", "b"], "api_version": "v", "metadata": {}}))
    assert headers_of(request_with(model=spec)) == {"anthropic-beta": "a,b", "anthropic-version": "v"}
    assert headers_of(request_with()) == {}


# --- forced tools -------------------------------------------------------------------------


@table(
    ("name", "is_forced"),
    [
        ("claude-sonnet-4-5", True),
        ("claude-opus-4-8", True),
        ("claude-haiku-4-5-20251001", True),
        ("anthropic.claude-3-haiku", True),
        ("claude-opus-5", False),
        ("claude-opus-5-5", False),
        ("claude-sonnet-40", False),
        ("claude-fable-5", False),
        ("my-gateway-model", False),
    ],
)
def test_a_tool_is_forced_where_the_model_is_known_to_allow_it(name: str, is_forced: bool) -> None:
    request = request_with(tools=TOOLS, model=ModelSpec(name, 9), force_tool="report_back")
    forced = {"type": "tool", "name": "report_back"}
    assert body(request).get("tool_choice") == (forced if is_forced else None)
    assert body(request, force_tools=True).get("tool_choice") == forced
    assert "tool_choice" not in body(request, force_tools=False)


@pytest.mark.parametrize("thinking", ["enabled", "adaptive", "between_tools", "disabled"])
def test_a_tool_is_never_forced_while_thinking_is_on(thinking: str) -> None:
    budget = {"budget_tokens": 1_024} if thinking == "enabled" else {}
    spec = ModelSpec("claude-sonnet-4-5", 2_000, as_json({"thinking": {"type": thinking, **budget}}))
    found = body(request_with(tools=TOOLS, model=spec, force_tool="report_back"), force_tools=True)
    assert ("tool_choice" in found) is (thinking == "disabled")
    assert problem_of(found) == ""


def test_forcing_keeps_what_the_user_said_of_parallel_calls() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    spec = ModelSpec("claude-sonnet-4-5", 9, as_json({"tool_choice": choice}))
    assert body(request_with(tools=TOOLS, model=spec))["tool_choice"] == choice
    forced = body(request_with(tools=TOOLS, model=spec, force_tool="read"))["tool_choice"]
    assert forced == {"type": "tool", "name": "read", "disable_parallel_tool_use": True}


# --- cache marks ----------------------------------------------------------------------------


def test_marks_stand_on_the_system_the_last_block_and_where_the_previous_request_ended() -> None:
    messages = [
        user(text("a")),
        assistant(CALL),
        user(RESULT, text("b")),
        assistant(text("c")),
        user(text("d")),
    ]
    found = body(request_with(messages, system=[text("s1"), text("s2")], tools=TOOLS))
    assert places(found) == ["system.1", "messages.2.1", "messages.4.0"]
    assert _list(found, "system")[1]["cache_control"] == MARK


def test_without_a_system_prompt_the_last_tool_is_marked() -> None:
    deferred = {**TOOLS[1], "defer_loading": True}
    assert places(body(request_with(tools=TOOLS)))[0] == "tools.1"
    assert places(body(request_with(tools=[TOOLS[0], deferred])))[0] == "tools.0"


def test_a_text_that_stands_alone_becomes_a_block_in_every_message() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, user(text("c"))]
    found = body(request_with(messages, system="s"))
    assert found["system"] == [text("s", cache_control=MARK)]
    assert found["messages"] == [
        user(text("a", cache_control=MARK)),
        assistant(text("b")),
        user(text("c", cache_control=MARK)),
    ]


def test_an_hour_is_marked_where_an_hour_is_asked_for() -> None:
    found = body(request_with(system="s"), "1h")
    assert _list(found, "system")[0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


@pytest.mark.parametrize(
    "last",
    [
        user(text("x"), {"type": "thinking", "thinking": "t", "signature": "s"}),
        user(text("x"), text("")),
        user(text("x"), {"type": "from_the_future"}),
    ],
)
def test_a_block_that_takes_no_mark_is_passed_over(last: JsonObject) -> None:
    assert places(body(request_with([last])))[-1] == "messages.0.0"


def test_a_system_message_inside_the_conversation_is_left_as_it_is() -> None:
    messages = [user(text("a")), {"role": "system", "content": "From now on in French."}]
    found = body(request_with(messages))
    assert _list(found, "messages")[1] == messages[1]
    assert places(found) == ["messages.0.0"]


@pytest.mark.parametrize("content", ["", []])
def test_an_empty_message_is_left_as_it_is(content: object) -> None:
    assert (
        _list(body(request_with([{"role": "user", "content": content}])), "messages")[0]["content"] == content
    )


def test_marks_of_the_users_own_are_kept_and_joined_only_by_the_one_at_the_end() -> None:
    own = {"type": "ephemeral", "ttl": "1h"}
    messages = [user(text("a", cache_control=own)), assistant(text("b")), user(text("c"))]
    found = body(request_with(messages, system="s", tools=TOOLS), "1h")
    assert places(found) == ["messages.0.0", "messages.2.0"]
    assert _list(_list(found, "messages")[2], "content")[0]["cache_control"] == MARK


@table("own", range(1, 6))
def test_there_are_never_more_than_four_marks_unless_the_user_set_them(own: int) -> None:
    blocks = [text(str(at), cache_control=MARK) for at in range(own)]
    found = body(request_with([user(*blocks), assistant(text("b")), user(text("c"))]))
    assert len(places(found)) == max(min(own + 1, 4), own)


def test_a_mark_that_says_null_is_none_and_is_replaced() -> None:
    found = raw_body(request_with([user(text("a", cache_control=None))], system="s"))
    assert found.count(b"cache_control") == 2
    assert places(json.loads(found)) == ["system.0", "messages.0.0"]


def test_a_marked_last_block_keeps_its_own_mark() -> None:
    own = {"type": "ephemeral", "ttl": "1h"}
    found = body(request_with([user(text("a", cache_control=own))]))
    assert _list(_list(found, "messages")[0], "content")[0]["cache_control"] == own


def test_the_words_of_a_mark_inside_a_text_are_no_mark() -> None:
    found = body(request_with([user(text('{"cache_control": {"type": "ephemeral"}}'))], system="s"))
    assert places(found) == ["system.0", "messages.0.0"]


# --- append only -------------------------------------------------------------------------------


def unmarked_sequence(request: ModelRequest, cache: Cache) -> bytes:
    """Return tools, system and messages as they are sent, without marks and the closing bracket."""
    raw = raw_body(request, cache).replace(b',"cache_control":{"type":"ephemeral"}', b"")
    parts = json.loads(raw)
    sequence = {key: parts[key] for key in ("tools", "system", "messages") if key in parts}
    sent = bytes(as_json(sequence))
    assert sent[1:-1] in raw  # it stands there byte for byte, in this order
    return sent.removesuffix(b"]}")


texts = st.text(min_size=1, max_size=5)
contents = texts | st.lists(
    st.builds(text, st.text(max_size=5))
    | st.just(CALL)
    | st.just(RESULT)
    | st.fixed_dictionaries({"type": st.just("thinking"), "thinking": texts, "signature": texts})
    | st.fixed_dictionaries({"type": st.just("image"), "source": st.dictionaries(texts, texts, max_size=2)}),
    max_size=4,
)
turns = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": contents})


@given(
    st.lists(turns, min_size=1, max_size=8),
    st.none() | texts | st.lists(st.builds(text, texts), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_marks_aside_each_request_begins_with_the_bytes_of_the_one_before(
    messages: list[JsonObject], system: object, has_tools: bool, cache: bool
) -> None:
    sent = [
        unmarked_sequence(request_with(messages[: end + 1], system=system, tools=TOOLS * has_tools), cache)
        for end in range(len(messages))
    ]
    for shorter, longer in itertools.pairwise(sent):
        assert longer.startswith(shorter)


@given(st.lists(turns, min_size=1, max_size=8), st.sampled_from([True, "1h"]))
def test_marks_change_nothing_but_marks(messages: list[JsonObject], cache: Cache) -> None:
    found = body(request_with(messages, system="s", tools=TOOLS), cache)
    assert len(places(found)) <= 4
    for sent, given_ in zip(_list(found, "messages"), messages, strict=True):
        content = given_["content"]
        is_alone = isinstance(content, str) and given_["role"] != "system"
        expected = [text(str(content))] if is_alone else content
        stripped = sent["content"]
        if isinstance(stripped, list):
            stripped = [{key: block[key] for key in block if key != "cache_control"} for block in stripped]
        assert (sent["role"], stripped) == (given_["role"], expected)


def test_recorded_conversations_are_sent_as_recorded_and_their_requests_stay_allowed() -> None:
    """Rebuild each request of every episode from its parts; with caching the service's rules hold."""
    for episode in episodes():
        for record_id in cast(list[str], episode["records"]):
            recorded = cast(JsonObject, cast(JsonObject, record(record_id)["request"])["body"])
            request = request_with(
                _list(recorded, "messages"), system=recorded.get("system"), tools=_list(recorded, "tools")
            )
            sent = body(request, False)
            assert sent["messages"] == recorded["messages"]
            assert sent.get("tools") == (recorded.get("tools") or None)
            assert sent.get("system") == recorded.get("system")
            assert problem_of(body(request)) == ""
