"""The bound on an agent's input: plausible counts, other origins, and images without a known size."""

import msgspec
import pytest

from callboard.actors.agent.input_bound import is_believed, is_doubted
from callboard.actors.agent.request_prefix import TOOL_OVERHEAD_TOKENS
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.replies import Reply
from callboard.replay.testing.sessions.scenario import profile
from tests.actors.harness import AgentHarness

CHECKED = ModelSpec("checked", 100, checks_usage=True)
BUSY = ModelFailure("overloaded_error", is_retryable=True)
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def on(model: ModelSpec) -> Profile:
    return msgspec.structs.replace(profile("host", [], ["look"]), model=model)


def begun(model: ModelSpec) -> AgentHarness:
    agent = AgentHarness()
    agent.begins(who=on(model))
    return agent


def asked(posts: "list[AnyMessage]") -> TurnRequested:
    (wish,) = [post for post in posts if isinstance(post, TurnRequested)]
    return wish


def bytes_of(agent: AgentHarness) -> int:
    prefix = agent.state.prefix
    assert prefix is not None
    return prefix.tokens + sum(map(len, agent.state.history.values()))


def next_input(agent: AgentHarness, usage: Usage | None) -> int:
    """Return the input bound of the turn after a call with this usage, without the new result."""
    agent.calls("look", usage=usage)
    before = agent.state.context_tokens
    agent.hears(agent.returned(0))
    return before


@pytest.mark.parametrize("share", [1, 2, 3, 4, 16])
def test_a_plausible_count_replaces_the_bytes(share: int) -> None:
    agent = begun(CHECKED)
    prompt = -(-agent.state.context_tokens // share)
    assert next_input(agent, Usage(input_tokens=prompt, output_tokens=20)) == prompt + 20


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(),
        Usage(input_tokens=1),
        Usage(output_tokens=50),
        Usage(input_tokens=1, output_tokens=1),  # such as only the part that was not cached
        Usage(input_tokens=100_000),
    ],
)
def test_after_any_other_count_the_bytes_stay(usage: Usage | None) -> None:
    agent = begun(CHECKED)
    agent.calls("look", usage=usage)
    assert agent.state.context_tokens >= bytes_of(agent) - len(b'{"role":"assistant","content":}') * 2
    assert is_believed(CHECKED, usage, agent.state.context_tokens) is False


def test_a_model_whose_counts_are_not_checked_is_believed() -> None:
    agent = begun(ModelSpec("plain", 100))
    assert next_input(agent, Usage(input_tokens=1, output_tokens=1)) == 2
    assert agent.state.fallback is None


def test_a_cached_prompt_counts_as_a_whole() -> None:
    usage = Usage(input_tokens=10, cache_read_tokens=500)
    assert is_believed(CHECKED, usage, 1_500)
    assert not is_believed(CHECKED, Usage(input_tokens=10), 1_500)


def test_only_a_count_that_is_there_and_not_plausible_is_doubted() -> None:
    state = begun(CHECKED).state
    assert is_doubted(state, Usage(input_tokens=1))
    assert not is_doubted(state, Usage(input_tokens=(state.context_tokens - TOOL_OVERHEAD_TOKENS) // 3))
    assert not is_doubted(state, None)
    assert not is_doubted(state, Usage(input_tokens=state.context_tokens // 3))
    assert not is_doubted(begun(ModelSpec("plain")).state, Usage(input_tokens=1))


def test_after_a_change_of_origin_the_bytes_of_the_whole_conversation_count_again() -> None:
    two = ModelSpec("first", 100, fallback=(ModelSpec("second", 100),), fallback_on=("overload",))
    agent = begun(two)
    agent.calls("look", usage=Usage(input_tokens=10, output_tokens=10))
    counted = asked(agent.hears(agent.returned(0)))
    wish = asked(agent.reads(Reply(failure=BUSY)))
    assert wish.model == "second"
    known = wish.need.tokens - 100
    # Every message counts with its own frame but for results, of which only the blocks count.
    assert bytes_of(agent) - 100 <= known <= bytes_of(agent)
    assert known > counted.need.tokens


def test_an_ask_with_another_model_counts_the_bytes_again() -> None:
    agent = begun(ModelSpec("first", 100))
    agent.reads(Reply("done"), usage=Usage(input_tokens=1, output_tokens=1))
    wish = asked(agent.begins(who=on(ModelSpec("second", 100))))
    assert wish.need.tokens - 100 >= bytes_of(agent) - 100


def test_what_an_adapter_adds_is_part_of_the_need() -> None:
    plain, more = begun(ModelSpec("m", 100)), begun(ModelSpec("m", 100, overhead_tokens=300))
    assert more.state.context_tokens == plain.state.context_tokens + 300


def shown(agent: AgentHarness) -> TurnRequested:
    """Return the request after a tool has shown an image by its address."""
    agent.calls("look")
    output = Json(msgspec.json.encode([LINK]))
    return asked(agent.hears(ToolReturned(agent.state.turn, 0, output=output)))


def test_an_image_by_its_address_leaves_no_bound_unless_the_model_states_one() -> None:
    assert shown(begun(ModelSpec("m", 100))).is_unbounded
    stated = begun(ModelSpec("m", 100, image_tokens=1_600))
    wish = shown(stated)
    assert not wish.is_unbounded
    assert wish.need.tokens >= 1_600 + 100


def test_a_count_that_includes_the_image_gives_a_bound_again_until_another_origin_is_asked() -> None:
    two = ModelSpec("first", 100, fallback=(ModelSpec("second", 100),), fallback_on=("overload",))
    agent = begun(two)
    shown(agent)
    agent.calls("look", usage=Usage(input_tokens=2_000, output_tokens=10))
    assert not asked(agent.hears(agent.returned(0))).is_unbounded
    assert asked(agent.reads(Reply(failure=BUSY))).is_unbounded


def test_a_turn_that_is_taken_back_takes_its_image_with_it() -> None:
    agent = begun(ModelSpec("m", 100))
    agent.calls("look")
    agent.hears(ToolReturned(1, 0, output=Json(msgspec.json.encode([LINK]))))
    assert agent.state.fallback is not None
    assert agent.state.unsent is not None
    assert agent.state.unsent.fallback is None


def test_replies_without_usage_add_their_bytes() -> None:
    agent = begun(CHECKED)
    before = agent.state.context_tokens
    agent.hears(ModelReplied(1, content=Json(b'[{"type":"text","text":"hm"}]'), stop_reason="pause_turn"))
    assert agent.state.context_tokens == before + len(b'[{"type":"text","text":"hm"}]')
