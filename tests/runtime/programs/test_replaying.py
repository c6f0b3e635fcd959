"""Recorded runs are executed again: what differs, in which words, and whether it is chance."""

from collections.abc import Iterator
from random import Random
from typing import Any, cast

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs.asks import Ask, Ending, Head, Step, run_name
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.history import RecordedRun, last_run
from callboard.runtime.programs.replaying import (
    CheckStopped,
    ProgramDiverged,
    difference,
    divergence,
    excerpts,
    executed_again,
    repeat,
    what_of,
)
from callboard.runtime.programs.run import ProgramRun
from tests.runtime.programs.kit import Function, conversation, main_of, played, started, work
from tests.tables import table


def recorded(function: Function) -> RecordedRun:
    said = conversation(played(started(function), Random(1)))
    found = last_run(len(said), said.__getitem__)
    assert found is not None
    return found


async def twice(ctx: ProgramContext, prompt: str) -> object:
    first = await ctx.call(work, n=1)
    return [first, await ctx.call(work, n=2)]


async def another(ctx: ProgramContext, prompt: str) -> object:
    first = await ctx.call(work, n=1)
    return [first, await ctx.call(work, n=3)]


async def returns_early(ctx: ProgramContext, prompt: str) -> object:
    return await ctx.call(work, n=1)


async def raises(ctx: ProgramContext, prompt: str) -> object:
    await ctx.call(work, n=1)
    raise ValueError("no")


async def exits(ctx: ProgramContext, prompt: str) -> object:
    await ctx.call(work, n=1)
    raise SystemExit("out")


async def stops(ctx: ProgramContext, prompt: str) -> object:
    raise CheckStopped


RUN = run_name(1, "s", "host")


def test_the_same_program_does_the_same() -> None:
    run = recorded(twice)
    assert divergence(main_of(twice), RUN, run) is None
    again = executed_again(main_of(twice), "another name", run)
    assert again.steps == len(run.steps) == 3


def test_a_run_without_steps_has_the_name_that_it_is_given() -> None:
    run = replace(recorded(twice), steps=())
    assert executed_again(main_of(twice), "named", run).steps == 0


@pytest.mark.parametrize(
    ("function", "step", "was", "now"),
    [
        (another, 2, 'asked work({"n":2})', 'asked work({"n":3})'),
        (returns_early, 2, "asked work", "asked nothing else"),
        (raises, 2, "asked work", "failed|crashed"),
        (exits, 2, "asked work", "raised SystemExit"),
    ],
)
def test_the_first_step_that_differs_is_told_in_words(
    function: Function, step: int, was: str, now: str
) -> None:
    found = divergence(main_of(function), RUN, recorded(twice))
    assert found is not None
    assert (found.step, found.by_chance) == (step, False)
    assert was.split("(")[0] in found.recorded
    assert any(one in found.now for one in now.split("|")), found.now
    assert str(step) in str(found)


def test_a_program_that_does_two_things_differs_by_chance() -> None:
    ways: Iterator[Function] = iter([another, returns_early, another, twice])

    def of_chance(run: Any) -> Any:
        return main_of(next(ways))(run)

    first = divergence(of_chance, RUN, recorded(twice))
    assert first is not None
    assert first.by_chance
    second = divergence(of_chance, RUN, recorded(twice))
    assert second is not None
    assert second.by_chance, "the second execution did as recorded"


def test_the_end_of_the_time_of_a_check_is_no_difference() -> None:
    with pytest.raises(CheckStopped):
        divergence(main_of(stops), RUN, recorded(twice))


def test_an_execution_that_differs_raises_and_stops_its_run() -> None:
    ended: list[str] = []

    async def cleans_up(ctx: ProgramContext, prompt: str) -> object:
        try:
            await ctx.call(work, n=1)
            return await ctx.call(work, n=9)
        finally:
            ended.append("finally")

    with pytest.raises(ProgramDiverged) as info:
        executed_again(main_of(cleans_up), RUN, recorded(twice))
    assert info.value.step == 2
    assert ended == ["finally"]


# --- steps side by side ------------------------------------------------------------------------------


def ask(name: str, n: int = 1) -> Ask:
    return Ask(f"{name}-{n}", name, Json(b'{"n":%d}' % n))


def step(*asks: Ask, cancels: tuple[str, ...] = (), ending: Ending | None = None) -> Step:
    return Step(Head(RUN, 1, 0, None, cancels, {}), asks, ending)


def test_equal_steps_have_no_difference_in_any_order() -> None:
    assert difference(step(ask("a"), ask("b")), step(ask("b"), ask("a"))) is None


def test_only_the_asks_that_differ_are_told() -> None:
    found = difference(step(ask("a"), ask("b")), step(ask("a"), ask("c")))
    assert found is not None
    assert "b" in found[0]
    assert "c" in found[1]
    assert "asked a" not in found[0] + found[1]
    assert difference(step(ask("a")), step()) == (f"asked {ask('a')}", "asked nothing else")
    assert difference(step(), step(ask("a"))) == ("asked nothing else", f"asked {ask('a')}")


def test_an_ask_that_is_made_twice_is_not_one_that_is_made_once() -> None:
    assert difference(step(ask("a"), ask("a")), step(ask("a"))) is not None


def test_asks_that_are_given_up_are_compared() -> None:
    found = difference(step(cancels=("a", "b")), step(cancels=("b", "c")))
    assert found == ("gave up a", "gave up c")
    assert difference(step(cancels=("b", "a")), step()) == ("gave up a, gave up b", "gave up nothing else")


def test_endings_are_compared_last() -> None:
    found = difference(step(ending=Ending("yes")), step())
    assert found == ("returned 'yes'", "went on")
    assert difference(step(), step(ending=Ending("no", failure="failed"))) == (
        "went on",
        "failed (failed) with 'no'",
    )
    assert difference(step(ending=Ending("yes")), step(ending=Ending("yes"))) is None


def test_a_step_in_words_is_its_asks_or_its_end() -> None:
    assert what_of(step(ask("a"), ask("b"))) == f"asked {ask('a')}, asked {ask('b')}"
    assert what_of(step(ending=Ending("yes"))) == "returned 'yes'"
    assert what_of(step()) == "asked nothing else"


def test_many_asks_are_cut_and_counted() -> None:
    told = what_of(step(*[ask("a", n) for n in range(9)]))
    assert told.endswith("more")
    assert told.count("asked a") + int(told.split("and ")[1].split()[0]) == 9


@table(
    ("one", "other"),
    [
        ("x" * 200, "x" * 150 + "y" * 50),
        ("short", "shirt"),
        ("x" * 59 + "a", "x" * 59 + "b"),
        ("", "z" * 100),
        ("same" * 50, "same" * 50),
    ],
)
def test_excerpts_show_the_first_place_that_differs(one: str, other: str) -> None:
    shown = excerpts(one, other)
    assert excerpts("", "z" * 100) == ("", "z" * 60 + "...")
    for text, short in zip((one, other), shown, strict=True):
        assert short.strip(".") in text
        assert len(short) <= 66
    if one != other:
        assert shown[0] != shown[1]
    if max(len(one), len(other)) <= 60:
        assert shown == (one, other)


def test_a_recorded_step_has_its_own_time_its_marks_and_what_it_left_out() -> None:
    run = recorded(twice)
    asked: list[Any] = []

    class Steps:
        def step(self, *given: Any, **more: Any) -> Any:
            asked.append((given[:3], more))
            return run.steps[0].step

    one = run.steps[0]
    changed = replace(one, step=replace(one.step, head=replace(one.step.head, left_out_ms=7)))
    repeat(cast("ProgramRun", Steps()), changed)
    head = changed.step.head
    assert asked == [((changed.answers, head.at, head.marks), {"left_out_ms": 7})]


def test_excerpts_begin_shortly_before_the_first_difference_of_long_texts() -> None:
    assert excerpts("short", "other") == ("short", "other")
    assert excerpts("", "x" * 99)[0] == ""
    one, other = "a" * 100 + "x" + "b" * 100, "a" * 100 + "y" + "b" * 100
    first, second = excerpts(one, other)
    assert "x" in first
    assert "y" in second
    assert excerpts("x" + one, "y" + other)[0].startswith("x")
    assert excerpts(one, "a" * 50)[0] != excerpts(one, other)[0], "one of them is long"
