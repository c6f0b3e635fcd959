"""The ends that programs choose themselves, in memory and in sessions; the number of their questions."""

import asyncio
from typing import Any

import msgspec
import pytest

from callboard import Limits, Runtime, ScriptedModel, program
from callboard.actors.protocol.immutable import Json
from callboard.errors import DelegationFailed, MisuseError
from callboard.runtime.programs.asks import (
    Ask,
    Ending,
    ProgramFailed,
    Step,
    ask_id,
    ask_key,
    number_of,
    run_name,
    salt_of,
    text_of_blocks,
)
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.history import read_step
from callboard.runtime.programs.run import ProgramCrashed
from tests.runtime.programs.kit import T0, started
from tests.tables import table


async def gives_up(ctx: ProgramContext, prompt: str) -> str:
    raise ctx.fail("no source is left", kind="no_report")


def test_a_program_fails_with_its_reason_and_kind() -> None:
    step = started(gives_up).step((), T0)
    assert step.ending == Ending("no source is left", failure="no_report")
    assert read_step(step.content()) == step


def test_a_failure_in_a_task_group_is_the_end_unless_an_error_of_the_code_is_beside_it() -> None:
    async def together(ctx: ProgramContext, prompt: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(gives_up(ctx, prompt))

    async def beside(ctx: ProgramContext, prompt: str) -> None:
        raise ExceptionGroup("both", [ctx.fail("no"), ValueError("a defect")])

    assert started(together).step((), T0).ending == Ending("no source is left", failure="no_report")
    with pytest.raises(ProgramCrashed, match="a defect"):
        started(beside).step((), T0)


def test_a_long_reason_is_cut_and_cleaned() -> None:
    async def long(ctx: ProgramContext, prompt: str) -> None:
        raise ctx.fail("\ud800" + "x" * 20_000)

    ending = started(long).step((), T0).ending
    assert ending is not None
    assert len(ending.text) == 10_000
    assert ending.text.encode()


@pytest.mark.parametrize("wrong", [{"text": " "}, {"text": 3}, {"text": "no", "kind": "answered"}])
def test_a_failure_needs_a_reason_and_one_of_its_kinds(wrong: dict[str, Any]) -> None:
    async def fails(ctx: ProgramContext, prompt: str) -> str:
        with pytest.raises(MisuseError):
            ctx.fail(**wrong)
        return "refused"

    assert started(fails).step((), T0).ending == Ending("refused")


def test_the_error_says_its_reason_and_kind() -> None:
    error = ProgramFailed("no", "failed")
    assert (str(error), error.kind) == ("no", "failed")


def test_a_session_puts_no_more_questions_than_its_limits_say() -> None:
    asked = 0

    def answer(request: object) -> str:
        nonlocal asked
        asked += 1
        return "yes"

    @program
    async def curious(ctx: ProgramContext, prompt: str) -> str:
        for at in range(20):
            try:
                await ctx.ask_model(f"question {at}")
            except DelegationFailed as error:
                return f"{at} answers, then {error.kind}"
        return "all"

    async def run() -> None:
        async with Runtime(":memory:", model=ScriptedModel(answer)) as runtime:
            outcome = await runtime.run(curious, "go", limits=Limits(max_iterations=3))
            assert (outcome.kind, outcome.text, asked) == (
                "iteration_cap",
                "3 answers, then iteration_cap",
                3,
            )
            assert (await runtime.run(curious, "go")).text == "all"

    asyncio.run(run())


def test_a_session_of_a_program_that_fails_or_is_refused_ends_so() -> None:
    host = program(gives_up)

    @program
    async def swallows(ctx: ProgramContext, prompt: str) -> str:
        try:
            return await ctx.ask_model("a question")
        except DelegationFailed:
            return "partial"

    async def run() -> None:
        async with Runtime(":memory:", model=ScriptedModel(lambda request: "yes")) as runtime:
            outcome = await runtime.run(host, "go")
            assert (outcome.kind, outcome.detail, outcome.status) == (
                "no_report",
                "no source is left",
                "failed",
            )
            outcome = await runtime.run(swallows, "go", limits=Limits(tokens=50))
            assert (outcome.kind, outcome.text) == ("budget", "partial")

    asyncio.run(run())


@table(("run", "number"), [("3-ab12", 3), ("12", 12), ("x-1", 0), ("", 0), ("-1", 0)])
def test_the_number_of_a_run_stands_in_its_name(run: str, number: int) -> None:
    assert number_of(run) == number
    assert number_of(run_name(7, "s", "host")) == 7


def test_the_salt_of_a_run_is_of_its_session_agent_and_number() -> None:
    salts = {salt_of(run_name(*one)) for one in ((1, "s", "host"), (2, "s", "host"), (1, "t", "host"))}
    assert len(salts | {salt_of(run_name(1, "s", "host.1"))}) == 4
    assert max(salts) < 2**28
    assert salt_of("3") == 0


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"null", ""),
        (b'"go"', "go"),
        (b'[{"type":"text","text":"a"},{"type":"image","text":"x"},{"type":"text","text":"b"}]', "a\nb"),
        (b"[]", ""),
    ],
)
def test_the_text_of_a_prompt_is_that_of_its_text_blocks(content: bytes, text: str) -> None:
    assert text_of_blocks(Json(content)) == text


def test_an_ask_in_words_is_its_name_and_its_input() -> None:
    assert str(Ask("p1", "work", Json(b'{"n":1}'))) == 'work({"n":1})'


def test_the_ids_of_a_known_ask_stay_the_same() -> None:
    """A recorded session is executed again by them."""
    assert run_name(1, "s", "host") == "1-6a72abf3837a"
    assert ask_id(ask_key(1, "work", Json(b'{"n":1}')), 2) == "p0b405b22698e_2"


def test_an_end_is_written_as_its_text_and_its_value_or_as_a_failure() -> None:
    head = started(gives_up).step((), T0).head
    for ending, kinds in (
        (Ending("1"), ["text"]),
        (Ending("1", Json(b"1")), ["text", "program_result"]),
        (Ending("no", failure="budget"), ["program_failure"]),
    ):
        step = Step(head, (), ending)
        blocks = msgspec.json.decode(step.content(), type=list[dict[str, Any]])
        assert [one["type"] for one in blocks[1:]] == kinds
        assert read_step(step.content()) == step
        assert ending.size == len(msgspec.json.encode(blocks[1:]))
