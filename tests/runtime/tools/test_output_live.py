"""Unified output and cached results in live sessions, their recordings, and what comes after a process."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import (
    Agent,
    Event,
    Runtime,
    ScriptedModel,
    SharedKey,
    Telemetry,
    ToolContext,
    call,
    calls,
    program,
    say,
    tool,
)
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.errors import InvalidAgent
from callboard.outputs import OutputRules, ToolOutput, metrics
from callboard.permissions import Allowed, Bundle
from callboard.replay import Recording, ToolCollector, ToolUsage, tool_usage
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.tools.tool import Tool
from tests.effort import effort
from tests.tables import table


def answers(events: list[Event]) -> list[ToolReturned]:
    return [event.body for event in events if isinstance(event.body, ToolReturned)]


def text(answer: ToolReturned) -> str:
    return msgspec.json.decode(answer.output, type=str)


def session_of(host: Agent, log: str = ":memory:", prompts: int = 1, **options: Any) -> list[Event]:
    """Run a host, and return all events up to its last answer."""
    found: list[Event] = []

    async def main() -> None:
        async with Runtime(log, **options) as runtime, runtime.open(host) as session:
            for number in range(prompts):
                await session.ask(f"prompt {number}")
            ended = 0
            async for event in session.events():
                found.append(event)
                ended += event.kind == "AskEnded"
                if ended == prompts:
                    break

    asyncio.run(main())
    assert not check_log(found)
    return found


def looker(**options: Any) -> tuple[Tool, list[str]]:
    """Return a cached tool, and the list of its runs."""
    runs: list[str] = []

    @tool(**{"effect": "read", "cache": True, **options})
    def look(path: str, ctx: ToolContext) -> str:
        """Look."""
        runs.append(f"{ctx.address} {path}")
        return f"{path} as {ctx.address} saw it"

    return look, runs


@tool(effect="write")
def save(path: str) -> str:
    """Save."""
    return f"saved {path}"


def scripted(*steps: object) -> ScriptedModel:
    return ScriptedModel([*steps, say("done")])  # type: ignore[list-item]  # replies, and calls


LOOK = call("look", path="a")


# --- output ---------------------------------------------------------------------------


def test_a_tool_with_output_rules_is_rendered_and_measured() -> None:
    @tool(effect="read", output=OutputRules("detailed", "toon", show=("source",)), version="3")
    def rows(count: int) -> ToolOutput:
        """List rows."""
        found = [{"id": number, "ok": True} for number in range(count)]
        telemetry = Telemetry(retries=1, metrics=metrics(rows_read=9))
        return ToolOutput(found, metadata={"source": "crm"}, telemetry=telemetry)

    events = session_of(Agent("host", tools=[rows], model=scripted(call("rows", count=2))))
    (answer,) = answers(events)
    assert text(answer).startswith("[rows] 2 rows of id, ok: 0, true; 1, true\ntype: table\nstatus: ok\n")
    assert text(answer).endswith('source: "crm"\nresult:\n[2]{id,ok}:\n  0,true\n  1,true')
    told, called = answer.telemetry, next(event for event in events if event.kind == "CallTool")
    assert told is not None
    assert (told.tool, told.version, told.retries, told.cache) == ("rows", "3", 1, "")
    assert told.execution.endswith(f"#{called.seq}")
    assert told.at_ms == called.at
    assert None not in (told.latency_ms, told.duration_us, told.cpu_us, told.tokens_out_estimated)
    assert bytes(told.metadata) == b'{"source":"crm"}'


def test_a_plain_tool_has_no_telemetry_and_its_value_is_read_as_before() -> None:
    @tool(effect="read")
    def plain() -> dict[str, int]:
        """Be plain."""
        return {"a": 1}

    (answer,) = answers(session_of(Agent("host", tools=[plain], model=scripted(call("plain")))))
    assert (text(answer), answer.telemetry, answer.cached_from) == ('{"a":1}', None, "")


def test_a_plain_tool_may_return_an_output() -> None:
    @tool(effect="read")
    async def plain() -> ToolOutput:
        """Be plain."""
        return ToolOutput([1], summary="one number", response_format="concise")

    (answer,) = answers(session_of(Agent("host", tools=[plain], model=scripted(call("plain")))))
    assert text(answer) == "[plain] one number"


def test_an_exception_is_an_error_result_with_its_code() -> None:
    @tool(effect="read", output="concise")
    async def fails() -> str:
        """Fail."""
        raise LookupError("not there")

    (answer,) = answers(session_of(Agent("host", tools=[fails], model=scripted(call("fails")))))
    assert (answer.status, text(answer)) == ("error", "[fails] error LookupError: not there")
    assert answer.telemetry is not None
    assert (answer.telemetry.code, answer.telemetry.message) == ("LookupError", "not there")
    assert "LookupError" in answer.trace


def test_an_output_updates_the_state_and_names_its_place(tmp_path: Path) -> None:
    @tool(effect="read", output="concise")
    def note(word: str) -> ToolOutput:
        """Note."""
        return ToolOutput(word, state_update={"notes": word}, checkpoint=f"noted-{word}")

    host = Agent(
        "host", tools=[note], state={"notes": SharedKey("append")}, model=scripted(call("note", word="a"))
    )
    log = str(tmp_path / "log.db")
    (answer,) = answers(session_of(host, log))
    assert answer.checkpoints == ("noted-a",)
    with Recording.open(log) as recording:
        shared = recording.shared_state(recording.head.seq)
        assert shared.values() == {"notes": ["a"]}
        assert shared.cells["notes"].by == "host"


def test_a_program_gets_the_result_itself() -> None:
    @tool(effect="read", output="concise")
    def pair() -> list[int]:
        """Return two numbers."""
        return [1, 2]

    seen: list[object] = []

    @program(tools=[pair])
    async def adds(ctx: Any, prompt: str) -> int:
        seen.append(await ctx.call(pair))
        return sum(await ctx.call(pair))

    async def main() -> object:
        async with Runtime(":memory:") as runtime:
            return (await runtime.run(adds, "go")).unwrap()

    assert asyncio.run(main()) == 3
    assert seen == [[1, 2]]


def test_two_sessions_share_their_prompts_up_to_the_last_turn_that_agrees(tmp_path: Path) -> None:
    numbers = iter(range(100))

    @tool(effect="read", output="standard")
    def rows() -> ToolOutput:
        """List rows, with figures that differ every time."""
        metadata = {"run": next(numbers)}
        return ToolOutput([{"id": 1}], metadata=metadata, telemetry=Telemetry(metrics=metrics(**metadata)))

    @tool(effect="read", output="concise")
    async def other(word: str) -> str:
        """Say a word."""
        return word

    def requests(word: str) -> list[bytes]:
        model = scripted(
            call("rows"), calls(call("rows"), call("other", word="same")), call("other", word=word)
        )
        log = str(tmp_path / f"{word}.db")
        session_of(Agent("host", tools=[rows, other], model=model), log)
        with Recording.open(log) as recording:
            grants = [event.seq for event in recording.events if event.kind == "CallModel"]
            found = [recording.request(seq) for seq in grants]
            return [b"\n".join(map(bytes, one.messages)) for one in found]

    one, two = requests("one"), requests("two")
    assert len(one) == len(two) == 4
    assert one[:3] == two[:3], "times, ids and figures differ, and no prompt does"
    assert one[3] != two[3]
    assert one[3].startswith(one[2])
    assert two[3].startswith(one[2])


# --- results that are given again -----------------------------------------------------


def test_the_same_call_is_answered_with_the_earlier_result(tmp_path: Path) -> None:
    look, runs = looker(output="standard", labels=["web"])
    log = str(tmp_path / "log.db")
    events = session_of(Agent("host", tools=[look], model=scripted(LOOK, LOOK, call("look", path="b"))), log)
    first, again, other = answers(events)
    assert runs == ["host a", "host b"]
    assert again.output == first.output
    origin = next(event for event in events if event.body is first or event.body == first)
    assert again.cached_from.endswith(f"#{origin.seq}")
    assert other.cached_from == ""
    assert [one.telemetry.cache for one in (first, again, other) if one.telemetry] == ["miss", "hit", "miss"]
    with Recording.open(log) as recording:
        assert recording.verify().is_ok


@pytest.mark.parametrize(("options", "count"), [({}, 2), ({"cache_over_writes": True}, 1)])
def test_a_call_with_an_effect_ends_results(options: dict[str, Any], count: int) -> None:
    look, runs = looker(**options)
    session_of(Agent("host", tools=[look, save], model=scripted(LOOK, call("save", path="a"), LOOK)))
    assert len(runs) == count


def test_a_result_gets_too_old_by_the_clock_of_the_port() -> None:
    look, runs = looker(cache=0.001)

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(0.005)
        return "waited"

    session_of(Agent("host", tools=[look, wait], model=scripted(LOOK, call("wait"), LOOK)))
    assert len(runs) == 2


def test_a_result_that_read_the_shared_state_is_of_that_state() -> None:
    runs: list[int] = []

    @tool(effect="read", cache=True)
    def look(ctx: ToolContext) -> int:
        """Look at the count."""
        runs.append(ctx.state["count"])
        return runs[-1]

    @tool(effect="read")
    def add(ctx: ToolContext) -> str:
        """Add one."""
        ctx.update_state("count", 1)
        return "added"

    model = scripted(call("look"), call("look"), call("add"), call("look"))
    session_of(Agent("host", tools=[look, add], state={"count": SharedKey("add")}, model=model))
    assert runs == [0, 1]


def test_other_deps_end_results() -> None:
    look, runs = looker()

    async def main() -> None:
        host = Agent(
            "host", tools=[look], model=ScriptedModel([LOOK, say("1"), LOOK, say("2"), LOOK, say("3")])
        )
        async with Runtime(":memory:") as runtime, runtime.open(host) as session:
            deps = object()
            for one in (deps, deps, object()):
                await session.ask("go", deps=one)

    asyncio.run(main())
    assert len(runs) == 2


PATHS = st.sampled_from(["docs", "docs/a", "notes", "."])
PREFIXES = st.none() | st.lists(PATHS, max_size=2, unique=True).map(tuple)


@settings(max_examples=effort(12, 300), deadline=None)
@given(PREFIXES, PREFIXES, st.booleans())
def test_no_agent_is_served_what_one_with_other_rights_read(
    parents: tuple[str, ...] | None, childs: tuple[str, ...] | None, is_child_first: bool
) -> None:
    look, runs = looker()
    below = Bundle(do=Allowed(read=childs))
    own = ScriptedModel([LOOK, say("done")], name="kids")
    kid = Agent("kid", tools=[look], permissions=below, model=own)
    steps = (
        [call("task", agent="kid", prompt="go"), LOOK]
        if is_child_first
        else [LOOK, call("task", agent="kid", prompt="go")]
    )
    host = Agent(
        "host",
        tools=[look],
        agents=[kid],
        permissions=Bundle(do=Allowed(read=parents), delegate=Allowed()),
        model=scripted(*(reversed(steps) if is_child_first else steps)),
    )
    found = answers(session_of(host))
    served = [one for one in found if one.cached_from]
    is_same = (parents is None and childs is None) or (
        parents is not None and childs is not None and _reduced(parents) == _reduced(childs)
    )
    assert bool(served) == is_same
    assert len(runs) == 2 - is_same


def _reduced(prefixes: tuple[str, ...]) -> set[str]:
    """Return the prefixes as a bundle holds them."""
    return set(Allowed(read=prefixes).read or ())


def test_results_outlive_a_process(tmp_path: Path) -> None:
    look, runs = looker()
    log = str(tmp_path / "log.db")

    async def main(resumes: str, step: object) -> str:
        host = Agent("host", tools=[look], model=ScriptedModel([step, say("done")]))  # type: ignore[list-item]  # a call
        async with Runtime(log) as runtime:
            opened = runtime.reopen(resumes, host) if resumes else runtime.open(host)
            session = await opened
            await session.ask("go")
            return session.id

    session_id = asyncio.run(main("", LOOK))
    asyncio.run(main(session_id, LOOK))
    assert len(runs) == 1


def test_two_functions_with_one_description_are_refused() -> None:
    (one, _), (two, _) = looker(), looker()
    kid = Agent("kid", tools=[two])
    host = Agent("host", tools=[one], agents=[kid], model=scripted())
    with pytest.raises(InvalidAgent, match="two agents have a tool 'look' with the same description"):
        session_of(host)
    (one, _), (two, _) = looker(version="1"), looker(version="2")
    session_of(Agent("host", tools=[one], agents=[Agent("kid", tools=[two])], model=scripted()))


@table(
    ("options", "words"),
    [
        ({"effect": "write"}, "only results of read tools"),
        ({"cache": 0}, "a positive number of seconds"),
        ({"cache": float("inf")}, "a positive number of seconds"),
        ({"cache": False, "cache_over_writes": True}, "needs cache=True"),
        ({"output": "long"}, "format is concise"),
    ],
)
def test_a_cache_or_a_format_that_cannot_work_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidAgent, match=words):
        looker(**options)


# --- the report -----------------------------------------------------------------------


def test_a_recording_gives_the_same_report_as_the_live_session(tmp_path: Path) -> None:
    look, _ = looker(output="standard")
    log = str(tmp_path / "log.db")
    events = session_of(
        Agent("host", tools=[look, save], model=scripted(LOOK, LOOK, call("save", path="a"))), log
    )
    collector = ToolCollector()
    for event in events:
        collector.add(event)
    with Recording.open(log) as recording:
        found: ToolUsage = tool_usage(recording.events.upto(events[-1].seq))
    assert found == collector.report()
    assert (found.by_tool["look"].cache_hits, found.by_tool["look"].cache_misses) == (1, 1)
    assert found.by_agent["host"] == found.total
