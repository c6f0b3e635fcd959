"""The earlier runs of a program, as it reads them: in one process, after a restart, and in a replay."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callboard import ProgramContext, Runtime, program
from callboard.actors.protocol.conversation import message, text_json
from callboard.actors.protocol.immutable import Json
from callboard.replay import Recording
from callboard.runtime.programs.history import EarlierRun, last_run, runs_before

USER = message("user", text_json("Go."))


@program
async def counting(ctx: ProgramContext, prompt: str) -> dict[str, object]:
    """Return the prompts and results of the last two runs."""
    await ctx.sleep(0.001)
    if prompt == "Fail.":
        raise ValueError(prompt)
    return {"asked": prompt, "before": [[one.prompt, one.value["asked"]] for one in ctx.earlier(2)]}


def test_a_program_reads_the_last_runs_that_returned_also_after_a_restart(tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async def asks(session_id: str, *prompts: str) -> tuple[str, list[object]]:
        async with Runtime(log) as runtime:
            session = await (runtime.resume(session_id, counting) if session_id else runtime.open(counting))
            found = []
            for prompt in prompts:
                outcome = await session.ask(prompt)
                value: Any = outcome.unwrap() if outcome.is_ok else {"before": outcome.kind}
                found.append(value["before"])
            return session.session_id, found

    session_id, first = asyncio.run(asks("", "a", "Fail.", "b"))
    assert first == [[], "crashed", [["a", "a"]]]
    _, second = asyncio.run(asks(session_id, "c", "d"))
    assert second == [[["a", "a"], ["b", "b"]], [["b", "b"], ["c", "c"]]]
    with Recording.open(log, session_id) as recording:
        assert recording.verify().is_ok


def replied(*blocks: str) -> Json:
    return message("assistant", Json(f"[{','.join(blocks)}]".encode()))


HEAD = '{"type":"program_step","run":"1-a","step":1,"at":1,"wake":null,"cancels":[],"marks":{}}'
SAID = replied(HEAD, '{"type":"text","text":"Done."}')


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([], ()),
        ([USER, SAID], (EarlierRun("Go.", "Done."),)),
        ([USER, SAID, USER, SAID, USER, SAID], (EarlierRun("Go.", "Done."),) * 2),
        ([USER, replied(HEAD)], ()),
        ([USER, replied('{"type":"thinking","thinking":"x"}'), USER, SAID], (EarlierRun("Go.", "Done."),)),
    ],
)
def test_only_runs_that_returned_are_read_and_those_of_a_model_end_the_reading(
    messages: list[Json], found: tuple[EarlierRun, ...]
) -> None:
    assert runs_before(len(messages), messages.__getitem__, 2) == found


def test_the_place_of_the_last_prompt_is_known() -> None:
    messages = [USER, SAID, USER, SAID]
    run = last_run(len(messages), messages.__getitem__)
    assert run is not None
    assert (run.place, run.number) == (2, 2)
