"""The decision to shorten a conversation at its boundaries, one function at a time."""

import pytest
from msgspec.structs import replace

from callboard.actors.agent.compacting import (
    announce,
    begun,
    compaction_of,
    frees_enough,
    given_up,
    may_summarise,
    part_of,
    restored,
    settlement,
    shorten_if_due,
    shorten_refused,
    size_of,
    summary_need,
    with_refused,
)
from callboard.actors.agent.compaction import Compaction, Pending
from callboard.actors.agent.fallback import Fallback, first_of
from callboard.actors.agent.program_state import ProgramState
from callboard.actors.agent.shortening import Shorter, conversation_of, without_old_parts
from callboard.actors.agent.state import AgentState, closing_need, need_of, prefix_of
from callboard.actors.agent.tasks import Task
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.blocks import content_of
from callboard.actors.protocol.compaction_messages import INSTRUCTIONS, Compacted
from callboard.actors.protocol.conversation import blocks_of, rolled, text_block, text_json, user_message
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.makers import mark
from callboard.actors.protocol.messages import Told, TurnRequested, TurnSettled
from callboard.actors.protocol.profiles import CompactRules, ModelSpec
from callboard.actors.protocol.repair_levels import START
from callboard.actors.protocol.usage import NOTHING, Usage, bound_of_any
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import calls
from tests.actors.harness import AgentHarness
from tests.tables import table

CLEAR_ONLY = CompactRules(keep=1, has_summaries=False)
RULES = CompactRules(keep=1)
WINDOW, REPLY = 10_000, 100
SETTLED = Settled(Usage(7, 3))


def agent_with(rules: CompactRules = CLEAR_ONLY, window: int = WINDOW) -> AgentHarness:
    agent = AgentHarness()
    model = ModelSpec("scripted", REPLY, context_tokens=window)
    who = replace(profile("worker", [], ["look"], writes=["save"]), compact=rules, model=model)
    agent.begins(who=who, limits=Limits(max_iterations=30))
    return agent


def needing(need: int, rules: CompactRules = CLEAR_ONLY, window: int = WINDOW) -> AgentState:
    """Return the state of an agent whose next request needs so many tokens."""
    return replace(agent_with(rules, window).state, context_tokens=need - REPLY)


def worked(turns: int = 3, rules: CompactRules = RULES, size: int = 3_000) -> AgentState:
    """Return the state of an agent with so many results in its conversation."""
    agent = agent_with(rules, 1_000_000)
    for _ in range(turns):
        agent.reads(calls(("look", {"path": "x"})), None)
        agent.hears(agent.returned(0, "x" * size))
    return replace(agent.state, model=replace(agent.state.model, context_tokens=WINDOW))


def knowing(state: AgentState, **fields: object) -> AgentState:
    return replace(state, compaction=replace(compaction_of(state), **fields))


def prompt(size: int) -> Pending:
    """Return a message that waits, of so many bytes."""
    return Pending(prompt=text_json("x" * (size - 2)))


def test_an_agent_without_compaction_has_no_part_of_it() -> None:
    state = replace(agent_with().state, compaction=None)
    with pytest.raises(ValueError, match=r"host\.1 is not shortened"):
        compaction_of(state)


OLD = Compaction(
    RULES,
    prompt=3,
    sizes=IntMap[int]().put(2, 5),
    counted=7,
    counter="scripted",
    is_counted=True,
    stalls=1,
    again_at=8,
    summarised=4,
    shortened=4,
    is_clear_only=True,
    cleared=6,
)


def test_an_agent_begins_with_what_is_known_of_its_messages_and_without_the_rest() -> None:
    state = replace(agent_with().state, compaction=OLD)
    counted = Compaction(CLEAR_ONLY, counter="scripted", is_counted=True)
    assert begun(replace(state, is_anew=False)) == replace(counted, sizes=OLD.sizes, counted=7, cleared=6)
    assert begun(replace(state, is_anew=True)) == counted
    assert begun(replace(state, compaction=None)) == Compaction(CLEAR_ONLY)
    assert begun(replace(state, program=ProgramState())) is None
    no_rules = AgentHarness()
    no_rules.begins()
    assert begun(replace(no_rules.state, compaction=OLD)) is None


@table(
    ("need", "known", "is_tried"),
    [
        (8_000, {}, False),  # 80 percent
        (8_001, {}, True),
        (8_001, {"shortened": 1}, False),  # in this turn
        (8_001, {"shortened": 0}, True),
        (9_999, {"again_at": 10_000}, False),
        (10_000, {"again_at": 10_000}, True),
        (10_000, {"again_at": 10_001}, False),
        (10_001, {"again_at": 10_002}, True),  # beyond the window
    ],
)
@table("size", [0, 300])
def test_a_compaction_is_tried_from_its_share_of_the_window_on(
    need: int, known: dict[str, int], is_tried: bool, size: int
) -> None:
    state = knowing(needing(need - size), **known)
    after, verdict = shorten_if_due(state, None, prompt(size) if size else Pending())
    assert verdict is None
    if not is_tried:
        assert after == state
    else:
        assert after == knowing(state, stalls=1, again_at=need + WINDOW // 10)


def test_without_a_window_nothing_is_shortened_before_a_refusal() -> None:
    state = needing(900_000, window=0)
    assert shorten_if_due(state, None, Pending()) == (state, None)


@pytest.mark.parametrize(
    ("need", "stalls", "ends"),
    [(10_001, 0, False), (10_000, 1, False), (10_001, 1, True), (10_001, 2, True)],
)
def test_two_compactions_in_vain_end_an_agent_beyond_its_window(need: int, stalls: int, ends: bool) -> None:
    _, verdict = shorten_if_due(knowing(needing(need), stalls=stalls), None, Pending())
    full = "the next request needs up to 10,001 tokens, the window of scripted has 10,000, and no compaction"
    assert verdict == (f"{full} frees 1,000 tokens" if ends else None)


def test_a_refused_message_that_nothing_makes_shorter_ends_the_agent_with_it_in_its_conversation() -> None:
    said = user_message((text_block("again"),))
    state = needing(400, window=0)
    after, verdict = shorten_refused(state, None, Pending(refused=said))
    assert verdict == (
        f"the next request needs up to {400 + len(said):,} tokens, its model's window is not known, and no "
        "compaction frees 30 tokens"
    )
    assert after == with_refused(state, Pending(refused=said))
    assert after.history.last() == said
    assert after.history.size == state.history.size + 1
    assert after.context_tokens == state.context_tokens + len(said)
    assert with_refused(state, Pending()) == state


def test_a_message_that_waits_has_the_bytes_of_its_answers_words_and_texts() -> None:
    agent = agent_with()
    agent.calls("look", "look")
    agent.hears(agent.returned(0, "x" * 50))
    agent.hears(Told(1, "hurry"))
    (answer,), (word,) = agent.state.calls.answers.values(), agent.state.background.words.values()
    assert size_of(agent.state, Pending()) == len(answer.block) + len(word.block)
    refused = Pending(prompt=Json(b'"12345"'), refused=Json(b'"123"'))
    assert size_of(agent.state, refused) == len(answer.block) + len(word.block) + 7 + 5


@table(
    ("window", "tokens", "part"),
    [(10_000, 99, 1_000), (10_009, 99, 1_000), (0, 990, 99), (0, 29, 2), (0, 5, 1)],
)
def test_a_compaction_frees_a_tenth_of_the_window(window: int, tokens: int, part: int) -> None:
    state = replace(agent_with(window=window).state, context_tokens=tokens)
    assert part_of(state) == part
    kept = conversation_of(state, compaction_of(state))
    assert frees_enough(state, Shorter(replace(kept, tokens=tokens - part), 1))
    assert not frees_enough(state, Shorter(replace(kept, tokens=tokens - part + 1), 1))


def test_clearing_is_enough_if_it_frees_the_excess_and_a_summary_is_asked_for_beyond() -> None:
    state = worked()
    state = knowing(state, summarised=-1)
    shorter = without_old_parts(state, compaction_of(state))
    assert shorter is not None
    freed = state.context_tokens - shorter.conversation.tokens
    # need - 80 percent of the window == freed
    waiting = size_of(state, Pending())
    size = freed + WINDOW * 80 // 100 - state.context_tokens - waiting - REPLY
    window = replace(state.model, context_tokens=WINDOW)
    state = replace(state, model=window)
    if size <= 2:  # then the window has to be smaller
        window = replace(
            window, context_tokens=(state.context_tokens + waiting + REPLY + 100 - freed) * 100 // 80
        )
        state = replace(state, model=window)
        size = freed + window.context_tokens * 80 // 100 - state.context_tokens - waiting - REPLY
    after, posts = shorten_if_due(state, SETTLED, prompt(size))
    assert isinstance(posts, tuple)
    settled, compacted = (post.body for post in posts)
    assert settled == TurnSettled(SETTLED.usage, "", NOTHING)
    assert compacted == Compacted(
        upto=shorter.upto,
        kept=state.history.size - shorter.upto,
        by="clear",
        results=shorter.results,
        before=state.context_tokens,
        after=shorter.conversation.tokens,
    )
    assert [post.recipient for post in posts] == [SUPERVISOR, state.address]
    known = compaction_of(after)
    assert (known.pending, known.ready, known.saved) == (prompt(size), shorter.conversation, None)
    assert (known.cleared, after.phase, after.unsent) == (shorter.upto, "compacting", None)
    after, posts = shorten_if_due(state, SETTLED, prompt(size + 1))
    assert isinstance(posts, tuple)
    (asked,) = (post.body for post in posts)
    assert isinstance(asked, TurnRequested)
    assert (asked.purpose, asked.settled, asked.breaks_cache) == ("summary", SETTLED, False)
    assert compaction_of(after).summarised == state.turns_used
    after, posts = shorten_if_due(knowing(state, is_clear_only=True), None, prompt(size + 1))
    assert isinstance(posts, tuple)
    assert isinstance(posts[0].body, Compacted)  # it frees a tenth, and nothing else does


def test_a_turn_with_open_tasks_settles_with_the_need_of_the_message_that_waits() -> None:
    state = needing(500)
    assert settlement(state, None, Pending()) == ()
    assert settlement(state, SETTLED, prompt(30)) == (
        Post(SUPERVISOR, TurnSettled(SETTLED.usage, "", NOTHING)),
    )
    tasks = state.background.tasks.put(1, Task(1, 0))
    busy = replace(state, background=replace(state.background, tasks=tasks))
    need = closing_need(busy, 400 + 30)
    assert settlement(busy, SETTLED, prompt(30)) == (Post(SUPERVISOR, TurnSettled(SETTLED.usage, "", need)),)


BLOCK = len(text_block(INSTRUCTIONS))
SUMMARISER = ModelSpec("writer", 50, context_tokens=5_000)


@table(
    ("tokens", "window", "left", "known", "is_kept"),
    [
        (3_900, WINDOW, 9, {}, False),  # 40 percent with its reply
        (3_901, WINDOW, 9, {}, True),
        (3_901, WINDOW, 3, {}, True),
        (3_901, WINDOW, 2, {}, False),
        (3_901, 0, 9, {}, False),
        (3_901, WINDOW, 9, {"is_clear_only": True}, False),
        (3_901, WINDOW, 9, {"rules": CLEAR_ONLY}, False),
    ],
)
def test_the_need_of_a_summary_is_kept_from_half_the_trigger_to_the_last_turns(
    tokens: int, window: int, left: int, known: dict[str, object], is_kept: bool
) -> None:
    state = knowing(needing(500, RULES, window), **known)
    state = replace(state, turns_used=30 - left)
    expected = bound_of_any(tokens + BLOCK, (state.model,)) if is_kept else NOTHING
    assert summary_need(state, tokens) == expected
    assert summary_need(replace(state, is_forced=True), tokens) == NOTHING
    assert summary_need(replace(state, compaction=None), tokens) == NOTHING


def test_the_need_of_a_summary_is_that_of_its_models() -> None:
    state = needing(500, RULES)
    large = replace(state.model, max_tokens=900)
    several = replace(state, fallback=Fallback((state.model, large), ()))
    assert summary_need(several, 5_000) == bound_of_any(5_000 + BLOCK, (large,))
    other = knowing(several, rules=replace(RULES, model=SUMMARISER))
    assert summary_need(other, 5_000) == bound_of_any(5_000 + BLOCK, (SUMMARISER,))


def test_clearing_that_frees_less_than_a_tenth_is_no_compaction() -> None:
    state = knowing(worked(size=400), rules=CLEAR_ONLY)
    shorter = without_old_parts(state, compaction_of(state))
    assert shorter is not None
    assert not frees_enough(state, shorter)
    # One token too many, which clearing would free.
    reply = 80_001 - state.context_tokens - size_of(state, Pending())
    state = replace(state, model=replace(state.model, context_tokens=100_000, max_tokens=reply))
    after, verdict = shorten_if_due(state, None, Pending())
    assert verdict is None
    assert compaction_of(after).stalls == 1


def talk(by: str) -> IntMap[Json]:
    """Return a conversation of messages with 1,000 bytes. by: a letter for each, as in `uaua`."""
    made = {"u": "user", "a": "assistant"}
    history = IntMap[Json]()
    for one in by:
        start = f'{{"role":"{made[one]}","content":"'
        history = history.append(Json(f'{start}{"x" * (998 - len(start))}"}}'.encode()))
    return history


def cut_of(
    by: str,
    rules: CompactRules = RULES,
    window: int = WINDOW,
    refused: Json = NULL,
    tokens: int = 100_000,
) -> int:
    """Return the number of messages that a summary is asked for; 0 if none is."""
    state = knowing(replace(needing(500, rules, window), history=talk(by)), rules=rules)
    prefix = replace(prefix_of(state), tokens=0)
    state = replace(state, context_tokens=tokens, prefix=prefix)
    after, verdict = shorten_refused(state, None, Pending(refused=refused))
    if isinstance(verdict, str) or compaction_of(after).saved is None:
        return 0
    return after.history.size


ROOM = REPLY + BLOCK


@table(
    ("by", "keep", "window", "cut"),
    [
        ("uauaua", 1, 0, 5),
        ("uauaua", 2, 0, 3),
        ("uauaua", 3, 0, 0),
        ("uauaua", 0, 0, 5),  # a turn stays
        ("uaua", 1, 0, 3),
        ("ua", 1, 0, 0),
        ("uua", 1, 0, 0),
        ("uauaua", 1, 5_000 + ROOM, 5),
        ("uauaua", 1, 4_999 + ROOM, 3),
        ("uauaua", 1, 3_000 + ROOM, 3),
        ("uauaua", 1, 2_999 + ROOM, 0),
    ],
)
def test_the_messages_that_are_summarised_fit_the_window_of_the_model_that_writes(
    by: str, keep: int, window: int, cut: int
) -> None:
    rules = replace(RULES, keep=keep)
    assert cut_of(by, rules, window) == cut
    writer = replace(rules, model=ModelSpec("writer", REPLY, context_tokens=window))
    assert cut_of(by, writer) == cut


SAID = talk("u").last()


@table(
    ("tokens", "window", "cut"),
    [
        (5_000, 0, 3),  # half of all that was refused
        (4_999, 0, 0),
        (9_000, 0, 5),
        (8_999, 0, 3),
        (9_000, 4_999 + ROOM, 3),  # the smaller one counts
        (5_000, 90_000, 3),
        (5_000, ROOM, 3),  # no room is none that is known
        (5_000, ROOM + 1, 0),
    ],
)
def test_half_of_a_request_that_was_refused_is_summarised(tokens: int, window: int, cut: int) -> None:
    assert cut_of("uauaua", window=window, refused=SAID, tokens=tokens) == cut


LARGE = replace(ModelSpec("scripted", REPLY, context_tokens=WINDOW), overhead_tokens=40)


@table("is_anew", [False, True])
@table("has_writer", [False, True])
@table("refused", [NULL, SAID])
@table("books", [None, Fallback((LARGE, LARGE), (), place=1, failed=(5, 0), is_open=True)])
def test_a_request_for_a_summary_is_the_last_one_up_to_the_cut_and_one_more_text(
    is_anew: bool, has_writer: bool, refused: Json, books: Fallback | None
) -> None:
    writer = replace(SUMMARISER, overhead_tokens=30, context_tokens=WINDOW)
    rules = replace(RULES, model=writer if has_writer else None)
    state = knowing(replace(needing(500, RULES), history=talk("uauaua"), fallback=books), rules=rules)
    state = replace(
        state,
        is_anew=is_anew,
        turn=5,
        attempt=2,
        cut_attempts=3,
        turns_used=4,
        repair=START,
        context_tokens=100_000,
    )
    saved = conversation_of(state, compaction_of(state))
    after, posts = shorten_refused(state, SETTLED, Pending(refused=refused))
    assert isinstance(posts, tuple)
    (post,) = posts
    block, before = text_block(INSTRUCTIONS), [*state.history.values()][:5]
    asked = user_message((*blocks_of(content_of(before[4])), block))
    assert [*after.history.values()] == [*before[:4], asked]
    size = sum(map(len, before))
    known = compaction_of(after)
    assert (known.pending, known.saved) == (Pending(refused=refused), saved)
    assert known.summarised == (3 if refused != NULL else 4)
    assert (after.turn, after.attempt, after.cut_attempts, after.unsent) == (6, 1, 0, None)
    assert (after.phase, after.is_anew) == ("thinking", False)
    digest = rolled(state.digest, Json(b"5"), asked)
    if has_writer:
        assert after.model == replace(writer, fallback=(), fallback_on=())
        assert after.fallback == first_of(writer)[1]
        assert after.digest == rolled(digest, mark(writer.made_by))
        assert after.context_tokens == prefix_of(state).tokens + 30 + size - len(before[4]) + len(asked)
    else:
        assert after.fallback == (None if books is None else replace(books, failed=()))
        assert after.digest == digest
        assert after.context_tokens == prefix_of(state).tokens + size + len(block)
    assert post == Post(
        SUPERVISOR,
        TurnRequested(
            turn=6,
            need=need_of(after),
            digest=after.digest,
            settled=SETTLED,
            breaks_cache=is_anew or has_writer,
            model="writer" if has_writer else "" if books is None else "scripted",
            is_unbounded=books is not None and not has_writer,
            repair=START,
            purpose="summary",
        ),
    )
    # The conversation that is put back keeps a repair that the summary needed.
    back = restored(after)
    assert (back.history, back.repair, back.digest) == (state.history, START, state.digest)
    assert compaction_of(back).saved is None
    raised = START.next
    assert raised is not None
    later = restored(replace(after, repair=raised))
    assert (later.repair, later.digest) == (raised, rolled(state.digest, raised.mark))
    assert restored(replace(after, repair=None)).digest == state.digest
    stopped = given_up(after)
    assert stopped == with_refused(
        replace(back, compaction=replace(compaction_of(back), pending=None)), Pending(refused=refused)
    )
    assert given_up(state) == state


def test_an_agent_that_stops_before_a_shorter_conversation_takes_effect_forgets_it() -> None:
    state = needing(500)
    ready = conversation_of(state, compaction_of(state))
    assert given_up(knowing(state, pending=Pending(), ready=ready)) == knowing(
        state, pending=None, ready=None
    )


def test_after_a_summary_every_result_behind_it_may_be_cleared() -> None:
    state = knowing(needing(500), saved=conversation_of(needing(500), compaction_of(needing(500))))
    shorter = Shorter(conversation_of(state, compaction_of(state)), 3)
    after, posts = announce(state, None, Pending(), shorter, 17)
    assert isinstance(posts, tuple)
    (post,) = posts
    assert isinstance(post.body, Compacted)
    assert (post.body.by, post.body.summary) == ("summary", 17)
    known = compaction_of(after)
    assert (known.cleared, known.saved) == (1, None)


@pytest.mark.parametrize(("left", "may"), [(1, False), (2, True)])
def test_a_summary_needs_a_turn_after_it(left: int, may: bool) -> None:
    assert may_summarise(replace(needing(500, RULES), turns_used=30 - left)) == may
