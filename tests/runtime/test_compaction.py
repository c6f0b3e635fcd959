"""Conversations that become shorter, in live sessions."""

import asyncio
import inspect
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from callboard import (
    Agent,
    Compact,
    Limits,
    ModelRequest,
    Outcome,
    ProgramContext,
    Reply,
    Runtime,
    ScriptedModel,
    Usage,
    call,
    program,
    tool,
)
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.usage import NOTHING, ZERO
from callboard.replay import Recording
from callboard.replay.descriptions import words_of
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.requests import check_requests
from callboard.runtime.models.function import Answers
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.testing import simulate
from tests.tables import table

WINDOW = 12_000


@tool(effect="read")
def page(number: int) -> str:
    """Read a page."""
    return f"page {number} " + "words " * 600


def reads(pages: int, seen: list[ModelRequest]) -> ScriptedModel:
    """Return a model that reads so many pages, in a window of 12,000 tokens of four bytes."""

    def policy(request: ModelRequest) -> Reply:
        seen.append(request)
        size = sum(map(len, (*request.messages, *request.tools, request.system)))
        usage = Usage(input_tokens=size // 4, output_tokens=30)
        if b"about to be replaced" in bytes(request.message(request.length - 1)):
            return Reply("All pages so far were dull.", usage=usage)
        done = sum(1 for one in seen if b"about to be replaced" not in bytes(one.message(one.length - 1)))
        if done > pages:
            return Reply("done", usage=usage)
        return Reply(calls=[call("page", number=done)], usage=usage)

    return ScriptedModel(policy, max_tokens=500, context_tokens=WINDOW)


async def read(path: Path, pages: int) -> tuple[Recording, list[ModelRequest]]:
    """Let an agent read so many pages."""
    seen: list[ModelRequest] = []
    reader = Agent("reader", tools=[page], compact=Compact(keep_turns=2))
    async with Runtime(str(path), model=reads(pages, seen)) as runtime:
        outcome = await runtime.run(reader, "Find the best page.", limits=Limits(max_iterations=pages + 5))
    assert outcome.status == "ok", outcome.detail
    return Recording.open(str(path), outcome.session_id), seen


def test_a_long_session_stays_within_its_window_and_its_log_grows_with_its_turns(
    tmp_path: Path,
) -> None:
    short, _ = asyncio.run(read(tmp_path / "short.db", 80))
    recording, seen = asyncio.run(read(tmp_path / "long.db", 240))
    needs = [event.body.need.tokens for event in recording.events if isinstance(event.body, TurnRequested)]
    assert max(needs) <= WINDOW
    assert max(sum(map(len, one.messages)) for one in seen) <= 4 * WINDOW
    assert all("Find the best page." in str(one.messages) for one in seen)
    assert {one.body.by for one in recording.events if isinstance(one.body, Compacted)} == {
        "clear",
        "summary",
    }
    assert len(recording.events) <= 3.2 * len(short.events)
    assert (tmp_path / "long.db").stat().st_size <= 3.5 * (tmp_path / "short.db").stat().st_size
    assert recording.verify().divergence is None
    assert not check_requests(recording.events)
    assert not check_log(recording.events)
    asked = [event.body for event in recording.events if isinstance(event.body, TurnRequested)]
    summaries = [one for one in asked if one.purpose]
    assert summaries
    assert len(asked) - len(summaries) == 241
    assert len(asked) == len(seen)


def test_a_value_is_followed_through_a_summary_to_the_result_or_to_the_summary_itself(tmp_path: Path) -> None:
    """Let a summary quote a page, and add a word of its own; the last answer has both."""

    def policy(request: ModelRequest) -> Reply:
        if b"about to be replaced" in bytes(request.message(request.length - 1)):
            return Reply("Page 2 says zebra; I call it quagga.", usage=None)
        if request.turn > 60 or "quagga" in str(request.messages):
            return Reply("It was zebra, or quagga.", usage=None)
        return Reply("talk " * 120, [call("animal", number=request.turn)], usage=None)

    @tool(effect="read")
    def animal(number: int) -> str:
        """Name an animal."""
        return "zebra" if number == 2 else "none"

    async def run() -> str:
        model = ScriptedModel(policy, max_tokens=500, context_tokens=WINDOW, usage=Usage(input_tokens=0))
        reader = Agent("reader", tools=[animal], compact=Compact(keep_turns=2))
        async with Runtime(str(tmp_path / "log.db"), model=model) as runtime:
            return (await runtime.run(reader, "Which?", limits=Limits(max_iterations=70))).session_id

    recording = Recording.open(str(tmp_path / "log.db"), asyncio.run(run()))
    (summary, *_) = [one.body.summary for one in recording.events if isinstance(one.body, Compacted)]
    (*_, last) = [one for one in recording.events if isinstance(one.body, ModelReplied)]
    source = recording.why(last.seq, "zebra").source
    assert [one.kind for one in source][-1] == "ToolReturned"
    assert recording.why(last.seq, "quagga").source[-1].seq == summary


@table(
    "wrong",
    [
        {"at": 0},
        {"at": 1.5},
        {"at": "much"},
        {"keep_turns": 0},
        {"keep_turns": True},
        {"instructions": 5},
        {"summarise": "yes"},
        {"by": "short"},
        {"by": str, "model": "anthropic:claude-sonnet-5"},
        {"by": str, "instructions": "Be short."},
        {"by": str, "summarise": False},
    ],
)
def test_rules_that_cannot_work_are_refused_in_words(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidAgent, match=next(iter(wrong))):
        Compact(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_a_program_has_no_conversation_to_shorten() -> None:
    with pytest.raises(TypeError, match="program\\(\\) has no argument 'compact'"):
        program(compact=Compact())  # type: ignore[call-overload]  # refused on purpose


def test_a_program_or_a_brain_cannot_be_given_rules_later() -> None:
    @program()
    async def work(ctx: ProgramContext, prompt: str) -> str:
        return prompt

    with pytest.raises(InvalidAgent, match="program 'work' has no conversation that could be shortened"):
        work.with_compact(Compact())


def test_an_agent_is_not_shortened_by_anything_else() -> None:
    with pytest.raises(InvalidAgent, match="compact cannot be True"):
        Agent("reader", compact=True)  # type: ignore[arg-type]  # refused on purpose


def test_a_tool_keeps_its_results_if_it_says_so() -> None:
    assert tool(effect="read", keep=True)(page.function).spec().keep
    with pytest.raises(InvalidAgent, match="keep is True or False"):
        tool(keep="yes")(page.function)  # type: ignore[call-overload]  # refused on purpose


def test_the_model_that_writes_summaries_is_one_of_the_agents_models() -> None:
    small = ScriptedModel(["short"], name="small")
    reader = Agent("reader", model=ScriptedModel([]), compact=Compact(model=small))
    assert small in reader.all_models
    rules = reader.profile().compact
    assert rules is not None
    assert rules.model == small.spec
    assert (
        Compact.as_recorded(Compact(at=0.7, keep_turns=9).rules).rules == Compact(at=0.7, keep_turns=9).rules
    )


# --- summaries by a function --------------------------------------------------------


@tool(effect="read")
def note(number: int) -> str:
    """Take a note."""
    return "noted"


async def shortened(by: Answers, path: Path, **limits: int) -> tuple[Recording, Outcome]:
    """Let an agent talk until its conversation was shortened by a function, and then end."""

    def policy(request: ModelRequest) -> Reply:
        if request.turn > 60 or "the talk" in str(request.messages[0]):
            return Reply("done", usage=Usage(input_tokens=0, output_tokens=1))
        return Reply("talk " * 120, [call("note", number=request.turn)], usage=Usage(input_tokens=0))

    model = ScriptedModel(policy, max_tokens=500, context_tokens=WINDOW)
    talker = Agent("talker", tools=[note], compact=Compact(keep_turns=2, by=by))
    async with Runtime(str(path), model=model) as runtime:
        outcome = await runtime.run(talker, "Talk.", limits=Limits(max_iterations=70, **limits))
    return Recording.open(str(path), outcome.session_id), outcome


def plain(request: ModelRequest) -> str:
    return f"the talk, {len(request.conversation)} messages of {request.profile}"


async def later(request: ModelRequest) -> str:
    await asyncio.sleep(0)
    return plain(request)


@pytest.mark.parametrize("function", [plain, later])
def test_a_function_writes_the_summary_for_nothing_and_a_replay_does_not_call_it(
    function: Answers, tmp_path: Path
) -> None:
    recording, outcome = asyncio.run(shortened(function, tmp_path / "log.db"))
    assert outcome.text == "done"
    asked = [event.body for event in recording.events if isinstance(event.body, TurnRequested)]
    assert {one.need for one in asked if one.purpose} == {NOTHING}
    (summary, *_) = [
        one.body.summary for one in recording.events if isinstance(one.body, Compacted) if one.body.summary
    ]
    answer = recording.events[summary - 1].body
    assert isinstance(answer, ModelReplied)
    assert "messages of talker" in bytes(answer.content).decode()
    assert answer.usage == ZERO
    assert outcome.usage.calls == len([one for one in asked if not one.purpose])
    assert recording.verify().is_ok
    assert not check_log(recording.events)


def raising(request: ModelRequest) -> str:
    raise LookupError("no shortener")


def numeric(request: ModelRequest) -> str:
    return 5  # type: ignore[return-value]  # wrong on purpose


def blank(request: ModelRequest) -> str:
    return " "


@pytest.mark.parametrize(
    ("function", "words"),
    [(raising, "LookupError: no shortener"), (numeric, "returns a text, not int"), (blank, '"text":" "')],
)
def test_a_function_without_a_summary_changes_nothing(function: Answers, words: str, tmp_path: Path) -> None:
    recording, outcome = asyncio.run(shortened(function, tmp_path / "log.db"))
    assert outcome.kind == "context_full"
    answers = [event for event in recording.events if isinstance(event.body, ModelReplied)]
    assert any(words in encode(one.body).decode() for one in answers)
    assert not [one for one in recording.events if isinstance(one.body, Compacted) and one.body.summary]


def test_agents_share_a_function_and_two_of_one_name_are_refused() -> None:
    assert Compact(by=plain).model == Compact(by=plain).model
    assert len({Compact(by=plain).model, Compact(by=plain).model, Compact(by=later).model}) == 2
    first, second = (Agent(name, compact=Compact(by=lambda request: "short")) for name in "ab")
    host = Agent("host", agents=[first, second])
    with pytest.raises(InvalidAgent, match=r"two different models are named 'function:.*lambda"):
        Runtime(":memory:", model=ScriptedModel(["hi"])).run_sync(host, "Go.")


def test_a_simulation_calls_the_function_and_refuses_one_that_waits() -> None:
    def policy(request: ModelRequest) -> Reply:
        if request.turn > 60 or "the talk" in str(request.messages[0]):
            return Reply("done", usage=Usage(input_tokens=0))
        return Reply("talk " * 120, [call("note", number=request.turn)], usage=Usage(input_tokens=0))

    model = ScriptedModel(policy, max_tokens=500, context_tokens=WINDOW)
    limits = Limits(max_iterations=70)
    agent = Agent("talker", model=model, tools=[note], compact=Compact(keep_turns=2, by=plain), limits=limits)
    run = simulate(agent, prompt="Talk.", tools={"note": lambda number: "noted"})
    assert any(isinstance(event.body, Compacted) and event.body.summary for event in run.events)

    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(1)
        return "late"

    waits = Agent("talker", model=model, tools=[note], compact=Compact(keep_turns=2, by=slow), limits=limits)
    with pytest.raises(MisuseError, match="has no time"):
        simulate(waits, prompt="Talk.", tools={"note": lambda number: "noted"})


# --- the services' own --------------------------------------------------------------


@pytest.mark.parametrize(
    ("edits", "kept"),
    [
        ('[{"type":"clear_tool_uses","cleared_tool_uses":8}]', "type clear_tool_uses, cleared tool uses 8"),
        ('["odd", {}]', "edited the conversation: ]"),
        ("{}", ""),
        ("no JSON", ""),
        ('["' + "x" * 10_000 + '"]', ""),
    ],
)
def test_what_a_service_has_edited_by_itself_is_recorded_and_shown(
    edits: str, kept: str, tmp_path: Path
) -> None:
    class Editing(ScriptedModel):
        async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
            answer = await _later(super().call(request, on_text))
            return replace(answer, edits=Json(edits.encode()))

    host = Agent("host", model=Editing(["Hi."]))
    outcome = Runtime(str(tmp_path / "log.db")).run_sync(host, "Hello.")
    assert outcome.text == "Hi."
    (reply,) = [
        one.body for one in Recording.open(tmp_path / "log.db").events if isinstance(one.body, ModelReplied)
    ]
    assert (reply.edits == NULL) is (not kept and edits != "{}")
    assert kept in words_of(reply)
    assert ("edited" in words_of(reply)) is bool(kept)


async def _later(answer: object) -> ModelAnswer:
    return cast("ModelAnswer", await answer if inspect.isawaitable(answer) else answer)


def test_a_reply_goes_on_after_the_service_has_compacted_the_conversation(tmp_path: Path) -> None:
    """With `pause_after_compaction`, the reply is the summary alone, and the client asks on."""
    summary = {"type": "compaction", "content": "So far: nothing."}
    steps: list[Reply | str] = [Reply(content=[summary], stop_reason="compaction"), "Done."]
    outcome = Runtime(str(tmp_path / "log.db")).run_sync(Agent("host", model=ScriptedModel(steps)), "Go.")
    assert outcome.text == "Done."
    events = Recording.open(tmp_path / "log.db").events
    first, second = [one.body for one in events if isinstance(one.body, ModelReplied)]
    assert "[the service compacted the conversation]" in words_of(first)
    assert "compacted" not in words_of(second)
