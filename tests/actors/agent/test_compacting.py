"""The decision to shorten a conversation, moved by hand: when, how, and what stays."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.agent.compacting import compaction_of
from callboard.actors.agent.state import request_of
from callboard.actors.protocol.compaction_messages import (
    CLEARED,
    INSTRUCTIONS,
    SUMMARY,
    Compacted,
    SummaryRefused,
)
from callboard.actors.protocol.failures import FailureKind
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    Finished,
    Stop,
    Stopped,
    Told,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import CompactRules, ModelSpec
from callboard.actors.protocol.usage import NOTHING, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from tests.actors.harness import AgentHarness, kinds
from tests.tables import table

RULES = CompactRules(keep=1)
FULL = ModelFailure("context_full", "prompt is too long")
EXCEEDED = "model_context_window_exceeded"


class Crowded(AgentHarness):
    """An agent whose tool returns so many bytes each turn, in a window of 10,000 tokens."""

    def __init__(self, rules: CompactRules = RULES, window: int = 10_000, turns: int = 30) -> None:
        super().__init__()
        model = ModelSpec("scripted", 100, context_tokens=window)
        who = replace(profile("worker", [], ["look"], writes=["save"]), compact=rules, model=model)
        self.begins(who=who, limits=Limits(max_iterations=turns), prompt="find the needle")

    def works(self, size: int = 2_000, *, tool: str = "look", text: str = "") -> list[AnyMessage]:
        """Let it call a tool, and return the posts after the result."""
        arguments = {"path": "x"} if tool == "look" else {"text": "x"}
        self.reads(calls((tool, arguments), text=text), None)
        return [*self.hears(self.returned(0, "x" * size))]

    def works_until(self, kind: type, size: int = 2_000, *, text: str = "") -> list[AnyMessage]:
        """Let it work until it posts a message of this kind."""
        for _ in range(20):
            said = self.works(size, text=text)
            if any(isinstance(one, kind) and getattr(one, "purpose", "x") for one in said):
                return said
        raise AssertionError(f"no {kind.__name__}")

    def takes_effect(self) -> TurnRequested:
        """Let the compaction that it has posted take effect."""
        (body,) = [post.body for post in self.last if isinstance(post.body, Compacted)]
        (asked,) = self.hears(body)
        assert isinstance(asked, TurnRequested)
        return asked

    def summary(self, text: str = "It was not in a.txt.") -> list[AnyMessage]:
        """Let its model answer with a summary."""
        return [*self.reads(Reply(text), None)]

    def words(self) -> str:
        return " ".join(map(str, request_of(self.state).conversation))


def asked_for_summary() -> Crowded:
    agent = Crowded()
    agent.works_until(TurnRequested, 10, text="y" * 1_500)
    return agent


def test_old_results_are_cleared_before_the_window_is_full() -> None:
    agent = Crowded()
    (body,) = agent.works_until(Compacted)
    assert isinstance(body, Compacted)
    assert body.by == "clear"
    assert body.before - body.after >= 1_000
    asked = agent.takes_effect()
    assert agent.seq in asked.new
    assert asked.breaks_cache
    assert not asked.purpose
    assert asked.need.tokens <= 8_000
    results = [one["content"] for one in agent.conversation() if one["role"] == "user"][1:]
    texts = [block["content"] for blocks in results for block in blocks]  # type: ignore[attr-defined]  # blocks
    assert [text.startswith(CLEARED) for text in texts] == [True] * body.results + [False]


def test_a_cleared_result_says_how_to_get_it_again_and_a_write_is_not_to_be_repeated() -> None:
    agent = Crowded()
    agent.works(tool="save")
    agent.works_until(Compacted)
    agent.takes_effect()
    assert "result of look, 2,002 bytes. Call it again" in agent.words()
    assert "result of save, 2,002 bytes. The call has been made; do not repeat it" in agent.words()


def test_the_result_of_a_tool_that_keeps_it_stays() -> None:
    agent = AgentHarness()
    who = profile("worker", [], ["look"])
    who = replace(
        who,
        compact=RULES,
        model=ModelSpec("scripted", 100, context_tokens=10_000),
        tools=tuple(replace(one, keep=True) for one in who.tools),
    )
    agent.begins(who=who)
    for _ in range(4):
        agent.reads(calls(("look", {"path": "x"})), None)
        agent.hears(agent.returned(0, "x" * 2_000))
    assert agent.state.compaction is not None
    assert agent.state.compaction.saved is not None  # nothing could be cleared
    assert agent.conversation()[2]["content"][0]["content"] == "x" * 2_000  # type: ignore[index]  # blocks


def test_a_summary_is_asked_for_with_the_conversation_as_it_was_sent_and_one_more_text() -> None:
    agent = Crowded()
    sent = request_of(agent.state)
    for _ in range(20):
        sent = request_of(agent.state)
        said = agent.works(10, text="y" * 1_500)
        if isinstance(said[0], TurnRequested) and said[0].purpose:
            break
    asked = request_of(agent.state)
    assert asked.messages[:-1] == sent.messages[: asked.length - 1]
    assert bytes(asked.message(asked.length - 1)).startswith(bytes(sent.message(asked.length - 1))[:-2])
    assert INSTRUCTIONS in bytes(asked.message(asked.length - 1)).decode()
    assert (asked.system, asked.tools, asked.force_tool) == (sent.system, sent.tools, "")
    saved = compaction_of(agent.state).saved
    assert saved is not None
    assert bytes(saved.history.get(asked.length) or b"").startswith(b'{"role":"assistant"')


def test_a_summary_stands_behind_the_prompt_in_place_of_the_older_messages() -> None:
    agent = asked_for_summary()
    used, turns = agent.state.turns_used, agent.state.turn
    settled, body = agent.summary()
    assert isinstance(settled, TurnSettled)
    assert isinstance(body, Compacted)
    assert (body.by, body.summary) == ("summary", agent.seq)
    asked = agent.takes_effect()
    first = agent.conversation()[0]["content"]
    assert [one["text"] for one in first] == [  # type: ignore[attr-defined]  # blocks
        "find the needle",
        f"{SUMMARY}It was not in a.txt.",
    ]
    assert (agent.state.turns_used, agent.state.turn) == (used + 1, turns + 1)
    assert agent.seq in asked.new
    assert agent.conversation()[1]["role"] == "assistant"


def test_a_second_summary_replaces_the_first_and_the_prompt_stays() -> None:
    agent = asked_for_summary()
    agent.summary("first")
    agent.takes_effect()
    agent.works_until(TurnRequested, 10, text="y" * 1_500)
    assert f"{SUMMARY}first".replace("\n", "\\n") in agent.words()
    agent.summary("second")
    agent.takes_effect()
    assert "find the needle" in agent.words()
    assert "second" in agent.words()
    assert "first" not in agent.words()


@table(
    "says",
    [
        Reply(""),
        Reply("  "),
        Reply("z" * 9_000),
        Reply("no", stop_reason="refusal"),
        Reply("half a", stop_reason="max_tokens"),
        calls(("look", {"path": "x"}), text="I look first"),
        Reply(failure=ModelFailure("invalid_request", "no")),
    ],
    ids=["empty", "blank", "longer", "refused", "cut", "calls", "failed"],
)
def test_a_summary_that_is_none_changes_nothing_and_runs_no_call(says: Reply) -> None:
    agent = asked_for_summary()
    before = compaction_of(agent.state).saved
    assert before is not None
    said = agent.reads(says, Usage(900, 50))
    assert kinds(said) == ["TurnRequested"]
    (asked,) = said
    assert isinstance(asked, TurnRequested)
    assert not asked.purpose
    assert asked.settled is not None
    assert asked.settled.usage == Usage(900, 50)
    assert not asked.settled.text
    assert list(agent.state.history.values())[: before.history.size] == list(before.history.values())
    assert not asked.breaks_cache


def test_after_two_compactions_that_free_too_little_a_request_beyond_the_window_ends_the_agent() -> None:
    agent, said = asked_for_summary(), list[AnyMessage]()
    for _ in range(12):
        said = [*agent.reads(Reply(""), None)]
        if isinstance(said[0], Finished):
            break
        while not compaction_of(agent.state).saved and not isinstance(said[0], Finished):
            said = agent.works(10, text="y" * 900)
        if isinstance(said[0], Finished):
            break
    (finished,) = said
    assert isinstance(finished, Finished)
    assert finished.kind == "context_full"
    assert "the window of scripted has 10,000, and no compaction frees 1,000 tokens" in finished.detail
    assert agent.state.calls.answers.size  # the result that no request holds


def test_the_next_try_after_one_in_vain_waits_until_the_conversation_has_grown() -> None:
    agent = asked_for_summary()
    agent.reads(Reply(""), None)
    assert kinds([*agent.works(10)]) == ["TurnRequested"]
    assert compaction_of(agent.state).saved is None


@pytest.mark.parametrize("full", [Reply(failure=FULL), Reply("I", stop_reason=EXCEEDED)])
def test_a_request_that_the_service_refuses_is_shortened_and_sent_again(full: Reply) -> None:
    agent = Crowded(window=0)
    for _ in range(6):
        agent.works()
    used, last = agent.state.turns_used, agent.state.history.last()
    settled, body = agent.hears(agent.reply(full, None))
    assert isinstance(settled, TurnSettled)
    assert isinstance(body, Compacted)
    agent.takes_effect()
    assert agent.state.turns_used == used
    assert agent.state.history.last() == last


def test_a_window_that_is_not_known_is_taken_for_half_of_what_was_refused() -> None:
    agent = Crowded(window=0)
    for _ in range(6):
        agent.works(10, text="y" * 1_500)
    whole = agent.state.context_tokens
    (asked,) = agent.hears(agent.reply(Reply(failure=FULL), None))
    assert isinstance(asked, TurnRequested)
    assert asked.purpose == "summary"
    assert asked.need.tokens <= whole // 2 + 600
    agent.summary("it is short")
    agent.takes_effect()
    assert agent.state.context_tokens < whole * 9 // 10


def test_a_single_result_that_is_larger_than_the_window_ends_the_agent_with_figures() -> None:
    agent = Crowded()
    agent.works(20_000)
    (finished,) = agent.hears(agent.reply(Reply(failure=FULL), None))
    assert isinstance(finished, Finished)
    assert finished.kind == "context_full"
    assert "no compaction frees 1,000 tokens" in finished.detail


def test_a_stop_while_a_summary_is_asked_for_leaves_the_conversation_as_it_was() -> None:
    agent = asked_for_summary()
    saved = compaction_of(agent.state).saved
    assert saved is not None
    turn = agent.state.turn
    assert not agent.hears(Stop("deadline", (turn, 1)))
    assert kinds(agent.summary()) == ["Stopped"]
    assert agent.state.history == saved.history
    assert agent.state.calls.answers.size == 1
    agent.begins(who=replace(profile("worker", [], ["look"], writes=["save"]), compact=RULES))
    assert agent.conversation()[-1]["role"] == "user"


@pytest.mark.parametrize("is_granted", [True, False])
def test_a_stop_before_a_compaction_takes_effect_loses_no_result(is_granted: bool) -> None:
    agent = asked_for_summary()
    saved = compaction_of(agent.state).saved
    assert saved is not None
    if is_granted:
        agent.summary()
    (stopped,) = agent.hears(Stop("deadline"))
    assert isinstance(stopped, Stopped)
    assert agent.state.history == saved.history
    assert agent.state.calls.answers.size == 1
    assert compaction_of(agent.state).pending is None


def test_words_that_come_during_a_compaction_are_heard_after_it() -> None:
    agent = asked_for_summary()
    agent.hears(Told(1, "hurry"))
    _, body = agent.summary()
    agent.hears(Told(2, "please"))
    assert isinstance(body, Compacted)
    (asked,) = agent.hears(body)
    assert isinstance(asked, TurnRequested)
    assert asked.told == 2
    assert "hurry" in agent.words()
    assert "please" in agent.words()


def test_a_budget_without_room_for_a_summary_leaves_clearing_only() -> None:
    agent = asked_for_summary()
    (asked,) = agent.hears(SummaryRefused(agent.state.turn))
    assert isinstance(asked, TurnRequested)
    assert not asked.purpose
    assert asked.summary is NOTHING
    assert compaction_of(agent.state).is_clear_only
    for _ in range(3):
        agent.works(10, text="y" * 1_500)
        assert compaction_of(agent.state).saved is None


def test_the_need_of_a_summary_is_stated_from_half_the_trigger_on() -> None:
    agent, stated = Crowded(), list[tuple[bool, bool]]()
    for _ in range(3):
        (asked,) = agent.works(1_500)
        assert isinstance(asked, TurnRequested)
        stated.append((asked.need.tokens > 4_000, asked.summary.tokens > asked.need.tokens))
    assert {one for one, _ in stated} == {True, False}
    assert all(one == other for one, other in stated)


def test_a_summary_by_a_function_and_one_in_no_window_need_nothing() -> None:
    free = ModelSpec("short", 100, kind="function")
    needs = []
    for rules, window in ((RULES, 10_000), (replace(RULES, model=free), 10_000), (RULES, 0)):
        agent = Crowded(rules, window)
        _, _, (asked,) = [agent.works(1_500) for _ in range(3)]
        assert isinstance(asked, TurnRequested)
        needs.append(asked.summary.tokens)
    assert (needs[0] > 0, needs[1:]) == (True, [0, 0])


def test_the_last_turn_is_not_preceded_by_a_summary() -> None:
    agent = Crowded(turns=5)
    for _ in range(4):
        said = agent.works(10, text="y" * 1_600)
        assert isinstance(said[0], TurnRequested)
        assert not said[0].purpose or agent.state.turns_used < 4
        if said[0].purpose:
            agent.reads(Reply(""), None)
    assert agent.state.turns_used == 5


def test_a_failed_call_for_a_summary_is_tried_again_as_a_summary() -> None:
    agent = asked_for_summary()
    digest = agent.state.digest
    (again,) = agent.reads(Reply(failure=ModelFailure("overloaded", is_retryable=True)), None)
    assert isinstance(again, TurnRequested)
    assert (again.purpose, again.attempt, again.digest) == ("summary", 2, digest)


def test_counts_of_the_service_tell_how_much_a_cleared_result_frees() -> None:
    agent, total, said = Crowded(window=12_000), 900, list[AnyMessage]()
    agent.reads(calls(("look", {"path": "x"})), Usage(input_tokens=total, output_tokens=20))
    for _ in range(20):
        said = agent.hears(agent.returned(0, "x" * 8_000))  # 2,000 tokens
        if isinstance(said[0], Compacted):
            break
        total += 2_020
        agent.hears(
            ModelReplied(
                agent.state.turn,
                1,
                "ok",
                calls(("look", {"path": "x"})).blocks(agent.state.turn),
                "tool_use",
                Usage(input_tokens=total, output_tokens=20),
            )
        )
    (body,) = said
    assert isinstance(body, Compacted)
    assert body.before == total + 20
    # Each result has 2,000 tokens, and its line at most a token for each byte.
    assert 1_700 * body.results <= body.before - body.after <= 2_000 * body.results


def test_messages_that_have_changed_the_tools_are_folded_into_the_tools() -> None:
    from callboard.actors.protocol.messages import ToolsGiven

    agent = AgentHarness()
    model = ModelSpec("scripted", 100, context_tokens=12_000, inline_tools=True)
    who = replace(profile("worker", [], ["look"], writes=["save"]), compact=RULES, model=model)
    agent.begins(who=who)
    agent.reads(calls(("look", {"path": "x"}), text="y" * 1_500), None)
    agent.hears(ToolsGiven(who.tools[:1]))
    agent.hears(agent.returned(0))
    assert [one["role"] for one in agent.conversation()] == ["user", "assistant", "user", "system"]
    for _ in range(9):
        if compaction_of(agent.state).saved is not None:
            break
        agent.reads(calls(("look", {"path": "x"}), text="y" * 1_500), None)
        agent.hears(agent.returned(0))
    _, body = agent.reads(Reply("short"), None)
    assert isinstance(body, Compacted)
    (asked,) = agent.hears(body)
    assert isinstance(asked, TurnRequested)
    assert asked.breaks_cache
    request = request_of(agent.state)
    assert "system" not in {one["role"] for one in request.conversation}
    assert [msgspec.json.decode(one)["name"] for one in request.tools] == ["look"]


def test_a_fallback_for_full_contexts_goes_before_a_compaction() -> None:
    listed: tuple[FailureKind, ...] = ("context_full",)
    agent = AgentHarness()
    model = ModelSpec("small", 100, fallback=(ModelSpec("large", 100),), fallback_on=listed)
    agent.begins(who=replace(profile("worker", [], ["look"]), compact=RULES, model=model))
    for _ in range(6):
        agent.reads(calls(("look", {"path": "x"})), None)
        agent.hears(agent.returned(0, "x" * 2_000))
    (asked,) = agent.reads(Reply(failure=FULL), None)
    assert isinstance(asked, TurnRequested)
    assert asked.model == "large"


# --- thinking -----------------------------------------------------------------------


def thinks(agent: Crowded, *thoughts: object) -> list[AnyMessage]:
    """Let it think and call a tool, and return the posts after the result."""
    blocks = [*thoughts, *msgspec.json.decode(calls(("look", {"path": "x"})).blocks(agent.state.turn))]
    agent.reads(Reply(content=msgspec.json.encode(blocks)), None)
    return [*agent.hears(agent.returned(0, "ok"))]


THOUGHT = {"type": "thinking", "thinking": "z" * 1_500, "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "z" * 1_500}
UNSEALED = {"type": "thinking", "thinking": "z" * 1_500, "part": {"provider_name": "local", "id": None}}
SEALED = {"type": "thinking", "thinking": "z" * 1_500, "part": {"id": "rs_1"}}
SIGNED = {"type": "thinking", "thinking": "z" * 1_500, "part": {"signature": "abc"}}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}


@table(
    ("thoughts", "is_cleared"),
    [
        ([THOUGHT], True),
        ([THOUGHT, REDACTED], True),
        ([UNSEALED], True),
        ([SEALED], False),
        ([SIGNED], False),
        ([THOUGHT, SEALED], False),
        ([THOUGHT, SEARCH], False),
    ],
)
def test_thinking_of_older_turns_goes_whole_where_the_service_does_not_need_it(
    thoughts: list[object], is_cleared: bool
) -> None:
    agent = Crowded(replace(RULES, has_summaries=False, keep=2))
    body = None
    for _ in range(6):
        said = thinks(agent, *thoughts)
        if body := next((one for one in said if isinstance(one, Compacted)), None):
            break
    assert (body is not None) is is_cleared
    if body is None:
        return
    before = agent.conversation()
    asked = agent.takes_effect()
    assert (body.by, body.results, body.thoughts) == ("clear", 0, body.upto // 2)
    assert asked.breaks_cache
    after = agent.conversation()
    assert after[body.upto : -1] == before[body.upto :]
    assert after[: body.upto : 2] == before[: body.upto : 2]
    for was, now in zip(before[1 : body.upto : 2], after[1::2], strict=False):
        kept = [block for block in was["content"] if "thinking" not in block["type"]]  # type: ignore[attr-defined]  # blocks
        assert now["content"] == kept


def test_a_reply_of_thinking_alone_and_a_paused_one_keep_it() -> None:
    agent = Crowded(replace(RULES, has_summaries=False))
    agent.reads(Reply(content=msgspec.json.encode([THOUGHT]), stop_reason="pause_turn"), None)
    body = None
    for _ in range(6):
        if body := next((one for one in thinks(agent, THOUGHT) if isinstance(one, Compacted)), None):
            break
    assert body is not None
    before = agent.conversation()
    agent.takes_effect()
    after = agent.conversation()
    assert after[1] == before[1]  # paused
    assert after[2] == before[2]  # continues it
    assert after[4] != before[4]


def test_a_prompt_that_nothing_could_make_room_for_counts_as_a_try() -> None:
    agent = AgentHarness()
    agent.begins(
        who=replace(
            profile("worker", [], ["look"]),
            compact=RULES,
            model=ModelSpec("scripted", 100, context_tokens=10_000),
        ),
        prompt="x" * 8_500,
    )
    known = compaction_of(agent.state)
    assert (known.stalls, known.prompt) == (1, 0)
    assert known.again_at > 8_500
