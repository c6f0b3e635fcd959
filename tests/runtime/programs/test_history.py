"""The earlier runs of a program, as it reads them: in one process, after a restart, and in a replay."""

import asyncio
from pathlib import Path
from typing import Any

from callboard import ProgramContext, Runtime, program
from callboard.actors.protocol.conversation import message, text_json
from callboard.actors.protocol.immutable import Json
from callboard.replay import Recording
from callboard.runtime.programs.asks import Answer
from callboard.runtime.programs.history import (
    EarlierRun,
    RecordedRun,
    answers_from,
    last_run,
    read_step,
    runs_before,
)
from tests.tables import table

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


@table(
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


def test_no_message_is_read_before_the_runs_that_are_wanted() -> None:
    messages, read = [USER, SAID, USER, SAID], list[int]()

    def message(at: int) -> Json:
        read.append(at)
        return messages[at]

    assert len(runs_before(4, message, 1)) == 1
    assert read == [3, 2]


def test_the_place_of_the_last_prompt_is_known() -> None:
    messages = [USER, SAID, USER, SAID]
    run = last_run(len(messages), messages.__getitem__)
    assert run is not None
    assert (run.place, run.number) == (2, 2)


def results(*ids: str) -> Json:
    return message("user", Json(f"[{','.join(map(result, ids))}]".encode()))


def result(number: str) -> str:
    return f'{{"type":"tool_result","tool_use_id":"{number}","content":"at {number}","status":"ok"}}'


def ids_of(answers: tuple[Answer, ...]) -> list[str]:
    return [one.tool_use_id for one in answers]


def read(*messages: Json) -> RecordedRun:
    run = last_run(len(messages), messages.__getitem__)
    assert run is not None
    return run


def test_each_step_has_the_answers_before_it_in_the_order_of_the_log() -> None:
    run = read(USER, SAID, USER, replied(HEAD), results("a"), results("b", "c"), replied(HEAD), results("d"))
    assert [ids_of(step.answers) for step in run.steps] == [[], ["a", "b", "c"]]
    assert ids_of(run.answers) == ["d"]
    assert ids_of(read(USER, replied(HEAD), results("a"), replied(HEAD)).answers) == []


def test_answers_before_the_first_step_belong_to_it_and_those_of_a_prompt_go_to_the_run_before() -> None:
    prompt = '{"type":"text","text":"Go on."}'
    both = message("user", Json(f"[{result('a')},{prompt}]".encode()))
    run = read(USER, replied(HEAD), both, results("b"))
    assert (bytes(run.prompt), run.steps, ids_of(run.answers)) == (f"[{prompt}]".encode(), (), ["b"])
    (step,) = read(USER, results("a"), replied(HEAD)).steps
    assert ids_of(step.answers) == ["a"]


def test_only_answers_can_follow_a_step() -> None:
    messages = [USER, results("a"), results("b"), USER]
    found = answers_from(1, 3, messages.__getitem__)
    assert found is not None
    assert ids_of(found) == ["a", "b"]
    assert answers_from(3, 3, messages.__getitem__) == ()
    assert answers_from(1, 4, messages.__getitem__) is None


def test_a_step_is_read_as_its_asks_and_its_end() -> None:
    ask = '{"type":"tool_use","id":"p1","name":"work","input":{"n":1}}'
    failed = '{"type":"program_failure","text":"No.","kind":"budget"}'
    value = '{"type":"program_result","value":[1]}'
    step = read_step(Json(f"[{HEAD},{ask},{ask}]".encode()))
    assert [(one.id, one.name, bytes(one.input)) for one in step.asks] == [("p1", "work", b'{"n":1}')] * 2
    assert (step.head.run, step.ending) == ("1-a", None)
    ending = read_step(Json(f"[{HEAD},{failed}]".encode())).ending
    assert ending is not None
    assert (ending.text, ending.failure, ending.value) == ("No.", "budget", None)
    ending = read_step(Json(f'[{HEAD},{{"type":"text","text":"[1]"}},{value}]'.encode())).ending
    assert ending is not None
    assert (ending.text, ending.failure, ending.value) == ("[1]", None, Json(b"[1]"))
