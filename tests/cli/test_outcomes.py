"""Outcomes as the command line shows them: failures below an ok are in the first line."""

import asyncio
from pathlib import Path

from callboard import Agent, Limits, Outcome, Reply, Runtime, ScriptedModel, call, say
from callboard.cli.outcomes import summary
from callboard.models import ModelFailure


def outcome_with(*kids: object, folder: Path) -> Outcome:
    """Run a host that delegates once for each kid's script, and then answers."""
    names = [f"kid{number}" for number in range(len(kids))]
    tasks = tuple(call("task", agent=name, prompt="go") for name in names)
    host: list[object] = [Reply(calls=tasks), say("done all the same")]
    script = {"host": host, **{name: [kid] for name, kid in zip(names, kids, strict=True)}}
    agents = [Agent(name, limits=Limits(max_model_attempts=1)) for name in names]

    async def main() -> Outcome:
        async with Runtime(folder / "log.db", model=ScriptedModel(script)) as runtime:  # type: ignore[arg-type]  # its values are scripts
            return await runtime.run(Agent("host", agents=agents), "go")

    return asyncio.run(main())


FAILURE = ModelFailure("overloaded", "try later")


def test_what_failed_below_an_ok_is_named_in_the_first_line(tmp_path: Path) -> None:
    first = summary(outcome_with(FAILURE, say("fine"), folder=tmp_path), "log.db", 5).splitlines()[0]
    assert first == "ok: answered in text; below it 1 of 2 delegations failed: kid0 (model_error)"


def test_an_ok_without_failures_says_nothing_of_them(tmp_path: Path) -> None:
    first = summary(outcome_with(say("fine"), folder=tmp_path), "log.db", 5).splitlines()[0]
    assert first == "ok: answered in text"


def test_many_failures_are_counted(tmp_path: Path) -> None:
    first = summary(outcome_with(*[FAILURE] * 7, folder=tmp_path), "log.db", 5).splitlines()[0]
    assert "below it 7 of 7 delegations failed: kid0 (model_error)" in first
    assert first.endswith(", 2 more")
