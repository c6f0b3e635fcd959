"""The shorter forms of a conversation: which messages change, and how far the bound falls."""

import msgspec
import pytest
from msgspec.structs import asdict, replace

from callboard.actors.agent.compaction import Compaction
from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.shortening import (
    Shorter,
    bound_before,
    conversation_of,
    summary_block,
    turn_starts,
    with_conversation,
    with_count,
    with_summary,
    without_old_parts,
)
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.agent.tool_changes import whole_digest
from callboard.actors.protocol.compaction_messages import CLEARED, cleared_result
from callboard.actors.protocol.conversation import message, text_block, text_json, tool_result, user_message
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.makers import NO_ORIGINS, with_reply
from callboard.actors.protocol.media import Media, media_in
from callboard.actors.protocol.messages import ToolsGiven
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import CompactRules, ModelSpec
from callboard.actors.protocol.repair_levels import START
from callboard.actors.protocol.usage import Usage
from callboard.replay.testing.sessions.scenario import profile
from tests.actors.harness import AgentHarness, raw
from tests.tables import table

RULES = CompactRules(keep=1)
MODEL = ModelSpec("scripted", 100, context_tokens=10_000)
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
INLINE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}


def said(*blocks: object) -> Json:
    return user_message(tuple(raw(one) for one in blocks))


def calls(*names: str) -> Json:
    """Return a reply with one call of each tool. The id of a call is its tool's name and place."""
    blocks = [
        {"type": "tool_use", "id": f"{name}{at}", "name": name, "input": {}} for at, name in enumerate(names)
    ]
    return message("assistant", raw(blocks))


def result(use_id: str, output: str, *, is_error: bool = False) -> Json:
    return tool_result(use_id, text_json(output), is_error)


def results(*blocks: Json) -> Json:
    return user_message(blocks)


def begun(*messages: Json, model: ModelSpec = MODEL, **fields: object) -> AgentState:
    """Return the state of an agent with this conversation, whose bound is 50,000 tokens."""
    agent = AgentHarness()
    agent.begins(who=replace(profile("worker", [], ["look"], writes=["save"]), compact=RULES, model=model))
    history = IntMap[Json]()
    for one in messages:
        history = history.append(one)
    return replace(agent.state, **{"history": history, "context_tokens": 50_000} | fields)


def placed(sizes: dict[int, int]) -> IntMap[int]:
    found = IntMap[int]()
    for place, size in sizes.items():
        found = found.put(place, size)
    return found


def messages_of(shorter: Shorter | None) -> list[Json]:
    assert shorter is not None
    return [*shorter.conversation.history.values()]


LONG = "x" * 2_000
TALK = (said({"type": "text", "text": "go"}), calls("look"), results(result("look0", LONG)), calls("look"))
COUNTED = Compaction(RULES, is_counted=True)


def test_a_conversation_that_is_put_back_is_the_one_before() -> None:
    state = begun(*TALK, handed=(1, 2), is_anew=True, repair=START, prefix=None)
    compaction = Compaction(RULES, prompt=2, sizes=placed({1: 5}))
    kept = conversation_of(state, compaction)
    assert (kept.repair, kept.prompt, dict(kept.sizes.items())) == (START, 2, {1: 5})
    other = begun(model=ModelSpec("other", 5), handed=(0, 0))
    books, origins = Fallback((MODEL,), ()), with_reply(NO_ORIGINS, 0, MODEL.made_by)
    other = replace(other, fallback=books, origins=origins, digest="other", context_tokens=1)
    back = with_conversation(other, replace(COUNTED, prompt=7), kept)
    for name in ("history", "origins", "digest", "context_tokens", "prefix", "fallback", "model", "handed"):
        assert getattr(back, name) == getattr(state, name), name
    assert back.is_anew
    assert back.compaction == replace(COUNTED, prompt=2, sizes=compaction.sizes)


USED = Usage(input_tokens=700, output_tokens=30, cache_read_tokens=60, cache_write_tokens=5)


@table(
    ("known", "usage", "is_kept", "content", "sizes", "counted"),
    [
        ({"counted": 500, "counter": "scripted"}, USED, True, "[]", {0: 265, 1: 30}, 795),
        ({"counted": 500, "counter": "scripted"}, USED, False, "[]", {0: 265}, 795),
        ({"counted": 765, "counter": "scripted"}, USED, True, "[]", {1: 30}, 795),  # nothing has come
        ({"counted": 500, "counter": "other"}, USED, True, "[]", {1: 30}, 795),
        ({"counted": 0, "counter": "scripted"}, USED, True, "[]", {1: 30}, 795),
        ({"counted": 500, "counter": "scripted"}, Usage(600), True, "[]", {0: 100}, 600),
        ({"counted": 500, "counter": "scripted"}, USED, True, "thinking", {0: 265}, 795),
        ({"counted": 500, "counter": "scripted"}, USED, True, "0thinking", {0: 265}, 795),
        ({"counted": 500, "counter": "scripted"}, None, True, "[]", {}, 0),
        ({"counted": 500, "counter": "scripted"}, Usage(calls=1), True, "[]", {}, 0),
    ],
)
def test_a_count_tells_the_size_of_the_new_message_and_of_a_reply_without_thoughts(
    known: dict[str, object],
    usage: Usage | None,
    is_kept: bool,
    content: str,
    sizes: dict[int, int],
    counted: int,
) -> None:
    state = begun(TALK[0], compaction=replace(Compaction(RULES), **known))
    found = with_count(state, ModelReplied(1, 1, "ok", Json(content.encode()), usage=usage), is_kept=is_kept)
    assert found is not None
    assert dict(found.sizes.items()) == sizes
    assert (found.counted, found.is_counted) == (counted, counted > 0)
    assert found.counter == ("scripted" if counted else known["counter"])


def test_a_count_that_is_not_plausible_tells_nothing() -> None:
    checked = replace(MODEL, checks_usage=True)
    state = begun(TALK[0], model=checked, compaction=Compaction(RULES, counted=9), context_tokens=700)
    found = with_count(state, ModelReplied(1, 1, "ok", usage=USED), is_kept=True)
    assert found == Compaction(RULES, counted=0)


def test_an_agent_without_compaction_has_no_count() -> None:
    reply = ModelReplied(1, 1, "ok", usage=USED)
    assert with_count(begun(TALK[0], compaction=None), reply, is_kept=True) is None


@pytest.mark.parametrize(("by", "starts"), [("uaua", [3, 1]), ("uauaa", [3, 1]), ("au", []), ("usua", [3])])
def test_a_turn_starts_with_a_reply_to_a_user(by: str, starts: list[int]) -> None:
    made = {"u": said(), "a": calls("look"), "s": Json(b'{"role":"system","content":[]}')}
    history = IntMap[Json]()
    for one in by:
        history = history.append(made[one])
    assert [*turn_starts(history)] == starts


@table(("keep", "upto"), [(1, 3), (2, 1), (3, 0), (0, 0), (-1, 0)])
def test_results_are_cleared_up_to_the_last_turns(keep: int, upto: int) -> None:
    first = results(result("look0", LONG), result("save1", "ok"))
    state = begun(results(result("none", LONG)), calls("look", "save"), first, calls("look"))
    shorter = without_old_parts(state, Compaction(replace(RULES, keep=keep)))
    if keep != 1:  # nothing stands before the turns that stay
        assert shorter is None
        return
    assert shorter is not None
    assert (shorter.upto, shorter.results) == (upto, 1)
    line = cleared_result("look", len(LONG) + 2, is_read=True)
    before = [*state.history.values()]
    cleared = results(result("look0", line), result("save1", "ok"))
    assert messages_of(shorter) == [before[0], before[1], cleared, before[3]]
    kept = shorter.conversation
    assert kept.is_anew
    assert kept.digest == whole_digest(prefix_of(state), kept.history, state.origins, MODEL)


def _line(size: int) -> str:
    return cleared_result("save", size, is_read=False)


_EVEN = next(size for size in range(300) if len(text_json(_line(size))) == size)


@table(
    ("call", "block", "line"),
    [
        ("save", result("save0", "x" * (_EVEN - 1)), _line(_EVEN + 1)),
        ("save", result("save0", "x" * (_EVEN - 2)), ""),  # the line is not shorter
        ("save", result("save0", CLEARED + LONG), ""),
        ("save", result("unknown", LONG), ""),
        ("gone", result("gone0", LONG), cleared_result("gone", len(LONG) + 2, is_read=False)),
    ],
)
@table("is_error", [False, True])
def test_a_line_stands_for_a_result_that_is_longer(call: str, block: Json, line: str, is_error: bool) -> None:
    one = msgspec.json.decode(block)
    given = result(one["tool_use_id"], one["content"], is_error=is_error)
    shorter = without_old_parts(begun(said(), calls(call), results(given), calls("look")), Compaction(RULES))
    if not line:
        assert shorter is None
    else:
        assert messages_of(shorter)[2] == results(result(one["tool_use_id"], line, is_error=is_error))


def test_messages_before_the_cleared_ones_are_not_looked_at_again() -> None:
    assert without_old_parts(begun(*TALK), Compaction(RULES, cleared=3)) is None
    assert without_old_parts(begun(*TALK), Compaction(RULES)) is not None
    assert Compaction(RULES).cleared == 1  # the first message answers no call


@pytest.mark.parametrize(("size", "freed"), [(900, None), (10, 0), (None, 0)])
def test_a_cleared_result_frees_its_count_without_the_bytes_of_its_line(
    size: int | None, freed: int | None
) -> None:
    talk = (*TALK[:3], said({"type": "text", "text": "y" * 90_000}), calls("look"))
    sizes = placed({1: 7} | ({} if size is None else {2: size}))
    shorter = without_old_parts(begun(*talk), replace(COUNTED, sizes=sizes))
    line = messages_of(shorter)[2]
    assert shorter is not None
    assert shorter.conversation.tokens == 50_000 - (900 - len(line) if freed is None else freed)
    assert dict(shorter.conversation.sizes.items()) == {1: 7}


def tokens_of(state: AgentState, history: IntMap[Json]) -> int:
    return prefix_of(state).tokens + state.model.overhead_tokens + sum(map(len, history.values()))


@table(
    ("stated", "blocks", "most"),
    [
        ({}, [], 0),
        ({"overhead_tokens": 60}, [], 60),
        ({"image_tokens": 1_000}, [LINK], 1_000),
        ({"image_tokens": 1_000}, [INLINE, LINK], 2_000),
        ({}, [INLINE], 0),
        ({}, [LINK], None),
        ({}, [INLINE, LINK], None),
    ],
)
def test_the_bound_is_by_bytes_or_by_counts(
    stated: dict[str, int], blocks: list[object], most: int | None
) -> None:
    model = replace(MODEL, **stated)
    talk = (said(*blocks), *TALK[1:])
    state = begun(*talk, model=model)
    shorter = without_old_parts(state, Compaction(RULES, sizes=placed({2: 1_000})))
    assert shorter is not None
    history = shorter.conversation.history
    counted = 50_000 - 1_000 + len(messages_of(shorter)[2])
    media = media_in(talk[0])
    if most is None:
        assert shorter.conversation.tokens == counted
    else:
        size = prefix_of(state).tokens + sum(map(len, history.values())) + most
        has_most = any(name == "image_tokens" for name in stated)
        assert shorter.conversation.tokens == size - (media.bytes if has_most else 0)
    less = replace(state, context_tokens=1_100)
    shorter = without_old_parts(less, replace(COUNTED, sizes=placed({2: 1_000})))
    assert shorter is not None
    assert shorter.conversation.tokens == counted - 50_000 + 1_100  # fewer than by bytes


@table("is_open", [True, False])
@table("blocks", [[], [LINK], [INLINE], [LINK, INLINE]])
def test_the_books_of_several_models_hold_the_shorter_conversation(
    is_open: bool, blocks: list[object]
) -> None:
    specs = (replace(MODEL, overhead_tokens=3), replace(MODEL, overhead_tokens=70))
    talk = (said(*blocks), *TALK[1:])
    state = begun(
        *talk, fallback=Fallback(specs, (), place=1, input_bytes=9, media=Media(9), is_open=is_open)
    )
    shorter = without_old_parts(state, Compaction(RULES))
    assert shorter is not None
    books = shorter.conversation.fallback
    assert books is not None
    assert books.input_bytes == tokens_of(state, shorter.conversation.history) + 70
    assert books.media == media_in(talk[0])
    assert (books.specs, books.place) == (specs, 1)
    assert books.is_open == (is_open and LINK in blocks)


LATER = (*TALK, results(result("look0", "second")), calls("save"), results(result("save0", "third")))


@table(
    ("prompt", "has_prompt", "place", "handed", "folds"),
    [
        (0, True, 0, 2, True),
        (0, False, -1, 0, False),
        (2, True, 0, 2, True),  # with a result, which goes
        (3, True, 1, 0, False),
        (4, False, 2, 0, False),
        (-1, True, -1, 0, False),
    ],
)
def test_a_summary_stands_in_place_of_the_messages_before_the_cut(
    prompt: int, has_prompt: bool, place: int, handed: int, folds: bool
) -> None:
    earlier = msgspec.json.decode(summary_block("of before"))
    asked = text_block("the prompt")
    first = user_message((result("x", "a result"), asked, raw(earlier)))
    talk = [*LATER]
    talk[0 if prompt < 0 else prompt] = first
    if prompt == 3:
        talk[3] = calls("look")
    sizes = placed({1: 400, 2: 300, 3: 20, 5: 10})
    state = begun(*talk, handed=(1, 2), fallback=Fallback((MODEL,), ()))
    shorter = with_summary(
        state, replace(COUNTED, prompt=prompt, sizes=sizes), 3, "brief", has_prompt=has_prompt
    )
    kept = shorter.conversation
    opening = user_message((*((asked,) if folds else ()), summary_block("brief")))
    assert (shorter.upto, shorter.results) == (3, 0)
    assert messages_of(shorter) == [opening, *talk[3:]]
    assert dict(kept.sizes.items()) == {1: 20, 3: 10}
    assert (kept.prompt, kept.handed, kept.is_anew) == (place, (0, handed), True)
    assert kept.tokens == min(50_000 - 700 + len(opening), tokens_of(state, kept.history))
    assert kept.digest == whole_digest(prefix_of(state), kept.history, NO_ORIGINS, MODEL)
    assert kept.fallback is not None
    assert kept.fallback.input_bytes == tokens_of(state, kept.history)
    low = replace(state, context_tokens=900)
    shorter = with_summary(
        low, replace(COUNTED, prompt=prompt, sizes=sizes), 3, "brief", has_prompt=has_prompt
    )
    assert shorter.conversation.tokens == 900 - 700 + len(opening)


@pytest.mark.parametrize(
    ("runs", "kept"),
    [({}, {}), ({0: "a"}, {0: "a"}), ({0: "a", 3: "b"}, {0: "b"}), ({1: "a", 5: "b"}, {0: "a", 3: "b"})],
)
def test_the_replies_behind_a_summary_keep_their_makers(runs: dict[int, str], kept: dict[int, str]) -> None:
    def made(by: str) -> Origin:
        return replace(MODEL, name=by).made_by

    origins = NO_ORIGINS
    for place, by in runs.items():
        origins = origins.put(place, made(by))
    shorter = with_summary(begun(*LATER, origins=origins), COUNTED, 3, "brief", has_prompt=False)
    assert dict(shorter.conversation.origins.items()) == {place: made(by) for place, by in kept.items()}


def test_changes_of_tools_are_folded_into_the_tools_and_counted() -> None:
    agent = AgentHarness()
    model = replace(MODEL, inline_tools=True)
    who = replace(profile("worker", [], ["look"], writes=["save"]), compact=RULES, model=model)
    agent.begins(who=who)
    agent.calls("look")
    agent.hears(ToolsGiven(who.tools[:1]))
    agent.hears(agent.returned(0))
    state = replace(agent.state, context_tokens=20_000)
    assert prefix_of(state).is_changed
    state = replace(
        state, history=state.history.append(calls("look")).append(said({"type": "text", "text": LONG * 20}))
    )
    shorter = with_summary(state, COUNTED, 4, "brief", has_prompt=False)
    prefix = shorter.conversation.prefix
    assert prefix is not None
    assert not prefix.is_changed
    assert len(prefix.tools) == 1
    assert shorter.conversation.tokens == 20_000 + len(messages_of(shorter)[0]) + prefix.tokens
    # Also if the message about the tools stands behind the cut.
    shorter = with_summary(state, COUNTED, 1, "brief", has_prompt=False)
    assert [msgspec.json.decode(one)["role"] for one in messages_of(shorter)] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cut", "bound"),
    [(3, 50_000 - 40 - 5), (4, 50_000 - 5), (5, 50_000)],
)
def test_the_bound_before_a_place_is_without_the_counts_behind_it(cut: int, bound: int) -> None:
    state = begun(said({"type": "text", "text": "y" * 90_000}), *LATER[1:])
    compaction = replace(COUNTED, sizes=placed({1: 700, 3: 40, 4: 5}))
    assert bound_before(state, compaction, cut) == bound
    high = replace(state, context_tokens=500_000)
    whole = prefix_of(state).tokens + sum(len(one) for one in [*state.history.values()][:cut])
    assert bound_before(high, compaction, cut) == whole
    other = replace(compaction, rules=replace(RULES, model=ModelSpec("other")))
    assert bound_before(state, other, cut) == whole


def test_the_bound_before_a_place_is_by_counts_if_a_link_has_no_bound() -> None:
    state = begun(said(LINK), *LATER[1:])
    other = Compaction(replace(RULES, model=ModelSpec("other")), sizes=placed({3: 40}))
    assert bound_before(state, other, 3) == 50_000 - 40


def test_the_defaults_are_those_of_an_agent_that_has_shortened_nothing() -> None:
    assert asdict(Compaction(RULES)) == {
        "rules": RULES,
        "prompt": -1,
        "sizes": IntMap(),
        "counted": 0,
        "counter": "",
        "is_counted": False,
        "stalls": 0,
        "again_at": 0,
        "summarised": -1,
        "shortened": -1,
        "is_clear_only": False,
        "pending": None,
        "saved": None,
        "ready": None,
        "cleared": 1,
    }


def thought(**part: object) -> dict[str, object]:
    return {"type": "thinking", "thinking": "hm", "signature": ""} | ({"part": part} if part else {})


WORDS, USE = (
    {"type": "text", "text": "I look"},
    {"type": "tool_use", "id": "look0", "name": "look", "input": {}},
)
OTHER = {"type": "server_tool_use", "id": "s", "name": "search", "input": {}}


def replied(*blocks: object) -> Json:
    return message("assistant", raw([*blocks]))


@table(
    ("blocks", "left"),
    [
        ([thought(), WORDS, USE], [WORDS, USE]),
        ([thought(), thought(kind="x"), WORDS], [WORDS]),
        ([thought(id=None), WORDS], [WORDS]),
        ([thought(id="t1"), WORDS], None),
        ([thought(signature="s"), WORDS], None),
        ([thought(), thought(id="t1"), WORDS], None),
        ([thought(), WORDS, OTHER], None),
        ([thought()], None),
        ([WORDS, USE], None),
    ],
)
def test_thinking_of_older_turns_goes_whole_or_stays_whole(
    blocks: list[object], left: list[object] | None
) -> None:
    talk = (said(WORDS), replied(*blocks), said(WORDS), replied(thought(), WORDS))
    shorter = without_old_parts(begun(*talk), Compaction(RULES))
    if left is None:
        assert shorter is None
        return
    assert messages_of(shorter) == [talk[0], replied(*left), *talk[2:]]
    assert shorter is not None
    assert (shorter.upto, shorter.results, shorter.thoughts) == (3, 0, 1)


def test_thinking_of_a_reply_that_was_paused_stays_and_both_kinds_are_counted() -> None:
    thinks = replied(thought(), WORDS)
    talk = (said(WORDS), thinks, thinks, said(WORDS), thinks, said(WORDS), thinks)
    shorter = without_old_parts(begun(*talk), Compaction(RULES))
    assert messages_of(shorter) == [*talk[:4], replied(WORDS), *talk[5:]]
    work = (said(WORDS), replied(thought(), USE), results(result("look0", LONG)), calls("look"))
    shorter = without_old_parts(begun(*work), Compaction(RULES))
    assert shorter is not None
    assert (shorter.results, shorter.thoughts) == (1, 1)
    line = cleared_result("look", len(LONG) + 2, is_read=True)
    assert messages_of(shorter) == [work[0], replied(USE), results(result("look0", line)), work[3]]


def test_the_result_of_a_tool_that_keeps_it_is_not_cleared() -> None:
    state = begun(*TALK)
    prefix = prefix_of(state)
    specs = {name: replace(spec, keep=True) for name, spec in prefix.specs.items()}
    assert without_old_parts(replace(state, prefix=replace(prefix, specs=specs)), Compaction(RULES)) is None
    assert Shorter(conversation_of(state, Compaction(RULES)), 1)[2:] == (0, 0)
