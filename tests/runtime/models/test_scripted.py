import asyncio
import gc
from collections.abc import Awaitable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import Agent, Runtime
from callboard.actors.agent.content import read
from callboard.actors.protocol.errors import InvalidPrompt, ScriptError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.protocol import Model, ModelAnswer
from callboard.runtime.models.scripted import Reply, ScriptedModel, Step, call, calls, fail, say
from callboard.runtime.sanitize import check_json, to_json
from callboard.runtime.secrets.refs import may_hold_key
from tests.tables import table


def request(
    turn: int = 1, address: str = "host", profile: str = "p", attempt: int = 1, asked: str = "hello"
) -> ModelRequest:
    return ModelRequest(
        address=address,
        profile=profile,
        model=ModelSpec("scripted"),
        turn=turn,
        attempt=attempt,
        system=NULL,
        tools=(),
        history=IntMap[Json]().put(1, to_json({"role": "user", "content": asked})),
    )


def answer(
    model: ScriptedModel, asked: ModelRequest | None = None, told: list[str] | None = None
) -> ModelAnswer:
    found = model.call(asked or request(), ([] if told is None else told).append)
    assert isinstance(found, ModelAnswer)
    return found


def blocks(model: ScriptedModel, asked: ModelRequest | None = None) -> object:
    return msgspec.json.decode(answer(model, asked).content)


def failure(found: ModelAnswer) -> ModelFailure:
    assert found.failure is not None
    return found.failure


def test_it_is_a_model() -> None:
    model: Model = ScriptedModel([], name="n", max_tokens=5, prices=Prices(1e-06, 2e-06))
    assert model.spec == ModelSpec("n", 5, prices=Prices(1e-06, 2e-06))
    asyncio.run(model.aclose())


@table(
    ("step", "content", "stop_reason"),
    [
        ("hi", [{"type": "text", "text": "hi"}], "end_turn"),
        (say("hi"), [{"type": "text", "text": "hi"}], "end_turn"),
        (say(""), [], "end_turn"),
        (
            call("add", a=1, b="\ud800"),
            [{"type": "tool_use", "id": "toolu_host_1_1_0", "name": "add", "input": {"a": 1, "b": "\ufffd"}}],
            "tool_use",
        ),
        (
            calls(call("a"), call("b", x=None), text="Two at once."),
            [
                {"type": "text", "text": "Two at once."},
                {"type": "tool_use", "id": "toolu_host_1_1_0", "name": "a", "input": {}},
                {"type": "tool_use", "id": "toolu_host_1_1_1", "name": "b", "input": {"x": None}},
            ],
            "tool_use",
        ),
        (Reply("cut", stop_reason="max_tokens"), [{"type": "text", "text": "cut"}], "max_tokens"),
        (Reply(content=[{"type": "odd", "x": 1}]), [{"type": "odd", "x": 1}], "end_turn"),
        (
            Reply(content=Json(b'[{"type": "tool_use", "id": "i", "name": "n", "input": {}}]')),
            [{"type": "tool_use", "id": "i", "name": "n", "input": {}}],
            "tool_use",
        ),
    ],
)
def test_a_step_becomes_content_blocks(step: Step, content: object, stop_reason: str) -> None:
    model = ScriptedModel([step])
    assert blocks(model) == content
    assert answer(model).stop_reason == stop_reason
    assert answer(model).model == "scripted"


def test_ids_of_calls_differ_by_agent_turn_attempt_and_index_and_not_by_chance() -> None:
    def ids(*asked: ModelRequest) -> list[str]:
        model = ScriptedModel(lambda request: calls(call("a"), call("a")))
        said = [read(answer(model, one).content) for one in asked]
        return [use.id for one in said if one is not None for use in one.uses]

    asked = [request(), request(turn=2), request(attempt=2), request(address="host.1.2")]
    assert len(set(ids(*asked))) == 8
    assert ids(*asked) == ids(*asked)
    assert ids(request(address="host.1.2"))[0] == "toolu_1-2_1_1_0"
    (long, _) = ids(request(address="host.1000", turn=30))
    assert not may_hold_key(long.encode()), "else every answer is searched for keys"


def test_text_is_told_as_it_streams() -> None:
    told: list[str] = []
    answer(ScriptedModel([calls(call("a"), text="so\0")]), told=told)
    answer(ScriptedModel([call("a")]), told=told)
    assert told == ["so␀"]


def test_usage_is_the_replys_or_the_models_or_one_token_each_way() -> None:
    mine, models = Usage(input_tokens=7), Usage(input_tokens=9)
    assert answer(ScriptedModel(["a"])).usage == Usage(input_tokens=1, output_tokens=1)
    assert answer(ScriptedModel(["a"], usage=models)).usage == models
    assert answer(ScriptedModel([Reply("a", usage=mine)], usage=models)).usage == mine


def test_a_failure_is_answered_as_it_is() -> None:
    found = answer(ScriptedModel([fail("rate_limit_error", retry_after_s=1.5), "ok"]))
    assert found.failure == ModelFailure("rate_limit_error", "scripted rate_limit_error", True, 1_500)
    assert fail("invalid_request_error", "why", is_retryable=False) == ModelFailure(
        "invalid_request_error", "why"
    )
    assert found.content is NULL


def test_each_agent_has_a_script_by_address_or_by_profile() -> None:
    model = ScriptedModel({"host": ["h1", "h2"], "explorer": ["e1", "e2"], "host.2": ["second"]})

    def text(address: str, profile: str, turn: int) -> str:
        said = read(answer(model, request(turn, address, profile)).content)
        assert said is not None
        return said.text

    assert text("host", "anything", 1) == "h1"
    assert text("host.1", "explorer", 1) == "e1"
    assert text("host.3", "explorer", 1) == "e1"
    assert text("host.1", "explorer", 2) == "e2"
    assert text("host.2", "explorer", 1) == "second"
    assert text("host", "anything", 2) == "h2"
    model.assert_done()


def test_a_mapping_may_hold_functions() -> None:
    model = ScriptedModel({"host": ["h"], "explorer": lambda request: f"at {request.address}"})
    assert blocks(model, request(5, "host.9", "explorer")) == [{"type": "text", "text": "at host.9"}]


def test_a_function_sees_the_request_and_answers_at_once() -> None:
    def policy(asked: ModelRequest) -> str:
        return f"{asked.conversation[-1]['content']}, turn {asked.turn}"

    assert blocks(ScriptedModel(policy), request(3)) == [{"type": "text", "text": "hello, turn 3"}]


def test_an_async_function_answers_later() -> None:
    async def policy(asked: ModelRequest) -> Step:
        await asyncio.sleep(0)
        if asked.turn > 1:
            raise KeyError("lost")
        return call("a")

    async def main() -> None:
        model = ScriptedModel(policy)
        first, second = model.call(request(1), print), model.call(request(2), print)
        assert isinstance(first, Awaitable)
        assert isinstance(second, Awaitable)
        assert (await first).stop_reason == "tool_use"
        assert failure(await second).code == "script_error"
        with pytest.raises(ScriptError, match="KeyError: 'lost'"):
            model.assert_done()

    asyncio.run(main())


def test_a_request_beyond_the_script_names_agent_turn_and_what_was_asked() -> None:
    model = ScriptedModel({"explorer": ["only"]})
    found = failure(answer(model, request(2, "host.1", "explorer", asked="What now?")))
    assert (found.code, found.is_retryable) == ("script_error", False)
    for part in ('host.1 (profile "explorer")', "turn 2, attempt 1", "ends after turn 1", "What now?"):
        assert part in found.message
    with pytest.raises(ScriptError, match=r"(?s)turn 2, attempt 1.*'only' of turn 1 was never played"):
        model.assert_done()


def test_an_agent_without_a_script_is_told_who_has_one() -> None:
    model = ScriptedModel({"host": ["h"], "explorer": ["e"]})
    assert (
        "no script for it, only for host, explorer"
        in failure(answer(model, request(1, "host.1", "critic"))).message
    )


def test_a_policy_that_fails_or_gives_nonsense_is_a_failure_and_remembered() -> None:
    def nonsense(asked: ModelRequest) -> Step:
        return 3  # type: ignore[return-value]  # a wrong value on purpose

    def broken(asked: ModelRequest) -> Step:
        raise ValueError("bad \ud800")

    for policy, why in ((nonsense, "returned 3, which is not text"), (broken, "ValueError: bad \ufffd")):
        model = ScriptedModel(policy)
        assert why in failure(answer(model)).message
        with pytest.raises(ScriptError, match=why):
            model.assert_done()


def test_what_was_asked_is_shown_cut() -> None:
    found = failure(answer(ScriptedModel([]), request(asked="é" * 10_000)))
    assert len(found.message) < 600
    nothing = request()
    nothing._history = IntMap()
    assert "it was asked: nothing" in failure(answer(ScriptedModel([]), nothing)).message


def test_a_script_that_was_followed_to_its_end_is_done() -> None:
    model = ScriptedModel(["one", fail(), "two"])
    answer(model, request(1))
    with pytest.raises(ScriptError, match="scripted overloaded_error"):
        model.assert_done()
    answer(model, request(2))
    answer(model, request(2, attempt=2))
    model.assert_done()


def test_problems_are_bounded() -> None:
    model = ScriptedModel([])
    for turn in range(1, 200):
        answer(model, request(turn))
    with pytest.raises(ScriptError) as caught:
        model.assert_done()
    assert len(str(caught.value).splitlines()) == 101


def test_arguments_are_fixed_when_the_call_is_made() -> None:
    paths = ["a"]
    made = call("read", paths=paths)
    paths.append("b")
    assert repr(made) == 'call(\'read\', {"paths":["a"]})'
    assert repr(calls(made)) == "Reply('', [call('read', {\"paths\":[\"a\"]})], 'tool_use')"


def test_arguments_named_like_the_parameters_are_arguments() -> None:
    assert bytes(call("t", tool="x", self=1, text="y").input) == b'{"tool":"x","self":1,"text":"y"}'


def test_steps_that_cannot_work_are_refused_when_they_are_made() -> None:
    with pytest.raises(InvalidPrompt, match="The arguments of t"):
        call("t", x=float("nan"))
    with pytest.raises(ScriptError, match="has content, or text and calls"):
        Reply("text", content=[])
    with pytest.raises(ScriptError, match="3 is not a step; use text"):
        ScriptedModel({"host": [3]})  # type: ignore[list-item]  # a wrong value on purpose


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(st.characters(exclude_categories=())), st.lists, max_leaves=5
    )
)
def test_for_all_arguments_the_content_is_readable_json(value: object) -> None:
    content = answer(ScriptedModel([calls(call("t", value=value), text="\ud800")])).content
    assert bytes(check_json(bytes(content))) == bytes(content)
    assert read(content) is not None


def test_an_async_policy_that_is_cancelled_before_its_first_step_leaves_no_warning() -> None:
    async def policy(request: ModelRequest) -> Step:
        return say("too late")

    async def scene() -> str:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(Agent("host"))
            asking = asyncio.create_task(session.ask("go"))
            while not session._board.gate.open:  # noqa: ASYNC110  # the task is made, and has not begun
                await asyncio.sleep(0)
            outcome = await session.cancel()
            await asking
            return outcome.kind if outcome else ""

    assert asyncio.run(scene()) == "cancelled"
    gc.collect()
