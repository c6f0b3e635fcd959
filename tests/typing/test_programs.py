"""The types that programs see: of delegations, calls, questions, and of the program itself."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, assert_type

from callboard import Agent, Program, ProgramContext, Tool, ToolContext, program, tool
from callboard.errors import AskFailed, CallFailed, DelegationFailed, Interrupted, NotApproved


@dataclass
class Verdict:
    """A typed result."""

    score: int


@tool(effect="read")
def count(path: str, ctx: ToolContext) -> int:
    """Count."""
    return len(path)


@tool(effect="read")
async def judge(text: str) -> Verdict:
    """Judge."""
    return Verdict(len(text))


plain = Tool("plain", "Plain.", {"type": "object"}, lambda arguments: "")
reader = Agent("reader")


@program(tools=[count, judge, plain], agents=[reader])
async def typed(ctx: ProgramContext, prompt: str) -> Verdict:
    assert_type(await ctx.delegate(reader, prompt), str)
    assert_type(await ctx.delegate(reader, prompt, schema=Verdict), Verdict)
    assert_type(await ctx.delegate([reader, reader], prompt, schema=list[int]), list[int])
    assert_type(await ctx.delegate(reader, prompt, schema={"type": "object"}), Any)
    assert_type(await ctx.call(count, path="a"), int)
    assert_type(await ctx.call(judge, text="a"), Verdict)
    assert_type(await ctx.call("plain"), object)
    assert_type(await ctx.ask_model("a"), str)
    assert_type(await ctx.ask_model("a", schema=Verdict), Verdict)
    both = await asyncio.gather(ctx.call(count, path="a"), ctx.delegate(reader, "b", schema=Verdict))
    assert_type(both, tuple[int, Verdict])
    return both[1]


@program
async def bare(ctx: ProgramContext, prompt: str) -> str:
    return prompt


def of_another_program(ctx: ProgramContext) -> Coroutine[object, None, Verdict]:
    return assert_type(typed(ctx, "a"), Coroutine[object, None, Verdict])


def test_a_program_keeps_the_type_of_its_function() -> None:
    assert_type(typed, Program[Verdict])
    assert_type(bare, Program[str])
    assert isinstance(typed, Agent)


def test_errors_of_asks_have_one_base_and_their_words() -> None:
    kinds: list[type[AskFailed]] = [CallFailed, Interrupted, NotApproved, DelegationFailed]
    for kind in kinds:
        assert_type(kind("why", "words").text, str)
        assert kind("why", "words").text == "words"
    assert_type(DelegationFailed("why", kind="budget").kind, str)
    assert not issubclass(Interrupted, CallFailed), "an unknown effect is no failure that may be repeated"
