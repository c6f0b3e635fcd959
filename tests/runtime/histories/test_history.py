"""A `History` takes conversations of other products in any shape and spelling, and repairs broken ones."""

import asyncio
import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Agent, History, Origin, Runtime, ScriptedModel, call, say
from callboard.actors.agent.handed_history import FOREIGN
from callboard.actors.protocol.histories import why_broken
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ContextMade
from callboard.errors import InvalidHistory, MisuseError
from callboard.runtime.histories.history import BEGINNING, NO_RESULT
from tests.effort import effort
from tests.runtime.histories.conversations import SHAPES, Turn, conversations, spelled
from tests.tables import table

REAL = Path(__file__).parents[2] / "data" / "runs"


def read(history: History) -> list[Any]:
    return [msgspec.json.decode(one) for one in history.messages]


@settings(max_examples=effort(40, 4_000))
@given(st.data())
def test_a_conversation_is_the_same_in_every_shape_and_spelling(data: st.DataObject) -> None:
    turns = data.draw(conversations())
    found = []
    for write in SHAPES:
        items = [spelled(item, data.draw) for item in write(turns, data.draw)]
        whole = History(items)
        assert whole.repairs == ()
        assert why_broken(whole.messages) == ""
        found.append(read(whole))
    assert found == [joined(turns)] * 3


def joined(turns: list[Turn]) -> list[Any]:
    """Return the messages that a conversation has once it is whole."""
    made: list[Any] = []
    results: list[Any] = []
    for turn in turns:
        made.append(user(*results, words(turn.heard)))
        made.append(assistant(words(turn.said), *(use(c.id, c.name, **c.arguments) for c in turn.calls)))
        results = [result(c.id, c.result) for c in turn.calls]
    return [*made, user(*results)] if results else made


DAMAGES = ("drop", "double", "move", "empty", "junk", "role")
JUNK: list[Any] = [
    None, 7, "words", {}, {"role": "user"}, {"role": "tool"}, {"type": "reasoning"},
    {"type": "item_reference"}, {"type": "function_call", "arguments": "{"},
    {"role": "assistant", "tool_calls": [{}, None, 3]}, {"role": "assistant", "function_call": {"name": 3}},
    {"role": "assistant", "content": [{"type": "tool_use", "id": 3}]}, b"\xff", '{"a":1,"a":2}',
    {"role": "system", "content": "Be brief."}, {"role": ["user"], "content": {"a": 1}},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,Q"}}, 3]},
    {"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "x", "content": {"a": [1]}}]},
    {"role": "user", "content": [{"type": ["text"]}, {"type": "text", "text": ["a"]}]}, [1], float("nan"),
]  # fmt: skip


@settings(max_examples=effort(60, 10_000))
@given(st.data())
def test_a_damaged_conversation_is_refused_or_repaired_to_one_that_services_take(data: st.DataObject) -> None:
    items: list[Any] = [*data.draw(st.sampled_from(SHAPES))(data.draw(conversations()), data.draw)]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(items)))
        match data.draw(st.sampled_from(DAMAGES)):
            case "drop":
                del items[place : place + 1]
            case "double":
                items[place:place] = items[place : place + 1]
            case "move":
                items = [*items[place:], *items[:place]]
            case "empty" if place < len(items) and isinstance(items[place], dict):
                items[place] = {**items[place], "content": ""}
            case "role" if place < len(items) and isinstance(items[place], dict):
                items[place] = {
                    **items[place],
                    "role": data.draw(st.sampled_from(["user", "ai", "assistant"])),
                }
            case _:
                items.insert(place, data.draw(st.sampled_from(JUNK)))
    repaired = History(items, repair=True)
    assert why_broken(repaired.messages) == ""
    if repaired.repairs:
        with pytest.raises(InvalidHistory) as caught:
            History(items)
        first = repaired.repairs[0]
        assert (caught.value.index, caught.value.fault) == (first.index, first.fault)
        assert 0 <= first.index < max(1, len(items))
    else:
        assert History(items).messages == repaired.messages
    again = History(repaired.messages)
    assert again.messages == repaired.messages


def use(use_id: str, name: str = "look", /, **given: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": use_id, "name": name, "input": given}


def result(use_id: str, content: object = "x") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": use_id, "content": content}


def user(*content: object) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def assistant(*content: object) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


HI = {"role": "user", "content": "Hi."}


@table(
    ("given_", "repair"),
    [
        (
            [HI, assistant(use("a"))],
            "messages[1] has the call 'a' of look, which has no result: it got one that says so",
        ),
        (
            [HI, user(result("b"))],
            "messages[1] has a result without its call ('b'): it is written as text",
        ),
        (
            [HI, assistant(use("a")), user(result("a"), result("a", "y"))],
            "messages[2] has another result of the call 'a': the first one is kept",
        ),
        (
            [HI, {"role": "assistant", "content": "", "tool_calls": None}],
            "messages[1] is empty: it is left out",
        ),
        ([HI, user(words(" "))], "messages[1] is empty: it is left out"),
        (
            [assistant(words("Hello."))],
            "messages[0] is an assistant's, and none of a user is before it: one was put there",
        ),
        (
            [HI, {"type": "function_call", "call_id": "a", "name": "look", "arguments": '{"a'},
             {"type": "function_call_output", "call_id": "a", "output": "x"}],
            "messages[1] has arguments of a call of look that are not a JSON object: "
            "their text stands under `unreadable`",
        ),
        ([{"role": "human", "content": "Hi."}], "messages[0] has the role 'human': it is read as the user's"),
        ([HI, "words"], "messages[1] is not a message: it is left out"),
        ([HI, {"type": "item_reference", "id": "x"}],
         "messages[1] refers to an item that the service keeps: it is left out"),
        ([{"type": "human", "content": "Hi."}],
         "messages[0] is of the type 'human', which none of the shapes has: it is read as the user's"),
        ([HI, {"type": "step_start"}],
         "messages[1] is of the type 'step_start', which none of the shapes has: a text stands for it"),
        ([{"role": "user", "parts": [{"text": "Hi."}]}],
         "messages[0] has its content in a form that none of the shapes has: its JSON is text"),
        ([user(use("a"))], "messages[0] has a call in a user's message: it is written as text"),
        ([HI, assistant({"type": "tool_use", "id": "a"}), user(result("a"))],
         "messages[1] has a call without a name: it is named unknown"),
    ],
)  # fmt: skip
def test_a_broken_history_is_refused_with_its_place_and_repaired_when_asked(
    given_: list[Any], repair: str
) -> None:
    fault, _, _ = repair.rpartition(": ")
    with pytest.raises(InvalidHistory, match="repair=True") as caught:
        History(given_)
    assert fault.split(" ", 1)[1] == caught.value.fault or caught.value.fault in repair
    repaired = History(given_, repair=True)
    assert str(repaired.repairs[0]) == repair
    assert why_broken(repaired.messages) == ""
    assert repaired.handed.repairs == tuple(map(str, repaired.repairs))


def test_a_repair_keeps_the_words_calls_and_results_of_other_products() -> None:
    chain = [
        {"type": "human", "content": "Hi."},
        {"type": "ai", "content": "", "tool_calls": [{"name": "look", "args": {"p": "A"}, "id": "a"}]},
        {"type": "tool", "content": "x", "tool_call_id": "a"},
        {"type": "ai", "content": "Hello."},
    ]
    lines = "\n".join(
        json.dumps({"type": one["role"], "uuid": "1", "message": one})
        for one in [HI, assistant(use("a", p="A")), user(result("a")), assistant(words("Hello."))]
    )
    wanted = [HI, assistant(use("a", p="A")), user(result("a")), assistant(words("Hello."))]
    assert read(History(chain, repair=True)) == read(History(wanted))
    assert read(History(lines, repair=True)) == read(History(wanted))
    parts = History([{"role": "model", "parts": [{"text": "Hello."}]}], repair=True)
    assert "Hello." in read(parts)[1]["content"][0]["text"]


OTHERS: list[list[Any]] = [
    [{"role": "USER", "message": "Hi."}, {"role": "CHATBOT", "message": "Hello."}],
    [{"from": "human", "value": "Hi."}, {"from": "gpt", "value": "Hello."}],
    [{"role": "user", "text": "Hi."}, {"role": "assistant", "text": "Hello."}],
    [  # Converse
        {"role": "user", "content": [{"text": "Hi."}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "look", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "x"}]}}]},
        {"role": "assistant", "content": [{"text": "Hello."}]},
    ],
    [  # the AI SDK
        {"role": "user", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "a", "toolName": "look"}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "a", "output": {"value": "x"}}]},
        {"role": "assistant", "content": "Hello."},
    ],
]


@table("items", OTHERS)
def test_the_words_of_a_form_that_is_not_known_are_a_fault_and_stay_in_a_repair(items: list[Any]) -> None:
    with pytest.raises(InvalidHistory, match="repair=True"):
        History(items)
    said = read(History(items, repair=True))
    first, last = said[0], said[-1]
    assert (first["role"], last["role"]) == ("user", "assistant")
    assert "Hi." in first["content"][0]["text"]
    assert "Hello." in last["content"][-1]["text"]
    blocks = [block for one in said for block in one["content"]]
    assert {block["type"] for block in blocks} <= {"text"}
    assert ("look" in json.dumps(blocks)) == ("look" in json.dumps(items))


def test_arguments_under_another_key_are_not_lost() -> None:
    called = {"role": "assistant", "tool_calls": [{"id": "a", "name": "look", "args": {"p": "A"}}]}
    history = History([HI, called, {"role": "tool", "tool_call_id": "a", "content": "x"}])
    assert read(history)[1]["content"] == [use("a", p="A")]


def test_a_call_without_a_result_gets_one_that_claims_nothing_about_its_effect() -> None:
    assert read(History([HI, assistant(use("a"), use("b")), user(result("b"))], repair=True))[2] == user(
        {**result("a", NO_RESULT), "is_error": True}, result("b")
    )


def test_arguments_that_were_cut_are_kept_as_text_and_never_become_none() -> None:
    cut = {
        "role": "assistant",
        "tool_calls": [{"id": "a", "function": {"name": "look", "arguments": '{"p":"A'}}],
    }
    history = History([HI, cut, {"role": "tool", "tool_call_id": "a", "content": "x"}], repair=True)
    assert read(history)[1]["content"][0]["input"] == {"unreadable": '{"p":"A'}


def test_a_history_that_begins_with_an_assistant_gets_a_beginning() -> None:
    assert read(History([assistant(words("Hello."))], repair=True))[0] == user(words(BEGINNING))


def test_results_move_to_their_calls() -> None:
    late = [HI, assistant(use("a")), user(words("Hurry.")), assistant(words("I wait.")), user(result("a"))]
    assert read(History(late)) == [
        user(words("Hi.")),
        assistant(use("a")),
        user(result("a"), words("Hurry.")),
        assistant(words("I wait.")),
    ]
    behind = [HI, assistant(use("a"), use("b")), user(words("And?"), result("b"), result("a"))]
    assert read(History(behind))[2] == user(result("a"), result("b"), words("And?"))


def test_a_result_belongs_to_the_newest_message_with_its_id() -> None:
    twice = [HI, assistant(use("a")), user(words("Again.")), assistant(use("a")), user(result("a", "second"))]
    repaired = History(twice, repair=True)
    assert [one.index for one in repaired.repairs] == [1]
    assert read(repaired)[4] == user(result("a", "second"))


def test_calls_without_ids_and_doubled_ids_are_told_apart() -> None:
    ollama = [
        HI,
        {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "look", "arguments": {"p": 1}}},
            {"function": {"name": "read", "arguments": {}}},
        ]},
        {"role": "tool", "tool_name": "read", "content": "r"},
        {"role": "tool", "tool_name": "look", "content": "l"},
    ]  # fmt: skip
    assert read(History(ollama))[1:] == [
        assistant(use("call_0", p=1), use("call_1", "read")),
        user(result("call_0", "l"), result("call_1", "r")),
    ]
    doubled = [HI, assistant(use("a"), use("a")), user(result("a", "1"), result("a", "2"))]
    assert read(History(doubled))[1:] == [
        assistant(use("a"), use("a_1")),
        user(result("a", "1"), result("a_1", "2")),
    ]


def test_the_old_function_call_of_chat_is_a_call() -> None:
    old = [
        HI,
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": '{"p": 1}'}},
        {"role": "function", "name": "look", "content": "x"},
    ]
    assert read(History(old))[1:] == [assistant(use("call_0", p=1)), user(result("call_0"))]


def test_system_messages_are_words_that_say_so_and_reasoning_is_left_out() -> None:
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ]
    assert read(History(items)) == [
        user(words("[developer message] Be brief."), words("Hi.")),
        assistant(words("No.")),
    ]


@dataclasses.dataclass
class Said:
    role: str
    content: str


class Message(pydantic.BaseModel):
    role: str
    content: list[dict[str, Any]]


def test_objects_of_an_sdk_and_the_json_of_all_messages_are_taken() -> None:
    expected = [user(words("Hi.")), assistant(words("Ho."))]
    given_ = [Said("user", "Hi."), Message(role="assistant", content=[words("Ho.")])]
    assert read(History(given_)) == expected
    assert read(History(json.dumps(expected, indent=1))) == expected
    assert read(History("\n".join(map(json.dumps, expected)))) == expected
    assert read(History(expected[0])) == expected[:1]
    assert read(History(Json(json.dumps(one).encode()) for one in expected)) == expected


def test_cache_marks_are_left_out() -> None:
    marked = {**words("Hi."), "cache_control": {"type": "ephemeral"}}
    history = History(
        [user(marked), assistant(use("a")), user({**result("a", [marked]), "cache_control": {}})]
    )
    assert b"cache_control" not in b"".join(map(bytes, history.messages))


def test_the_makers_stay_with_their_messages_where_messages_are_joined() -> None:
    ours = Origin(adapter="anthropic")
    items = [HI, HI, assistant(words("a")), assistant(words("b")), HI, assistant(words("c"))]
    assert History(items).makers == ((0, FOREIGN),)
    known = History(items, ((0, ours), (5, FOREIGN)))
    assert known.makers == ((0, ours), (3, FOREIGN))
    assert [len(one["content"]) for one in read(known)] == [2, 2, 1, 1]


def test_a_shape_that_is_named_is_the_only_one() -> None:
    chat = [HI, {"role": "tool", "tool_call_id": "a", "content": "x"}]
    with pytest.raises(InvalidHistory, match="is of the shape chat, not responses"):
        History(chat, shape="responses")
    with pytest.raises(MisuseError, match="use 'messages', 'chat', 'responses'"):
        History([], shape="gemini")  # type: ignore[arg-type]  # the point of the test


def test_the_time_is_linear_in_the_calls() -> None:
    same = [use("a") for _ in range(3_000)]
    history = History([HI, assistant(*same), user(*(result("a", str(n)) for n in range(3_000)))])
    assert [one["content"] for one in read(history)[2]["content"]] == [str(n) for n in range(3_000)]


def test_a_repair_is_told_in_the_log_and_by_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def context(view: object) -> History:
        return History([HI, assistant(use("a"))], note="Theirs.", repair=True)

    def policy(request: Any) -> Any:
        if request.profile == "kid":
            return say(str(len(request.conversation)))
        return call("task", agent="kid", prompt="Go on.") if request.turn == 1 else say("Done.")

    async def main() -> ContextMade:
        kid = Agent("kid", context=context)
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(Agent("host", agents=[kid]))
            outcome = await session.ask("Go.")
            assert outcome.text == "Done."
            await session.close()
            return next(
                [one.body async for one in session.events() if isinstance(one.body, ContextMade)].__iter__()
            )

    with caplog.at_level(logging.WARNING, "callboard.histories"):
        made = asyncio.run(main())
    assert made.repairs == (
        "messages[1] has the call 'a' of look, which has no result: it got one that says so",
    )
    assert made.content == Json(b'"Theirs."')
    assert "a history was repaired in 1 places: messages[1] has the call 'a'" in caplog.text


@table("path", sorted(REAL.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_conversations_of_other_products_are_taken(path: Path) -> None:
    run = json.loads(path.read_text())
    for life in run.get("agents") or run["episodes"]:
        items = [_item(one) for one in life["items"] if one["kind"] in ("user", "assistant", "tool_results")]
        history = History(items, repair=True)
        assert why_broken(history.messages) == ""
        assert [one for one in history.repairs if "none of a user" not in one.fault] == []


def _item(one: dict[str, Any]) -> dict[str, Any]:
    if one["kind"] != "tool_results":
        return {"role": one["kind"], "content": one["content"]}
    return user(*(result(each["tool_use_id"], each["content"]) for each in one["results"]))
