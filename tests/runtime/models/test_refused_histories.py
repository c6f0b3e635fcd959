"""Sessions over real sockets whose service refuses its own words: a later ask gets over it."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any, cast

from callboard import Agent, AnthropicModel, OpenAICompatibleModel, Runtime, tool
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.repair_levels import Repair
from callboard.replay.recording import Recording
from tests.messages_api import Canned, MessagesApi, Seen, error_answer, json_answer, message, text, tool_use
from tests.openai_api import Call, OpenAIApi, Reply, failed

KEY = "sk-ant-0123456789"


@tool(effect="read")
def look(path: str = "") -> str:
    """Look at a file."""
    return f"{path} is empty"


def test_unreadable_arguments_are_no_end_of_a_session_that_is_resumed(tmp_path: Path) -> None:
    log = str(tmp_path / "log.db")
    replies = [Reply((Call("look it", '{"path": "a', "c1"), Call("look", "[1]", "c2")))]
    with OpenAIApi([*replies, Reply(("Sorry.",)), Reply(("Done.",))]) as api:
        host = Agent("host", tools=[look], model=OpenAICompatibleModel("m", base_url=f"{api.url}/v1"))

        async def main() -> list[str]:
            async with Runtime(log) as runtime:
                session = await runtime.open(host)
                first, name = await session.ask("Look."), session.id
            async with Runtime(log) as runtime:
                second = await (await runtime.resume(name, host)).ask("And now?")
            return [first.status, second.status, second.text]

        assert asyncio.run(main()) == ["ok", "ok", "Done."]
        before, after = (cast(list[Any], seen.body["messages"]) for seen in api.seen[1:])
        assert after[: len(before)] == before  # the prompt cache
        calls = before[-3]["tool_calls"]
        assert [json.loads(call["function"]["arguments"]) for call in calls] == [
            {"unreadable": '{"path": "a'},
            {"unreadable": "[1]"},
        ]


def test_a_service_that_refuses_reasoning_is_asked_once_without_and_the_next_ask_goes_on(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.db"
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "forged"}

    def answer(seen: Seen) -> Canned:
        body = json.dumps(seen.body["messages"])
        if "forged" in body:
            return error_answer(400, "invalid_request_error", "messages.1.content.0: Invalid `signature`")
        if "is empty" in body:
            return json_answer(message(text("Done.")))
        return json_answer(message(thought, tool_use("look", {"path": "a"}, "t1"), stop_reason="tool_use"))

    with MessagesApi(answer) as api:
        model = AnthropicModel("m", base_url=api.url, api_key=KEY, stream=False)
        outcome = Runtime(str(log)).run_sync(Agent("host", tools=[look], model=model), "Look.")
        assert (outcome.status, outcome.text, len(api.seen)) == ("ok", "Done.", 3)
    with Recording.open(log) as recording:
        wishes = [event.body for event in recording.events if isinstance(event.body, TurnRequested)]
        assert [(one.repair, one.breaks_cache) for one in wishes] == [
            (None, False),
            (None, False),
            (Repair(1, 1), True),
        ]
        assert "refused_replies" in [finding.kind for finding in recording.diagnose()]


def test_a_service_that_takes_only_ids_of_nine_letters_and_digits_goes_on_in_the_same_ask() -> None:
    """Mistral's models read the ids of earlier calls so, also those that their own server has made."""

    def answer(seen: Seen) -> Canned | Reply:
        said = cast(list[Any], seen.body["messages"])
        calls = [call for one in said for call in one.get("tool_calls") or ()]
        if wrong := [call["id"] for call in calls if not re.fullmatch("[a-zA-Z0-9]{9}", call["id"])]:
            why = f"Tool call id was {wrong[0]} but must be a-z, A-Z, 0-9, with a length of 9."
            return failed(400, why, kind="invalid_function_call", code="3280")
        turns = len(calls)
        return Reply(("Done.",)) if turns > 1 else Reply((Call("look", "{}", f"call_49c89af{turns}"),))

    with OpenAIApi(answer) as api:
        host = Agent("host", tools=[look], model=OpenAICompatibleModel("m", base_url=f"{api.url}/v1"))
        outcome = Runtime(":memory:").run_sync(host, "Look twice.")
        assert (outcome.status, outcome.text, len(api.seen)) == ("ok", "Done.", 4)
