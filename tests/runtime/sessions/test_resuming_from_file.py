"""Sessions whose process ended at any commit, without closing, resumed from the real file."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from callboard import Agent, Limits, Outcome, Runtime, ScriptedModel, call, calls, fail, say, tool
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CheckSchema,
    ModelReplied,
    SchemaChecked,
    SetTimer,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.models.scripted import Step
from callboard.runtime.schemas.checker import SchemaChecker
from tests.grants import granted_by

NAME = "one"
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}


class CopyingLog(SQLiteLog):
    """A log that is copied after every commit, as it is then."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "log.db")
        self.copies: list[Path] = []
        self.deeds: list[str] = []
        self.done_by: list[list[str]] = []
        self.is_over = False

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        answers = await super().append(batch)
        place = self.path.parent / str(len(self.copies))
        place.mkdir()
        for name in ("log.db", "log.db-wal"):
            shutil.copyfile(self.path.with_name(name), place / name)
        self.copies.append(place / "log.db")
        self.done_by.append(list(self.deeds))
        return answers

    async def pass_by(self) -> None:
        """Wait until all posted events are in the file, so that a copy is made in between."""
        if not self.is_over:
            await asyncio.sleep(0)
            await self.sessions()
            await asyncio.sleep(0)


@dataclass
class Scene:
    """A session: its host, the replies of its models, and the deeds of its tools by label."""

    policy: Callable[[ModelRequest], Step]
    limits: Limits = field(default_factory=Limits)
    schema: dict[str, object] | None = None
    usage: Usage | None = None
    deeds: list[str] = field(default_factory=list)

    def host(self) -> Agent:
        @tool
        async def save(label: str) -> str:
            """Do something."""
            self.deeds.append(label)
            return "saved"

        @tool(effect="read")
        async def wait() -> str:
            """Wait without end."""
            await asyncio.Event().wait()
            raise AssertionError

        child = Agent("child", description="Works.", tools=[save])
        parent = Agent("parent", description="Delegates.", agents=[child], tools=[save])
        late = Agent("late", description="Is late.", tools=[wait], limits=Limits(deadline_s=0.05))
        return Agent("host", agents=[parent, child, late], tools=[save])

    def model(self, log: CopyingLog | None = None) -> ScriptedModel:
        async def slowly(request: ModelRequest) -> Step:
            assert log is not None
            await log.pass_by()
            return self.policy(request)

        return ScriptedModel(slowly if log else self.policy, max_tokens=100, usage=self.usage)


@dataclass
class Left:
    """One resumed copy. before: its events. after: those at the end. deeds: all of them, before and after."""

    before: list[Event]
    after: list[Event]
    outcome: Outcome
    deeds: list[str]

    @property
    def is_doubted(self) -> bool:
        return any(isinstance(e.body, ToolReturned) and e.body.status == "interrupted" for e in self.after)


async def undisturbed(scene: Scene, log: CopyingLog) -> Outcome:
    scene.deeds = log.deeds
    async with Runtime(log, model=scene.model(log), limits=scene.limits) as runtime:
        session = await runtime.open(scene.host(), session_id=NAME)
        outcome = await session.ask("go", output_schema=scene.schema)
        copies = len(log.copies)
        await session.close()
    log.is_over = True
    del log.copies[copies:]
    return outcome


async def resumed(scene: Scene, copy: Path, done_by: list[str]) -> Left:
    before = list(Recording.open(copy, NAME).events)
    scene.deeds = list(done_by)
    async with Runtime(copy, model=scene.model(), limits=scene.limits) as runtime:
        session = await runtime.resume(NAME, scene.host())
        outcome = await session.outcome
        await session.close()
    recording = Recording.open(copy, NAME)
    recording.verify().check()
    assert recording.events[: len(before)] == before
    assert not check_log(recording.events, is_at_rest=True)
    assert max(Counter(scene.deeds).values(), default=0) <= 1, "a write ran twice"
    return Left(before, list(recording.events), outcome, scene.deeds)


def play(scene: Scene, log: CopyingLog) -> tuple[Outcome, list[Left]]:
    """Run a session, resume its copies, and return its outcome and the resumed copies."""

    async def all_of_it() -> tuple[Outcome, list[Left]]:
        outcome = await undisturbed(scene, log)
        pairs = list(zip(log.copies, log.done_by, strict=False))
        left = [await resumed(scene, copy, done) for copy, done in pairs if _was_asked(copy)]
        return outcome, left

    outcome, left = asyncio.run(all_of_it())
    assert len(left) >= 2
    return outcome, left


def _was_asked(copy: Path) -> bool:
    return any(event.kind == "Ask" for event in Recording.open(copy, NAME).events)


def open_requests(events: list[Event], request: type, answer: type) -> int:
    """Count the requests of a kind that have no answer."""
    kinds = [type(event.body) for event in events]
    return kinds.count(request) - kinds.count(answer)


def result(outcome: Outcome) -> tuple[str, str, object]:
    return outcome.kind, outcome.text, outcome.structured_output


def the_same_unless_in_doubt(outcome: Outcome, left: list[Left]) -> None:
    """Check that every copy ends as the undisturbed session did, unless a write was cut off."""
    for one in left:
        if not one.is_doubted:
            assert result(one.outcome) == result(outcome), f"left after {len(one.before)}"


# --- nested delegations -----------------------------------------------------------


def nested(request: ModelRequest) -> Step:
    label = f"{request.address}/{request.turn}"
    below = {"host": "parent", "parent": "child"}.get(request.profile, "")
    if request.turn == 1 and below:
        return calls(call("task", agent=below, prompt="go"), call("save", label=label))
    return call("save", label=label) if request.turn == 1 else say(f"{request.address} is done")


@pytest.mark.slow
def test_nested_delegations_end_as_in_an_undisturbed_session(tmp_path: Path) -> None:
    outcome, left = play(Scene(nested), CopyingLog(tmp_path))
    assert outcome.text == "host is done"
    the_same_unless_in_doubt(outcome, left)
    assert any(one.is_doubted for one in left), "some copies were made while a write ran"
    for one in left:
        if not one.is_doubted:
            assert sorted(one.deeds) == ["host.1.1/1", "host.1/1", "host/1"]


@pytest.mark.slow
def test_a_write_is_in_doubt_only_if_its_start_was_in_the_file(tmp_path: Path) -> None:
    _, left = play(Scene(nested), CopyingLog(tmp_path))
    for one in left:
        started = open_requests(one.before, ToolStarted, ToolReturned)
        doubts = [e for e in one.after if isinstance(e.body, ToolReturned) and e.body.status != "ok"]
        assert len(doubts) == started


# --- races ------------------------------------------------------------------------


def race(request: ModelRequest) -> Step:
    if request.profile == "host":
        task = call("task", agents=["child", "child", "parent"], prompt="go", output_schema=SCHEMA)
        return task if request.turn == 1 else say("over")
    longest = int(request.address[-1])  # host.1 is the first to report, if nothing comes between
    if request.turn <= longest:
        return call("save", label=f"{request.address}/{request.turn}")
    return call("report_back", n=longest)


@pytest.mark.slow
def test_a_race_has_one_winner_after_a_cut_at_any_event(tmp_path: Path) -> None:
    outcome, left = play(Scene(race), CopyingLog(tmp_path))
    assert outcome.text == "over"
    for one in left:
        assert result(one.outcome) == result(outcome)
        (end,) = [e.body for e in one.after if isinstance(e.body, DelegationEnded)]
        assert bytes(end.value) in (b'{"n":1}', b'{"n":2}', b'{"n":3}')
        accepted = [e.recipient for e in one.after if getattr(e.body, "verdict", "") == "accepted"]
        assert len(accepted) == 1


# --- turns that wait --------------------------------------------------------------


def several(request: ModelRequest) -> Step:
    if request.profile == "host" and request.turn == 1:
        return calls(*(call("task", agent="child", prompt=f"{n}") for n in range(4)))
    if request.profile == "child" and request.turn == 1:
        return call("save", label=request.address)
    return say(f"{request.address} is done")


@pytest.mark.slow
def test_turns_that_waited_for_a_slot_get_it(tmp_path: Path) -> None:
    scene = Scene(several, Limits(max_parallel_calls=1))
    outcome, left = play(scene, CopyingLog(tmp_path))
    the_same_unless_in_doubt(outcome, left)
    waiting = [open_requests(one.before, TurnRequested, CallModel) for one in left]
    assert max(waiting) >= 2, "some copies were made while turns waited"
    for one in left:
        in_flight = 0
        for event in one.after:
            in_flight += isinstance(event.body, CallModel) - isinstance(event.body, ModelReplied)
            assert in_flight <= 1


@pytest.mark.slow
def test_a_budget_holds_over_a_resume_with_lost_calls_charged_in_full(tmp_path: Path) -> None:
    limit = 12_000
    scene = Scene(several, Limits(tokens=limit), usage=Usage(input_tokens=300, output_tokens=60))
    outcome, left = play(scene, CopyingLog(tmp_path))
    assert outcome.kind == "answered"
    lost = 0
    for one in left:
        assert one.outcome.kind in ("answered", "budget")
        assert one.outcome.usage.tokens <= limit
        answered = {e.cause for e in one.before if isinstance(e.body, ModelReplied)}
        grants = [(e.seq, e.body) for e in one.before if isinstance(e.body, CallModel)]
        needs = [granted_by(one.before, grant).need.tokens for seq, grant in grants if seq not in answered]
        assert one.outcome.usage.unknown_calls == len(needs)
        assert one.outcome.usage.charged_tokens == sum(needs)
        lost += len(needs)
    assert lost


# --- timers -----------------------------------------------------------------------


def flaky(request: ModelRequest) -> Step:
    if request.turn == 1:
        return call("save", label="once")
    return fail("overloaded_error", retry_after_s=0.02) if request.attempt == 1 else say("at last")


@pytest.mark.slow
def test_a_retry_that_was_waited_for_is_made(tmp_path: Path) -> None:
    outcome, left = play(Scene(flaky), CopyingLog(tmp_path))
    assert outcome.text == "at last"
    the_same_unless_in_doubt(outcome, left)
    assert any(open_requests(one.before, SetTimer, TimerFired) for one in left)


def too_late(request: ModelRequest) -> Step:
    if request.profile == "host":
        return call("task", agent="late", prompt="hurry") if request.turn == 1 else say("it was late")
    return call("wait")


@pytest.mark.slow
def test_a_deadline_that_passed_while_no_process_ran_the_session_ends_its_agent(tmp_path: Path) -> None:
    outcome, left = play(Scene(too_late), CopyingLog(tmp_path))
    the_same_unless_in_doubt(outcome, left)
    for one in left:
        (end,) = [e.body for e in one.after if isinstance(e.body, DelegationEnded)]
        assert end.kind == "deadline"


# --- checks -----------------------------------------------------------------------


def corrected(request: ModelRequest) -> Step:
    return call("report_back", m=1) if request.turn == 1 else call("report_back", n=request.turn)


@pytest.mark.slow
def test_a_check_that_was_cut_off_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, log = SchemaChecker.check, CopyingLog(tmp_path)

    async def slowly(self: SchemaChecker, request: CheckSchema) -> SchemaChecked:
        await log.pass_by()
        answer = check(self, request)
        return answer if isinstance(answer, SchemaChecked) else await answer

    monkeypatch.setattr(SchemaChecker, "check", slowly)
    outcome, left = play(Scene(corrected, schema=SCHEMA), log)
    assert (outcome.kind, outcome.structured_output) == ("reported", {"n": 2})
    the_same_unless_in_doubt(outcome, left)
    assert any(open_requests(one.before, CheckSchema, SchemaChecked) for one in left)


def test_an_idempotent_call_that_is_not_repeated_is_in_doubt_and_not_denied(tmp_path: Path) -> None:
    # It may have run before the crash. The abort of its second run does not change that.
    @tool(effect="idempotent")
    async def put() -> str:
        """Set something."""
        return "set"

    host = Agent("host", tools=[put])

    async def record() -> list[Event]:
        async with Runtime(tmp_path / "whole.db", model=ScriptedModel([call("put"), say("done")])) as runtime:
            await runtime.run(host, "go", session_id=NAME, limits=Limits(deadline_s=60))
        return list(Recording.open(tmp_path / "whole.db", NAME).events)

    async def go_on(events: list[Event]) -> list[Event]:
        path = tmp_path / "cut.db"
        log = SQLiteLog(path)
        await log.open()
        await log.create(NAME, 0, "")
        await log.append([Append(NAME, 0, 1, events)])
        await log.close()
        async with Runtime(path, model=ScriptedModel([call("put"), say("done")])) as runtime:
            session = await runtime.resume(NAME, host)
            await session.cancel("before it can run again")
            await session.close()
        return list(Recording.open(path, NAME).events)

    events = asyncio.run(record())
    asked = next(e.seq for e in events if isinstance(e.body, CallTool))
    after = asyncio.run(go_on(events[:asked]))
    (returned,) = [e.body for e in after if isinstance(e.body, ToolReturned)]
    assert returned.status == "interrupted"
