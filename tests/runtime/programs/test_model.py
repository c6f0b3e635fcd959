"""A program behind the `Model` protocol: parked runs, and requests that follow no parked run."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from callboard.actors.protocol.conversation import message, user_message
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage, priced
from callboard.runtime.models.protocol import DivergedAnswer, ModelAnswer
from callboard.runtime.programs.asks import Ask, Step
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.history import read_step
from callboard.runtime.programs.model import ProgramModel
from callboard.runtime.programs.program import Program
from callboard.runtime.sanitize import to_json
from tests.runtime.programs.kit import T0, Function, answer, result_block, work

PROMPT = message("user", to_json("go"))


class Counting:
    """A program that counts how often it began."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0

    async def three(self, ctx: ProgramContext, prompt: str) -> object:
        self.begun += 1
        try:
            return [await ctx.call(work, n=n) for n in range(3)]
        finally:
            self.ended += 1


def model_of(function: Function) -> ProgramModel:
    return Program(function, "under_test", tools=[work]).model


def request(
    model: ProgramModel, said: Sequence[Json], session: str = "s", address: str = "host", at: int = T0
) -> ModelRequest:
    history: IntMap[Json] = IntMap()
    for one in said:
        history = history.append(one)
    made = ModelRequest(
        address=address, profile="under_test", model=model.spec, turn=1, attempt=1, system=Json(b"null"),
        tools=(), history=history,
    )  # fmt: skip
    made.session_id, made.at = session, at
    return made


def step_of(given: ModelAnswer) -> Step:
    assert given.failure is None, given.failure
    return read_step(given.content)


def crash_of(given: ModelAnswer) -> str:
    assert given.failure is not None
    assert (given.failure.code, given.failure.is_retryable) == ("crashed", False)
    return given.failure.message


class Talk:
    """The conversation of one agent with its program."""

    def __init__(self, model: ProgramModel, session: str = "s", address: str = "host") -> None:
        self.model = model
        self.where = (session, address)
        self.said: list[Json] = [PROMPT]
        self.at = T0

    def ask(self) -> ModelAnswer:
        return self.model.call(request(self.model, self.said, *self.where, self.at), lambda text: None)

    def turn(self) -> Step:
        given = self.ask()
        self.said.append(message("assistant", given.content))
        return step_of(given)

    def reply(self, *asks: Ask) -> None:
        self.at += 10
        self.said.append(user_message(tuple(result_block(answer(ask, 7)) for ask in asks)))


def test_the_coroutine_stays_parked_between_steps() -> None:
    counting = Counting()
    talk = Talk(model_of(counting.three))
    step = talk.turn()
    while step.ending is None:
        assert talk.model.parked == 1
        talk.reply(*step.asks)
        step = talk.turn()
    assert step.ending.text == "[7,7,7]"
    assert (counting.begun, counting.ended, talk.model.parked) == (1, 1, 0)
    assert step.head.at == T0 + 30


def test_a_reply_says_whether_it_asks_or_ends() -> None:
    talk = Talk(model_of(Counting().three))
    reasons = []
    for _ in range(4):
        given = talk.ask()
        reasons.append(given.stop_reason)
        talk.said.append(message("assistant", given.content))
        talk.reply(*step_of(given).asks)
    assert reasons == ["tool_use"] * 3 + ["end_turn"]


def test_another_process_executes_the_recorded_steps_again() -> None:
    first, second = Counting(), Counting()
    talk = Talk(model_of(first.three))
    for _ in range(2):
        talk.reply(*talk.turn().asks)
    here = talk.ask()
    talk.model = model_of(second.three)
    assert bytes(talk.ask().content) == bytes(here.content)
    assert second.begun == 1


def test_a_step_that_is_asked_for_again_is_executed_again() -> None:
    counting = Counting()
    talk = Talk(model_of(counting.three))
    talk.reply(*talk.turn().asks)
    once, again = talk.ask(), talk.ask()
    assert bytes(once.content) == bytes(again.content)
    assert (counting.begun, counting.ended) == (2, 1), "the parked run that does not match is stopped"


def test_copies_and_forks_have_runs_of_their_own() -> None:
    counting = Counting()
    model = model_of(counting.three)
    talks = [Talk(model), Talk(model, address="host.1"), Talk(model, session="other")]
    steps = [talk.turn() for talk in talks]
    assert len({step.head.run for step in steps}) == 3
    assert len({ask.id for step in steps for ask in step.asks}) == 1, "so that a fork finds recorded answers"
    fork = Talk(model, session="fork")
    fork.said = [*talks[0].said]
    fork.reply(*steps[0].asks)
    assert fork.turn().head.run == steps[0].head.run
    assert model.parked == 4


def test_a_new_prompt_begins_a_new_run_with_other_ids() -> None:
    talk = Talk(model_of(Counting().three))
    step = first = talk.turn()
    while step.ending is None:
        talk.reply(*step.asks)
        step = talk.turn()
    talk.said.append(PROMPT)
    second = talk.turn()
    assert (second.head.step, second.head.run[0]) == (1, "2")
    assert first.asks[0].id != second.asks[0].id


def test_answers_of_a_stopped_run_stand_before_the_next_prompt() -> None:
    prompts: list[str] = []

    async def echo(ctx: ProgramContext, prompt: str) -> object:
        prompts.append(prompt)
        return await ctx.call(work, n=1)

    talk = Talk(model_of(echo))
    (ask,) = talk.turn().asks
    talk.said.append(user_message((result_block(answer(ask, "late", "cancelled")),), to_json("again")))
    step = talk.turn()
    assert (step.head.step, step.head.run[0], prompts) == (1, "2", ["go", "again"])


def test_a_prompt_of_blocks_is_its_text() -> None:
    async def echo(ctx: ProgramContext, prompt: str) -> object:
        return [prompt, msgspec.json.decode(ctx.prompt_json)]

    talk = Talk(model_of(echo))
    blocks = [{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "url", "url": "u"}}]
    talk.said = [message("user", to_json(blocks))]
    ending = talk.turn().ending
    assert ending is not None
    assert msgspec.json.decode(ending.value or b"") == ["look", blocks]


def test_an_agent_that_was_no_program_before_is_refused_in_mid_run_and_served_from_the_next_prompt() -> None:
    talk = Talk(model_of(Counting().three))
    talk.said.append(message("assistant", to_json([{"type": "text", "text": "Hi.", "citations": []}])))
    talk.said.append(user_message((to_json({"type": "tool_result", "tool_use_id": "a", "content": "b"}),)))
    talk.said[1] = message("assistant", to_json([{"type": "thinking", "thinking": "..."}]))
    assert "not those of a program" in crash_of(talk.ask())
    talk.said.append(PROMPT)
    assert talk.turn().head.run.startswith("1-")


def test_the_time_of_a_step_never_goes_back() -> None:
    talk = Talk(model_of(Counting().three))
    step = talk.turn()
    talk.reply(*step.asks)
    talk.at = T0 - 60_000
    assert talk.turn().head.at == T0


def test_the_time_that_timeouts_leave_out_never_goes_back() -> None:
    talk = Talk(model := model_of(Counting().three))
    found = []
    for left_out_ms in (5, 3, 9):
        asked = request(model, talk.said)
        asked.left_out_ms = left_out_ms
        given = model.call(asked, lambda text: None)
        talk.said.append(message("assistant", given.content))
        step = step_of(given)
        talk.reply(*step.asks)
        found.append(step.head.left_out_ms)
    assert found == [5, 5, 9]


def test_a_changed_program_is_named_with_its_step_and_both_sides() -> None:
    async def changed(ctx: ProgramContext, prompt: str) -> object:
        await ctx.call(work, n=0)
        return await ctx.call(work, n=99)

    talk = Talk(model_of(Counting().three))
    for _ in range(2):
        talk.reply(*talk.turn().asks)
    talk.model = model_of(changed)
    given = talk.ask()
    assert crash_of(given).startswith(
        'step 2 is not as recorded. Recorded: asked work({"n":1}). Now: asked work({"n":99}). '
    )
    assert isinstance(given, DivergedAnswer)
    assert (given.usage, given.model) == (Usage(), talk.model.spec.name)
    assert talk.model.parked == 0


def test_a_program_that_ends_earlier_or_crashes_now_has_diverged() -> None:
    async def early(ctx: ProgramContext, prompt: str) -> object:
        await ctx.call(work, n=0)
        return "done"

    async def broken(ctx: ProgramContext, prompt: str) -> object:
        await ctx.call(work, n=0)
        raise ValueError("no")

    for function, now in ((early, "asked nothing else"), (broken, "crashed: ValueError: no (test_model.py:")):
        talk = Talk(model_of(Counting().three))
        for _ in range(2):
            talk.reply(*talk.turn().asks)
        talk.model = model_of(function)
        text = crash_of(talk.ask())
        assert text.startswith('step 2 is not as recorded. Recorded: asked work({"n":1})')
        assert f"Now: {now}" in text


def test_since_keeps_a_run_as_it_was_and_changes_new_ones() -> None:
    async def changed(ctx: ProgramContext, prompt: str) -> object:
        if ctx.since("four"):
            return await ctx.call(work, n=4)
        return [await ctx.call(work, n=n) for n in range(3)]

    talk = Talk(model_of(Counting().three))
    talk.reply(*talk.turn().asks)
    talk.model = model_of(changed)
    step = talk.turn()
    assert [bytes(ask.input) for ask in step.asks] == [b'{"n":1}']
    talk.reply(*step.asks)
    talk.model = model_of(changed)
    assert [bytes(ask.input) for ask in talk.turn().asks] == [b'{"n":2}']
    new = Talk(talk.model, session="new")
    first = new.turn()
    assert (bytes(first.asks[0].input), first.head.marks) == (b'{"n":4}', {"four": True})
    new.reply(*first.asks)
    new.model = model_of(changed)
    ending = new.turn().ending
    assert ending is not None
    assert ending.text == "7"


def test_a_crash_is_a_failure_that_is_not_tried_again() -> None:
    async def broken(ctx: ProgramContext, prompt: str) -> object:
        raise ValueError("no such order")

    assert "ValueError: no such order (test_model.py:" in crash_of(Talk(model_of(broken)).ask())


def test_an_agent_without_a_model_of_its_own_does_not_run_its_parents_program() -> None:
    model = model_of(Counting().three)
    asked = request(model, [PROMPT])
    asked.profile = "helper"
    failure = model.call(asked, lambda text: None).failure
    assert failure is not None
    assert failure.code == "unknown_model"
    assert "pass Runtime(model=...)" in failure.message


def test_the_end_of_an_agent_stops_its_run_and_no_other() -> None:
    counting = Counting()
    model = model_of(counting.three)
    for address in ("host", "host.1", "host.2"):
        Talk(model, address=address).turn()
    model.ended("s", "host.1")
    assert (counting.ended, model.parked) == (1, 2)
    model.ended("s", "host.1")
    model.ended("other")
    assert (counting.ended, model.parked) == (1, 2)
    model.ended("s")
    assert (counting.ended, model.parked, model._parked) == (3, 0, {})


def test_closing_the_model_stops_every_run() -> None:
    counting = Counting()
    model = model_of(counting.three)
    Talk(model).turn()
    Talk(model, session="other").turn()
    asyncio.run(model.aclose())
    assert (counting.ended, model.parked) == (2, 0)


def test_a_slow_step_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    times = iter([1, 1_001, 1, 1_002])
    monkeypatch.setattr("callboard.runtime.programs.model.monotonic_ms", lambda: next(times))
    Talk(model_of(Counting().three)).turn()
    assert caplog.messages == []
    Talk(model_of(Counting().three), address="host.1").turn()
    (said,) = caplog.messages
    assert said.startswith("host.1: a step of program 'under_test' took 1001 ms, and all sessions waited")


def test_a_step_that_asks_with_too_much_ends_the_program_and_stops_it() -> None:
    ended = []

    async def greedy(ctx: ProgramContext, prompt: str) -> object:
        try:
            return await asyncio.gather(*(ctx.call("work", n=n, text="x" * 9_000_000) for n in range(2)))
        finally:
            ended.append(True)

    model = model_of(greedy)
    failure = model.call(request(model, [PROMPT]), None).failure  # type: ignore[arg-type]  # it says nothing
    assert failure is not None
    assert (failure.code, ended, model.parked) == ("crashed", [True], 0)
    assert "step 1 of the program asks 2 times with 18,000," in failure.message


def test_a_step_may_have_as_many_bytes_as_a_reply_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(Talk(model_of(Counting().three)).ask().content)
    for limit in (size, size - 1):
        monkeypatch.setattr("callboard.runtime.programs.model.MAX_BYTES", limit)
        given = Talk(model_of(Counting().three)).ask()
        assert (given.failure is None) == (limit == size)


def test_a_run_goes_on_only_with_a_longer_request_that_has_its_own_last_step() -> None:
    talk = Talk(model := model_of(Counting().three))
    step = talk.turn()
    (parked,) = model._parked["s"].values()
    assert not parked.fits(request(model, talk.said[:1]))
    assert parked.answers_in(request(model, talk.said[:1])) is None
    assert parked.fits(request(model, talk.said))
    assert not parked.fits(request(model, [PROMPT, PROMPT]))
    talk.reply(*step.asks)
    answers = parked.answers_in(request(model, talk.said))
    assert answers is not None
    assert [one.tool_use_id for one in answers] == [step.asks[0].id]


def test_replies_of_another_kind_are_not_those_of_a_program() -> None:
    model = model_of(Counting().three)
    odd = message("assistant", Json(b'[{"type":"program_step","run":5}]'))
    assert "the recorded replies are not those of a program" in crash_of(
        model.call(request(model, [PROMPT, odd]), lambda text: None)
    )


def test_a_program_that_differs_by_chance_is_told_from_one_that_was_changed() -> None:
    numbers = iter(range(100))

    async def dices(ctx: ProgramContext, prompt: str) -> object:
        await ctx.call(work, n=0)
        return await ctx.call(work, n=next(numbers))

    async def changed(ctx: ProgramContext, prompt: str) -> object:
        await ctx.call(work, n=0)
        return await ctx.call(work, n=99)

    talk = Talk(model_of(dices))
    for _ in range(2):
        talk.reply(*talk.turn().asks)
    same_code = talk.model
    texts = []
    for model in (model_of(dices), model_of(changed)):
        talk.model = model
        texts.append(crash_of(talk.ask()))
    told = "The code is the recorded code: it depends on chance"
    assert [told in text for text in texts] == [True, False]
    talk.model = same_code
    assert talk.ask().failure is None
    assert told in crash_of(talk.ask()), "this object has recorded it"


def test_a_changed_program_that_is_the_recorded_object_differs_by_chance_only() -> None:
    begun: list[int] = []

    async def changes(ctx: ProgramContext, prompt: str) -> object:
        begun.append(1)
        await ctx.call(work, n=len(begun))
        return await ctx.call(work, n=9)

    talk = Talk(model_of(changes))
    talk.reply(*talk.turn().asks)
    assert talk.ask().failure is None
    assert "The code is the recorded code" in crash_of(talk.ask())
    assert len(begun) == 2, "it was executed once more, not twice"


def test_an_argument_that_is_too_deep_for_a_reply_raises_at_its_ask() -> None:
    deep: object = 1
    for _ in range(62):
        deep = [deep]

    async def buries(ctx: ProgramContext, prompt: str) -> object:
        return await ctx.call("work", n=deep)

    failure = model_of(buries).call(request(model_of(buries), [PROMPT]), None).failure  # type: ignore[arg-type]  # it says nothing
    assert failure is not None
    assert failure.message.startswith("InvalidPrompt: The arguments of work at `$.n[0]")


def test_a_request_without_a_prompt_is_a_crash_and_a_model_names_its_program() -> None:
    model = model_of(Counting().three)
    given = model.call(request(model, []), lambda text: None)
    assert crash_of(given) == "the program was asked for a step without a prompt"
    assert repr(model) == "ProgramModel('under_test')"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_program_that_ends_the_process_says_which_one_it_is(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def leaves(ctx: ProgramContext, prompt: str) -> object:
        raise error

    model = model_of(leaves)
    with pytest.raises(type(error)):
        Talk(model, address="host.1").ask()
    (said,) = caplog.messages
    assert said.startswith(f"host.1: {type(error).__name__}")
    assert "in a step of program 'under_test' ends the event loop of this process" in said
    assert model.parked == 0


def test_the_steps_of_a_program_cost_nothing_of_a_limit() -> None:
    spec = model_of(Counting().three).spec
    assert priced(Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000), spec.prices).micro_usd == 0
    assert (spec.name, spec.kind) == ("program:under_test", "program")


def test_a_program_of_no_session_is_not_parked_but_stopped() -> None:
    counting = Counting()
    talk = Talk(model := model_of(counting.three), session="")
    assert talk.turn().asks
    assert (model.parked, counting.begun, counting.ended) == (0, 1, 1)


def test_a_crash_uses_nothing_whatever_the_step_could_have_used() -> None:
    async def broken(ctx: ProgramContext, prompt: str) -> object:
        raise ValueError("no")

    given = Talk(model := model_of(broken)).ask()
    assert (given.usage, given.model) == (Usage(), model.spec.name)
