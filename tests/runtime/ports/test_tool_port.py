"""The tools port: what a tool gets, what its answer says, and a reply with ten thousand calls."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from callboard import (
    Agent,
    ApprovalAnswer,
    Files,
    Limits,
    Runtime,
    ScriptedModel,
    SharedKey,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.protocol import prompts
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import CallTool, RequestApproval, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.telemetry import Telemetry
from callboard.actors.protocol.value_types import CacheRequest, InputAsked
from callboard.errors import SessionDetached
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Reply
from callboard.runtime.ports.tool_port import Freshness, completed, of_hit
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.stream_items import ToolProgress
from callboard.runtime.tools.context import LateContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.input_forms import InputNeeded
from callboard.runtime.tools.tool import Tool
from tests.steps import counting
from tests.waiting import until

NAME = "one"


def events_of(log: MemoryLog) -> list[Event]:
    recording = Recording.open(MemoryReader(log), NAME)
    recording.verify().check()
    return list(recording.events)


def answers(events: list[Event]) -> list[tuple[str, Any]]:
    """Return the status and the decoded output of each answer of a tool."""
    bodies = [event.body for event in events if isinstance(event.body, ToolReturned)]
    return [(body.status, msgspec.json.decode(body.output)) for body in bodies]


def recorded(host: Agent, *steps: Any, **options: Any) -> list[Event]:
    """Return the events of an ask with these steps of its host; a kid looks once. options: of the runtime."""

    def policy(request: ModelRequest) -> Any:
        if request.address == "host":
            return [*steps, say("done")][request.turn - 1]
        return call("look") if request.turn == 1 else say("kid is done")

    async def inside() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy), **options) as runtime:
            assert (await runtime.run(host, "go", session_id=NAME)).text == "done"
        return log

    return events_of(asyncio.run(asyncio.wait_for(inside(), 20)))


def gone_on(events: list[Event], host: Agent, **options: Any) -> list[Event]:
    """Return the events of a session that another process takes over before its last answer of a tool."""
    cut = max(event.seq for event in events if isinstance(event.body, ToolReturned)) - 1

    async def inside() -> MemoryLog:
        log = MemoryLog()
        await log.open()
        await log.create(NAME, 0, "")
        await log.append([Append(NAME, 0, 1, events[:cut])])
        await log.close()
        async with (
            Runtime(log, model=ScriptedModel(lambda _: say("done")), **options) as runtime,
            runtime.resume(NAME, host) as session,
        ):
            assert (await session.outcome).text == "done"
        return log

    return events_of(asyncio.run(asyncio.wait_for(inside(), 20)))


# --- the context of a call --------------------------------------------------------


def test_a_call_gets_the_context_of_its_agent_its_place_and_its_session(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = []
    (tmp_path / "note").write_text("words")

    @tool(effect="read", labels=["mail"])
    async def look(ctx: ToolContext) -> str:
        """Look."""
        names = ("address", "session_id", "tool", "call_id", "idempotency_key", "profile", "labels")
        given = {name: getattr(ctx, name) for name in (*names, "tool_labels", "deps", "given", "rights")}
        found.append({**given, "secret": ctx.secret("KEY"), "note": ctx.files.read_text("note")})
        ctx.checkpoint(f"seen-{len(found)}")
        return "seen"

    kid = Agent("kid", description="Looks.", tools=[look])
    host = Agent("host", tools=[look], agents=[kid])
    deps = object()
    events = recorded(
        host,
        calls(call("look"), call("look")),
        call("task", agent="kid", prompt="go"),
        deps=deps,
        secrets={"KEY": "a-secret-value"},
        files=Files(tmp_path, files_label="files"),
    )
    made = [(event.sender, event.body) for event in events if isinstance(event.body, CallTool)]
    assert [sender for sender, _ in made] == ["host", "host", "host.1"]
    assert found == [
        {
            "address": sender,
            "session_id": NAME,
            "tool": "look",
            "call_id": body.id,
            "idempotency_key": f"{NAME}/{sender}/1/{number}",
            "profile": profile,
            "labels": labels,
            "tool_labels": ("mail",),
            "deps": deps,
            "given": None,
            "rights": (),
            "secret": "a-secret-value",
            "note": "words",
        }
        for (sender, body), profile, number, labels in zip(
            made, ("host", "host", "kid"), (0, 1, 0), ((), (), ("files", "mail")), strict=True
        )
    ]
    returned = [event.body for event in events if isinstance(event.body, ToolReturned)]
    assert [body.checkpoints for body in returned] == [("seen-1",), ("seen-2",), ("seen-3",)]
    assert {use.name for body in returned for use in body.uses} == {"KEY", "note"}


@pytest.mark.parametrize("fails", [False, True], ids=["ok", "error"])
def test_the_changes_of_a_call_that_fails_are_dropped_and_its_reads_and_uses_kept(fails: bool) -> None:
    @tool(effect="read")
    def act(ctx: ToolContext) -> str:
        """Act."""
        ctx.secret("KEY")
        ctx.update_state("count", ctx.state["count"] + 2)
        ctx.set_tools(["act", "other"])
        ctx.checkpoint("acted")
        if fails:
            raise ValueError("no")
        return "acted"

    @tool(effect="read")
    def other() -> str:
        """Do nothing."""
        return ""

    host = Agent("host", tools=[act], later_tools=[other], state={"count": SharedKey("add")})
    events = recorded(host, call("act"), secrets={"KEY": "a-secret-value"})
    (body,) = [event.body for event in events if isinstance(event.body, ToolReturned)]
    assert [(use.entry, use.name) for use in body.uses] == [("secrets", "KEY")]
    assert list(body.state_read) == ["count"]
    updates = [(update.key, bytes(update.value)) for update in body.state_update]
    tools = [spec.name for spec in body.tools.tools] if body.tools else []
    expected: tuple[Any, ...] = ([("count", b"2")], ["act", "other"], ("acted",), "ok")
    assert (updates, tools, body.checkpoints, body.status) == (([], [], (), "error") if fails else expected)


# --- calls that no tool can answer ------------------------------------------------


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


def made() -> Agent:
    """Make a host, as a factory."""
    return Agent("host", tools=[look])


def test_a_call_of_an_agent_whose_factory_fails_in_the_next_process_is_an_error_without_secrets() -> None:
    ready = True

    def make() -> Agent:
        if not ready:
            raise OSError("no place with a-secret-value")
        return made()

    host = Agent.made_by(make)
    events = recorded(host, call("look"))
    ready = False
    found = answers(gone_on(events, host, secrets={"KEY": "a-secret-value"}))
    assert found == [("error", "host could not be made again: OSError: no place with [secret:KEY]")]


def test_a_call_of_a_tool_that_the_next_process_lacks_is_an_error_that_names_it() -> None:
    events = recorded(made(), call("look"))
    found = answers(gone_on(events, Agent("host"), on_agents_changed="next_ask"))
    assert found == [("error", "there is no tool 'look' in this program")]


def test_work_that_ends_outside_of_its_tool_is_an_error_result(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        await asyncio.sleep(0)
        raise LookupError("gone")

    monkeypatch.setattr(ToolRunner, "run", lambda *_, **__: broken())
    assert answers(recorded(made(), call("look"))) == [("error", "look ended with LookupError")]


def test_arguments_that_do_not_fit_are_answered_without_a_run() -> None:
    (found,) = answers(recorded(made(), call("look", place=1)))
    assert found[0] == "error"
    assert "place" in found[1]


def test_a_tool_sets_tools_of_its_own_profile_by_name_and_of_no_other() -> None:
    @tool(effect="read")
    def narrow(ctx: ToolContext) -> str:
        """Set a tool of the kid."""
        ctx.set_tools(["look"])
        return "set"

    kid = Agent("kid", description="Looks.", tools=[look])
    (found,) = answers(recorded(Agent("host", tools=[narrow], agents=[kid]), call("narrow")))
    assert found[0] == "error"
    assert "there is no tool 'look'; there are: narrow" in found[1]


# --- calls under way --------------------------------------------------------------


@pytest.mark.parametrize(("effect", "status"), [("read", "cancelled"), ("write", "interrupted")])
def test_a_cancel_ends_a_call_under_way_after_its_progress_was_shown(effect: Effect, status: str) -> None:
    began = asyncio.Event()
    ended: list[str] = []

    @tool(effect=effect)
    async def wait(ctx: ToolContext) -> None:
        """Wait."""
        ctx.progress("half")
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def inside() -> MemoryLog:
        log, host = MemoryLog(), Agent("host", tools=[look, wait])
        model = ScriptedModel(lambda _: calls(call("look"), call("wait")))
        async with Runtime(log, model=model) as runtime, runtime.open(host, session_id=NAME) as session:
            shown = session.progress()
            asking = asyncio.ensure_future(session.ask("go"))
            assert await anext(shown) == ToolProgress("host", 1, 1, "half")
            await began.wait()
            await session.cancel()
            assert (await asking).kind == "cancelled"
        return log

    events = events_of(asyncio.run(asyncio.wait_for(inside(), 20)))
    bodies = [event.body for event in events if isinstance(event.body, ToolReturned)]
    assert [(body.call, body.status) for body in bodies] == [(0, "ok"), (1, status)]
    assert ended == ["cancelled"]


# --- input that a person gave in an earlier process -------------------------------


@pytest.mark.parametrize("is_secret", [False, True], ids=["plain", "secret"])
def test_input_is_asked_for_again_only_if_it_was_secret_and_its_process_has_ended(is_secret: bool) -> None:
    field = {"type": "string", **({"format": "password"} if is_secret else {})}
    schema = {"type": "object", "properties": {"word": field}}
    forms = Json(msgspec.json.encode({"login": {"message": "Say it.", "schema": schema}}))
    got: list[Any] = []

    @tool(effect="read")
    def enter(ctx: ToolContext) -> str:
        """Enter."""
        if ctx.given is None:
            raise InputNeeded("it asks", InputAsked(forms, kept="note"))
        got.append(msgspec.json.decode(ctx.given.values))
        return "entered"

    host = Agent("host", tools=[enter])

    def answer(_: object) -> ApprovalAnswer:
        return ApprovalAnswer(True, values={"word": "open-sesame"})

    events = recorded(host, call("enter"), approve=answer)
    first = [status for status, _ in answers(events)]
    found = gone_on(events, host, approve=answer)
    asked = [event.body for event in found if isinstance(event.body, RequestApproval)]
    assert first == ["input_required", "ok"]
    assert got == [{"login": {"word": "open-sesame"}}] * 2
    assert [one.form for one in asked] == [forms] * (2 if is_secret else 1)
    again = (
        "input_required",
        "The input of a person was secret, and was not kept over the end of a process.",
    )
    assert answers(found)[1:] == [*([again] if is_secret else []), ("ok", "entered")]
    assert not is_secret or all(b"open-sesame" not in msgspec.json.encode(event.body) for event in found)


# --- results that are given again -------------------------------------------------


def test_the_telemetry_of_a_cached_tool_tells_each_hit_and_its_call() -> None:
    runs: list[int] = []

    @tool(effect="read", cache=True, version="7")
    def count(n: int) -> str:
        """Count."""
        runs.append(n)
        return f"{n} of {len(runs)}"

    steps = [call("count", n=1), call("count", n=1), call("count", n=2)]
    events = recorded(Agent("host", tools=[count, look]), *steps, call("look"))
    requests = [event for event in events if isinstance(event.body, CallTool)]
    bodies = [event.body for event in events if isinstance(event.body, ToolReturned)]
    assert answers(events) == [("ok", "1 of 1"), ("ok", "1 of 1"), ("ok", "2 of 2"), ("ok", "seen")]
    assert bodies[3].telemetry is None
    for request, body, use in zip(requests, bodies, ("miss", "hit", "miss"), strict=False):
        asked, told = request.body, body.telemetry
        assert isinstance(asked, CallTool)
        assert asked.cache is not None
        assert isinstance(told, Telemetry)
        assert (told.tool, told.version, told.cache) == ("count", "7", use)
        assert (told.execution, told.at_ms) == (f"{NAME}#{request.seq}", request.at)
        assert told.cache_key == asked.cache.key


STEPS_OF_A_CALL = 40
"""Calls of functions that one tool call of a reply may cost while the loop is held."""


class Observer:
    """A task that counts the calls that the loop's thread makes between two of its steps."""

    def __init__(self) -> None:
        self.ticks = 0
        self.longest = 0

    async def watch(self) -> None:
        with counting() as steps:
            last = 0
            while True:
                await asyncio.sleep(0)
                self.longest, last = max(self.longest, steps.made - last), steps.made
                self.ticks += 1


class Looks:
    """A tool that counts how many of its calls run at a time. None returns before `places` of them run."""

    def __init__(self, places: int = 32) -> None:
        self.places = places
        self.running, self.most, self.calls = 0, 0, 0
        self._is_full = asyncio.Event()

    async def look(self, n: int) -> str:
        """Look."""
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self.places:
            self._is_full.set()
        await self._is_full.wait()
        await asyncio.sleep(0)
        self.running -= 1
        return str(n)


class Asked:
    """A model that makes all calls in its first reply, and keeps what it reads after them."""

    def __init__(self, count: int) -> None:
        self.reply = calls(*[call("look", n=n) for n in range(count)])
        self.read = b""

    def policy(self, request: ModelRequest) -> Reply:
        if request.turn == 1:
            return self.reply
        self.read = bytes(request.messages[-1])
        return say("done")


def run(looks: Looks, asked: Asked, limits: Limits) -> tuple[Outcome, Observer]:
    observer = Observer()

    async def inside() -> Outcome:
        host = Agent("host", tools=[tool(effect="read")(looks.look)])
        async with Runtime(":memory:", model=ScriptedModel(asked.policy), limits=limits) as runtime:
            watching = asyncio.create_task(observer.watch())
            try:
                return await runtime.run(host, "go")
            finally:
                watching.cancel()

    return asyncio.run(asyncio.wait_for(inside(), 60)), observer


@pytest.mark.parametrize(
    ("effect", "over_writes", "times"),
    [("idempotent", False, 3), ("idempotent", True, 1), ("read", False, 1)],
)
def test_a_function_left_behind_ends_cached_results_unless_it_only_reads(
    monkeypatch: pytest.MonkeyPatch, effect: Effect, over_writes: bool, times: int
) -> None:
    runs: list[str] = []
    run_tool = ToolRunner.run
    goes_on = iter([True, False])  # at the second look and at the third, which so may see its effect

    def leaves(runner: ToolRunner, made: Tool, arguments: Json, ctx: LateContext, **rest: Any) -> Any:
        if made.name == "leave":
            ctx.goes_on = lambda: next(goes_on)
        return run_tool(runner, made, arguments, ctx, **rest)

    @tool(effect="read", cache=True, cache_over_writes=over_writes)
    async def count() -> str:
        """Count."""
        runs.append("run")
        return "counted"

    @tool(effect=effect)
    async def leave() -> str:
        """Leave."""
        raise ValueError("it took too long")

    monkeypatch.setattr(ToolRunner, "run", leaves)
    host = Agent("host", tools=[count, leave])
    recorded(host, call("count"), call("leave"), call("count"), call("count"), call("count"))
    assert len(runs) == times


@pytest.mark.slow
def test_of_ten_thousand_calls_the_first_run_and_the_others_are_refused_without_holding_the_loop() -> None:
    looks, asked = Looks(), Asked(10_000)
    outcome, observer = run(looks, asked, Limits())
    assert outcome.text == "done"
    assert (looks.calls, looks.most) == (128, 32)
    assert asked.read.count(prompts.too_many_calls(128).encode()) == 10_000 - 128
    assert observer.longest < 10_000 * STEPS_OF_A_CALL


@pytest.mark.slow
def test_many_calls_that_are_allowed_run_a_few_at_a_time_while_the_loop_goes_on() -> None:
    looks, asked = Looks(), Asked(1_200)
    outcome, observer = run(looks, asked, Limits(max_tool_calls=1_200))
    assert outcome.text == "done"
    assert (looks.calls, looks.most) == (1_200, 32)
    assert asked.read.count(b'"type":"tool_result"') == 1_200
    assert observer.longest < 1_200 * STEPS_OF_A_CALL
    assert observer.ticks > 1_200 // 32


def test_the_tasks_of_writes_under_way_are_known_and_all_calls_end_with_their_session() -> None:
    ends: list[str] = []
    begun: list[asyncio.Task[Any] | None] = []

    async def waits(name: str) -> str:
        begun.append(asyncio.current_task())
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(name)
        return name

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return await waits("look")

    @tool(effect="write")
    async def send() -> str:
        """Send."""
        return await waits("send")

    async def inside() -> None:
        model = ScriptedModel([calls(call("look"), call("send"))])
        async with Runtime(":memory:", model=model) as runtime:
            session = await runtime.open(Agent("host", tools=[look, send]))
            await session.submit("go")
            await until(lambda: len(begun) == 2)
            assert session._board.writing() == {begun[1]}
            assert len(session._board.ports["tools"].running) == 2
            await session.detach(0)
            assert sorted(ends) == ["look", "send"]

    asyncio.run(inside())


@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_call_that_the_end_of_the_loop_cancels_has_no_answer(effect: Effect) -> None:
    log = MemoryLog()

    @tool(effect=effect)
    async def work() -> str:
        """Work."""
        await asyncio.Event().wait()
        return "never"

    async def inside() -> None:
        async with Runtime(log, model=ScriptedModel([call("work")])) as runtime:
            session = await runtime.open(Agent("host", tools=[work]), session_id=NAME)
            await session.submit("go")
            running = session._board.ports["tools"]
            await until(lambda: running.running)
            await asyncio.sleep(0)
            for task in running.running:
                task.cancel()
            with pytest.raises(SessionDetached):
                await session.outcome

    asyncio.run(asyncio.wait_for(inside(), 20))
    assert not answers(events_of(log))


BOARD = cast("Board", SimpleNamespace(session_id="s-1", now_ms=1_250))


def request(**fields: Any) -> Event:
    return Event(7, 1_000, "host", "tools", 3, CallTool(1, 0, "look", "read", NULL, **fields))


def test_a_plain_call_has_none() -> None:
    assert completed(None, BOARD, request(), "") is None


def test_the_call_its_times_and_the_cache_are_added_to_what_was_measured() -> None:
    told = completed(Telemetry(duration_us=9, retries=1), BOARD, request(), "2")
    assert told == Telemetry("look", "2", "s-1#7", 1_000, 250, duration_us=9, retries=1)
    cached = request(cache=CacheRequest("k"))
    missed, hit = completed(None, BOARD, cached, ""), completed(None, BOARD, cached, "", is_hit=True)
    assert missed is not None
    assert hit is not None
    assert (missed.cache, missed.cache_key, hit.cache, hit.cache_key) == ("miss", "k", "hit", "k")


def test_a_clock_that_went_back_gives_no_time_below_0() -> None:
    for at, expected in ((1_249, 1), (1_250, 0), (1_251, 0)):
        asked = Event(7, at, "host", "tools", 3, CallTool(1, 0, "look", "read", NULL))
        told = completed(Telemetry(), BOARD, asked, "")
        assert told is not None
        assert told.latency_ms == expected


def test_a_hit_repeats_the_size_and_not_the_times_of_its_origin() -> None:
    assert of_hit(None) is None
    assert of_hit(Telemetry(duration_us=9, tokens_out_estimated=4)) == Telemetry(tokens_out_estimated=4)


def request_of_freshness(seq: int, over_writes: bool = False) -> Event:
    call = CallTool(1, 0, "look", "read", NULL, cache=CacheRequest("key", 0, over_writes))
    return Event(seq, seq, "host", "tools", 0, call)


def test_every_result_is_fresh_at_first() -> None:
    assert Freshness().since(request_of_freshness(9), None) == 0


def test_results_of_before_other_deps_are_not_fresh() -> None:
    fresh, deps = Freshness(), object()
    assert [fresh.since(request_of_freshness(seq), deps) for seq in (3, 5)] == [3, 3]
    assert fresh.since(request_of_freshness(8, over_writes=True), object()) == 8


def test_nothing_is_fresh_while_a_left_thread_runs_nor_what_was_read_before_its_end() -> None:
    fresh, is_running = Freshness(), True
    fresh.add(lambda: is_running)
    fresh.add(lambda: False)
    assert [fresh.since(request_of_freshness(seq), None) for seq in (3, 5)] == [3, 5]
    assert fresh.since(request_of_freshness(6, over_writes=True), None) == 0
    is_running = False
    assert [fresh.since(request_of_freshness(seq), None) for seq in (7, 9)] == [7, 7]


def test_the_files_that_a_program_of_a_tool_writes_are_noted_if_it_can_run_any(tmp_path: Path) -> None:
    for capabilities, history, noted in (
        (["shell"], True, {"made"}),
        ([], True, set()),
        (["shell"], False, set()),
    ):
        folder = tmp_path / f"{len(capabilities)}{history}"
        folder.mkdir()

        @tool(capabilities=capabilities)
        def run(folder: str) -> str:
            """Run."""
            (Path(folder) / "made").write_text("text")
            return "done"

        host = Agent("host", tools=[run])
        events = recorded(host, call("run", folder=str(folder)), files=Files(folder, history=history))
        (body,) = [event.body for event in events if isinstance(event.body, ToolReturned)]
        assert {one.path for one in body.files} == noted
