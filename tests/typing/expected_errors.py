# pyright: strict
"""Uses of callboard that a type checker refuses, each with the errors of mypy and of pyright.

Both are strict and report an `ignore` that hides no error: mypy in its normal run, pyright in
`test_with_pyright.py`. So each marked line must have its error, and no other line may have one. The file is
never run.
"""

from typing import Any

from callboard import (
    Agent,
    Limits,
    ModelRequest,
    Policy,
    ProgramContext,
    Reply,
    Runtime,
    ScriptedModel,
    Session,
    ToolContext,
    program,
    say,
    tool,
)


class Shop:
    """The deps of the tools below."""

    owner = "Ada"


@tool(effect="read")
def count(text: str, most: int = 9) -> int:
    """Count."""
    return min(len(text), most)


@tool(effect="read")
async def fetch(path: str) -> bytes:
    """Fetch."""
    return path.encode()


@tool(effect="read")
def owner(ctx: ToolContext[Shop], title: str) -> str:
    """Name the owner."""
    return ctx.deps  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


@tool(effect="read")
def price(name: str, ctx: ToolContext[Shop]) -> int:
    """Return a price."""
    return len(name) + len(ctx.deps.owner)


numbers = Agent("numbers", output_schema=int)
clerk = Agent[Shop]("clerk", tools=[owner, price])
typed: Agent[Shop, int] = Agent("typed", output_schema=int)
wrong: Agent[Shop, str] = Agent("wrong", output_schema=int)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
Agent[Shop, str]("wrong", output_schema=int)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Agent("host", agents=[numbers, clerk, typed])
Agent("host", agents=["numbers"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


async def outcomes(runtime: Runtime, session: Session[Shop, int]) -> None:
    number: int = (await runtime.run(numbers, "go")).unwrap()
    text: str = (await runtime.run(numbers, "go")).unwrap()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    words: str = (await runtime.run(numbers, "go", output_schema=str)).unwrap()
    await runtime.run(clerk, "go", deps=Shop(), tags=["a"])
    await runtime.run(clerk, "go", deps=number)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    runtime.run_sync(typed, "go", deps=words)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await runtime.run(clerk, "go", tag=["a"])  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    other = await runtime.open(typed)
    number = (await other.ask("go", deps=Shop())).unwrap()
    text = (await other.ask("go")).unwrap()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    await other.ask("go", deps=text)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await session.submit("go", deps=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await runtime.resume("id", clerk, deps=3)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


@program(tools=[count, fetch, owner, price], agents=[numbers])
async def host(ctx: ProgramContext, prompt: str) -> int:
    total = await ctx.call(count, text=prompt, most=3)
    await ctx.call(count, txt=prompt)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue]
    await ctx.call(count, text=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    number: int = await ctx.call(fetch, path=prompt)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    await ctx.call(fetch, prompt, 3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await ctx.call(owner, title=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await ctx.call(owner, title=prompt)
    total += await ctx.call(price, name=prompt)
    text: str = await ctx.delegate(numbers, prompt)
    number = await ctx.delegate(numbers, prompt)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    total += await ctx.delegate(numbers, prompt, schema=int)
    text = await ctx.delegate(numbers, prompt, schema=int)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    text = await ctx.ask_model(prompt, schema=list[str])  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    print(text, number, total)
    return prompt  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


@program(schema=int)
async def returns_its_schema(ctx: ProgramContext, prompt: str) -> int:
    return len(prompt)


@program(schema=int)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
async def returns_another_type(ctx: ProgramContext, prompt: str) -> str:
    return prompt


@program  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
def returns_no_coroutine(ctx: ProgramContext, prompt: str) -> str:
    return prompt


def greets(request: ModelRequest) -> Reply | str:
    return say("hello") if request.turn > 1 else "hello"


def counts(request: ModelRequest) -> int:
    return request.turn


Limits(tokens=3, max_depth=1)
Limits(tokens="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Limits(token=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
policy: Policy = greets
other_policy: Policy = counts  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
ScriptedModel(greets)
ScriptedModel(counts)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def unchecked(request: Any) -> Any:
    return request.anything
