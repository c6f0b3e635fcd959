"""The answer to the request for a summary, and the moment at which a compaction takes effect."""

from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.agent.compacting import compaction_of
from callboard.actors.agent.compaction import Compaction, Pending
from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.input_bound import with_message
from callboard.actors.agent.shortening import conversation_of
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.summaries import after_full, on_compacted, on_refused, take_summary
from callboard.actors.agent.turns import Decision
from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.conversation import rolled, text_block, text_json, user_message
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.media import media_in
from callboard.actors.protocol.messages import TurnRequested, TurnSettled
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import CompactRules, ModelSpec, Prices
from callboard.actors.protocol.usage import Usage, priced
from callboard.actors.protocol.value_types import ModelFailure, Settled
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import calls
from tests.actors.agent.test_compacting import Crowded, asked_for_summary
from tests.actors.harness import AgentHarness, raw
from tests.tables import table

LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
FULL = ModelFailure("context_full", "prompt is too long")
MODEL = ModelSpec("scripted", 100, context_tokens=10_000)


def thinking(turns: int = 6, size: int = 1_000) -> AgentState:
    """Return the state of an agent in a turn after so many results."""
    agent = AgentHarness()
    model = replace(MODEL, context_tokens=0)
    who = replace(profile("worker", [], ["look"]), compact=CompactRules(keep=1), model=model)
    agent.begins(who=who, limits=Limits(max_iterations=30))
    for _ in range(turns):
        agent.reads(calls(("look", {"path": "x"})), None)
        agent.hears(agent.returned(0, "x" * size))
    return agent.state


def knowing(state: AgentState, **fields: Any) -> AgentState:
    return replace(state, compaction=replace(compaction_of(state), **fields))


def bodies(decision: Decision) -> list[Any]:
    return [post.body for post in decision[1]]


@table("stop_reason", ["end_turn", "max_tokens", "pause_turn", "refusal", "stop_sequence"])
@table("usage", [None, Usage(7, 3)])
def test_a_summary_that_was_cut_off_is_none_and_each_is_charged(
    stop_reason: str, usage: Usage | None
) -> None:
    state = asked_for_summary().state
    prices = Prices(3, 15)
    state = replace(state, model=replace(state.model, prices=prices))
    said = ModelReplied(state.turn, 1, "ok", raw([{"type": "text", "text": "short"}]), stop_reason, usage)
    after, posts = take_summary(state, 50, said)
    settled = posts[0].body
    is_summary = stop_reason in ("end_turn", "stop_sequence")
    assert isinstance(settled, TurnSettled if is_summary else TurnRequested)
    charge = settled.usage if isinstance(settled, TurnSettled) else settled.settled and settled.settled.usage
    assert charge == (None if usage is None else priced(usage, prices))
    assert usage is None or charge != usage  # it has a price
    known = compaction_of(after)
    assert (known.saved, known.pending is None) == (None, not is_summary)
    assert (known.ready is not None) == is_summary


@pytest.mark.parametrize(
    ("fields", "turn", "is_heard"), [({}, 0, True), ({"saved": None}, 0, False), ({}, -1, False)]
)
def test_a_refusal_counts_for_the_summary_that_is_asked_for(
    fields: dict[str, Any], turn: int, is_heard: bool
) -> None:
    state = knowing(asked_for_summary().state, **fields)
    after, posts = on_refused(state, 50, SummaryRefused(state.turn + turn))
    assert bool(posts) == is_heard
    if not is_heard:
        assert after is state
    else:
        known = compaction_of(after)
        assert (known.is_clear_only, known.saved, known.pending) == (True, None, None)
        assert after.history.size > state.history.size  # the whole conversation
    assert on_refused(replace(state, compaction=None), 50, SummaryRefused(state.turn))[1] == ()


def ready(pending: Pending, **fields: Any) -> AgentState:
    """Return the state of an agent whose shorter conversation is about to take effect."""
    state = thinking()
    kept = replace(conversation_of(state, compaction_of(state)), tokens=700, prompt=0)
    known = Compaction(CompactRules(keep=1), counted=9, stalls=1, again_at=8, pending=pending, ready=kept)
    return replace(state, phase="compacting", fresh=(3,), compaction=known, **fields)


NOW = Compacted(upto=3, kept=4, by="clear")


def test_a_compaction_that_takes_effect_sends_the_message_that_waits_and_starts_to_count_again() -> None:
    state = ready(Pending(text_json("go on"), (41, 42), "answered", has_prompt=True), turns_used=4)
    after, posts = on_compacted(state, 50, NOW)
    (asked,) = (post.body for post in posts)
    assert isinstance(asked, TurnRequested)
    assert asked.new == (3, 50, 41, 42)
    assert asked.otherwise == "answered"
    assert after.history.last() == user_message((), text_json("go on"))
    known = compaction_of(after)
    assert known == Compaction(known.rules, shortened=4, prompt=state.history.size, sizes=known.sizes)


@pytest.mark.parametrize("has_prompt", [False, True])
@pytest.mark.parametrize("blocks", [[], [LINK]])
def test_a_refused_message_is_sent_again_behind_the_shorter_conversation(
    has_prompt: bool, blocks: list[object]
) -> None:
    said = user_message((text_block("look at this"), *map(raw, blocks)))
    model = replace(MODEL, image_tokens=5_000)
    state = ready(Pending(refused=said, has_prompt=has_prompt), turns_used=4, model=model)
    ready_one = replace(compaction_of(state).ready, model=model)  # type: ignore[type-var]  # it is one
    state = knowing(state, ready=ready_one)
    after, posts = on_compacted(state, 50, NOW)
    (asked,) = (post.body for post in posts)
    assert isinstance(asked, TurnRequested)
    assert after.history.last() == said
    books, more = with_message(state, None, media_in(said), len(said))
    assert after.context_tokens == 700 + len(said) + more
    assert (more > 0) == bool(blocks)
    assert after.digest == asked.digest == rolled(state.digest, said)
    assert after.turns_used == 4  # the refused request was this turn
    assert after.fallback == books
    assert compaction_of(after).prompt == (state.history.size if has_prompt else 0)
    # It has been sent, so it stays if this turn is taken back.
    assert after.unsent is not None
    assert after.unsent.history.last() == said


@pytest.mark.parametrize(
    "reply",
    [
        ModelReplied(1, 1, "error", failure=FULL),
        ModelReplied(1, 1, "ok", stop_reason="model_context_window_exceeded"),
    ],
)
@pytest.mark.parametrize("is_prompt", [False, True])
def test_a_refused_request_is_shortened_from_before_its_message(reply: ModelReplied, is_prompt: bool) -> None:
    state = thinking()
    unsent = state.unsent
    assert unsent is not None
    state = knowing(state, again_at=90_000, prompt=state.history.size - 1 if is_prompt else 0)
    found = after_full(state, reply, Settled(Usage(5), "forgotten"))
    assert found is not None
    after, posts = found
    settled, body = (post.body for post in posts)
    assert settled == TurnSettled(Usage(5))
    assert isinstance(body, Compacted)
    assert body.before == unsent.context_tokens
    known = compaction_of(after)
    assert known.pending == Pending(refused=state.history.last() or NULL, has_prompt=is_prompt)
    assert known.again_at == 0
    assert after.unsent is None
    assert after.history.size == state.history.size - 1
    listed = Fallback((state.model,), ("context_full",))
    assert after_full(replace(state, fallback=listed), reply, Settled()) is None
    assert (
        after_full(replace(state, fallback=replace(listed, on=("overloaded",))), reply, Settled()) is not None
    )
    assert after_full(replace(state, compaction=None), reply, Settled()) is None
    assert after_full(replace(state, unsent=None), reply, Settled()) is None
    assert (
        after_full(replace(state, history=state.history.drop(state.history.size - 1)), reply, Settled())
        is None
    )
    empty = state.history
    for _ in range(state.history.size):
        empty = empty.drop(empty.size - 1)
    assert after_full(replace(state, history=empty), reply, Settled()) is None


@table(
    "reply",
    [
        ModelReplied(1, 1, "ok", stop_reason="end_turn"),
        ModelReplied(1, 1, "error", failure=ModelFailure("overloaded")),
        ModelReplied(1, 1, "error"),
        ModelReplied(1, 1, "lost", stop_reason="model_context_window_exceeded"),
        ModelReplied(1, 1, "ok", Json(b"[]"), "end_turn", failure=FULL),
    ],
)
def test_another_answer_shortens_nothing(reply: ModelReplied) -> None:
    assert after_full(thinking(), reply, Settled()) is None


def test_a_shorter_agent_still_knows_its_summariser() -> None:
    writer = CompactRules(model=ModelSpec("writer"))
    assert [Compaction(one).summariser for one in (CompactRules(), writer)] == ["", "writer"]
    assert Crowded().state.compaction is not None
