"""The bound on an agent's input: plausible counts, other origins, and images without a known size."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.input_bound import at_bytes, is_believed, is_doubted, with_message
from callboard.actors.agent.request_prefix import TOOL_OVERHEAD_TOKENS
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.media import NO_MEDIA, Media
from callboard.actors.protocol.messages import AnyMessage, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply
from tests.actors.harness import AgentHarness
from tests.tables import table

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


@table("share", [1, 2, 3, 4, 16])
def test_a_plausible_count_replaces_the_bytes(share: int) -> None:
    agent = begun(CHECKED)
    prompt = -(-agent.state.context_tokens // share)
    assert next_input(agent, Usage(input_tokens=prompt, output_tokens=20)) == prompt + 20


@table(
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


# --- by the byte ----------------------------------------------------------------------------

COUNTED = Usage(input_tokens=10, cache_read_tokens=20, cache_write_tokens=30)
IMAGES = Media(images=2, bytes=500, links=1)


@table(
    ("most", "added", "is_plausible"),
    [
        (60 * 16, 0, True),
        (60 * 16 + 1, 0, False),
        (60 * 16 + 1, 1, True),
        (60 * 16 + 2, 1, False),
        (60, 0, True),
        (59, 0, False),
        (59, 100, False),
    ],
)
def test_a_count_is_plausible_between_a_sixteenth_of_the_bytes_and_all_of_them(
    most: int, added: int, is_plausible: bool
) -> None:
    assert is_believed(CHECKED, COUNTED, most, added) is is_plausible


@table(
    ("media", "image_tokens", "tokens", "is_open"),
    [
        (NO_MEDIA, 0, 2_000, False),
        (IMAGES, 0, 2_000, True),
        (replace(IMAGES, links=0), 0, 2_000, False),
        (IMAGES, 100, 2_000 - 500 + 200, False),
        (IMAGES, 1_000, 2_000 - 500 + 2_000, False),
    ],
)
def test_another_origin_reads_the_bytes_with_its_own_most_of_each_image(
    media: Media, image_tokens: int, tokens: int, is_open: bool
) -> None:
    books = Fallback((CHECKED,), (), input_bytes=2_000, media=media, is_open=not is_open)
    model = replace(CHECKED, image_tokens=image_tokens)
    for known, wanted in ((7, tokens), (9_000, 9_000)):
        state = at_bytes(AgentState("host", context_tokens=known, model=model, fallback=books))
        assert state.context_tokens == wanted
        assert state.fallback == replace(books, is_open=is_open)


def test_without_a_fallback_the_bound_stays() -> None:
    state = AgentState("host", context_tokens=7)
    assert at_bytes(state) is state


@pytest.mark.parametrize(
    ("image_tokens", "media", "more", "is_open"),
    [
        (0, NO_MEDIA, 0, None),
        (0, replace(IMAGES, links=0), 0, None),  # its bytes bound it
        (0, IMAGES, 0, True),
        (900, IMAGES, 1_800 - 500, False),
    ],
)
def test_only_a_linked_image_gives_an_agent_with_one_model_books(
    image_tokens: int, media: Media, more: int, is_open: bool | None
) -> None:
    agent = begun(replace(CHECKED, checks_usage=False, image_tokens=image_tokens))
    state = agent.state
    books, tokens = with_message(state, None, media, 40)
    assert tokens == more
    if is_open is None:
        assert books is None
    else:
        size = bytes_of(agent) + 40
        assert books == Fallback((state.model,), (), input_bytes=size, media=media, is_open=is_open)


def test_books_add_the_media_and_the_bytes_of_each_message() -> None:
    state = begun(CHECKED).state
    before = Fallback((CHECKED,), (), input_bytes=100, media=IMAGES, is_open=True)
    books, tokens = with_message(state, before, Media(images=1, bytes=9), 40)
    assert tokens == 0
    assert books == replace(before, input_bytes=140, media=Media(images=3, bytes=509, links=1))
    assert with_message(state, before, NO_MEDIA, 0) == (before, 0)


def test_a_first_begin_counts_the_bytes_with_the_largest_addition_of_any_model() -> None:
    two = ModelSpec("a", 100, overhead_tokens=30, fallback=(ModelSpec("b", 100, overhead_tokens=70),))
    agent = begun(replace(two, fallback_on=("overload",)))
    books = agent.state.fallback
    assert books is not None
    assert books.input_bytes == bytes_of(agent) + 70
    assert agent.state.context_tokens == bytes_of(agent) + 70


def test_a_later_begin_adds_what_is_new_to_the_bytes_of_before() -> None:
    two = ModelSpec("a", 100, fallback=(ModelSpec("b", 100),), fallback_on=("overload",))
    agent = begun(two)
    shown(agent)
    agent.reads(Reply("done"), usage=Usage(input_tokens=3_000, output_tokens=10))
    former = agent.state
    assert former.fallback is not None
    agent.begins(who=replace(on(two), instructions=text_json("You are another.")))
    now = agent.state
    assert now.fallback is not None
    new = now.context_tokens - former.context_tokens
    assert new > 0
    assert now.fallback.input_bytes == former.fallback.input_bytes + new
    assert (now.fallback.media, now.fallback.is_open) == (former.fallback.media, former.fallback.is_open)
