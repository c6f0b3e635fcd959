"""Typed results from ask to outcome: live, resumed at any event, simulated, and verified without pydantic."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, Limits, Outcome, Runtime, ScriptedModel, call, calls, say
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded, ReportJudged
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.errors import AgentsChanged, InvalidSchema, MissingType
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import Call
from callboard.runtime.schemas.json_text import INLINE_VALUE_BYTES
from callboard.runtime.schemas.output_types import OutputType, output_type
from callboard.testing import simulate
from tests.effort import effort
from tests.runtime import reports
from tests.runtime.reports import RELEASE, Counted, Finding, Page, Rude, Shouted, Span, Tree
from tests.runtime.sessions.test_resuming import log_of
from tests.tables import table

NAME = "one"
GOOD = call("report_back", filePath="a.py", lines=3, seen="2026-01-02")
WRONG = call("report_back", filePath="a.py", lines=0)


def events_of(log: MemoryLog, session_id: str = NAME) -> list[Event]:
    recording = Recording.open(MemoryReader(log), session_id)
    recording.verify().check()
    events = list(recording.events)
    assert not check_log(events)
    return events


def bodies(events: list[Event], kind: type) -> list[Any]:
    return [event.body for event in events if isinstance(event.body, kind)]


def asked(
    script: Any, output_schema: Any = None, host: Agent | None = None, **options: Any
) -> tuple[Outcome[Any], list[Event]]:
    log = MemoryLog()

    async def run() -> Outcome[Any]:
        async with Runtime(log, model=ScriptedModel(script), **options) as runtime:
            outcome: Outcome[Any] = await runtime.run(
                host or Agent("host"), "go", output_schema=output_schema, session_id=NAME
            )
            return outcome

    outcome = asyncio.run(run())
    return outcome, events_of(log)


# --- values -----------------------------------------------------------------------


@table(
    ("kind", "report", "value"),
    [
        (Finding, {"filePath": "a", "lines": 1}, Finding(filePath="a", lines=1)),
        (Page[int], {"items": [1, 2]}, Page[int](items=[1, 2])),
        (Tree, {"name": "a", "below": [{"name": "b"}]}, Tree(name="a", below=[Tree(name="b")])),
        (Span, {"first": 1, "last": 2}, Span(1, 2)),
        (Counted, {"files": 1, "next": {"files": 0}}, Counted(1, Counted(0))),
        (list[Span], {"value": [{"first": 1, "last": 2}]}, [Span(1, 2)]),
        (list[Finding], {"value": [{"filePath": "a", "lines": 1}]}, [Finding(filePath="a", lines=1)]),
        (int | None, {"value": None}, None),
        ({"type": "object"}, {"a": 1}, {"a": 1}),
    ],
)
def test_a_report_becomes_a_value_of_the_asks_type(
    kind: object, report: Mapping[str, object], value: object
) -> None:
    outcome, _ = asked([call("report_back", **report)], kind)
    assert (outcome.kind, outcome.structured_output) == ("reported", value)
    assert outcome.unwrap() == value
    assert type(outcome.structured_output) is type(value)


def test_the_type_of_an_agent_holds_for_asks_that_give_none() -> None:
    outcome, events = asked([GOOD], host=Agent("host", output_schema=Finding))
    assert isinstance(outcome.structured_output, Finding)
    assert [one.output_type for one in bodies(events, Ask)] == [""]
    given, _ = asked([call("report_back", first=1, last=2)], Span, Agent("host", output_schema=Finding))
    assert given.structured_output == Span(1, 2)


def test_a_value_is_built_from_the_report_in_the_log_and_not_from_the_validators_result() -> None:
    outcome, _ = asked([call("report_back", text="soft")], Shouted)
    assert outcome.structured_output.text == "soft"


def test_without_a_type_nothing_changes() -> None:
    outcome, events = asked([say("hello")])
    assert (outcome.structured_output, outcome.unwrap()) == (None, "hello")
    assert not bodies(events, CheckSchema)


# --- validators -------------------------------------------------------------------


def test_a_report_that_fits_the_schema_and_not_the_validator_goes_back_with_its_words() -> None:
    seen: list[str] = []

    def policy(request: Any) -> Call:
        seen.append(str(request.conversation))
        return WRONG if request.turn == 1 else GOOD

    outcome, events = asked(policy, Finding)
    assert isinstance(outcome.structured_output, Finding)
    assert outcome.structured_output.lines == 3
    judged = bodies(events, ReportJudged)
    assert [one.verdict for one in judged] == ["invalid", "accepted"]
    assert str(judged[0].problems[0]) == "/lines: Value error, a file has at least one line"
    assert "/lines: Value error, a file has at least one line" in seen[1]
    names = [one.output_type for one in bodies(events, CheckSchema)]
    assert names == ["", "tests.runtime.reports.Finding", "tests.runtime.reports.Finding"]
    assert bodies(events, Ask)[0].output_type == "tests.runtime.reports.Finding"


def test_the_schema_is_checked_before_the_validators_see_a_report() -> None:
    bad = call("report_back", first="one", last=0)
    outcome, events = asked([bad, call("report_back", first=1, last=2)], Span)
    assert outcome.structured_output == Span(1, 2)
    checked = [one for one in bodies(events, SchemaChecked) if one.status == "invalid"]
    assert [str(one.problems[0]) for one in checked] == ['/first: must be integer, got "one"']


def test_a_sub_agents_type_checks_its_reports_too() -> None:
    script = {
        "host": [call("task", agent="finder", prompt="look"), say("done")],
        "finder": [WRONG, GOOD],
    }
    host = Agent("host", agents=[Agent("finder", output_schema=Finding)])
    outcome, events = asked(script, host=host)
    assert [one.verdict for one in bodies(events, ReportJudged)] == ["invalid", "accepted"]
    (found,) = outcome.delegations
    assert isinstance(found.value, Finding)
    assert found.value.lines == 3


@pytest.mark.parametrize(("how", "words"), [("raises", "RuntimeError"), ("exits", "SystemExit")])
def test_a_validator_that_breaks_is_a_check_that_fails_and_its_words_are_redacted(
    how: str, words: str
) -> None:
    outcome, events = asked(
        [call("report_back", how=how), call("report_back", how="behaves")],
        Rude,
        secrets=["sk-ant-REDACTED-KEY"],
    )
    assert outcome.kind == "reported"
    failed = [one for one in bodies(events, SchemaChecked) if one.status == "failed"]
    assert words in failed[0].problems[0].message
    assert "REDACTED-KEY" not in str(failed)


def test_a_validator_that_hangs_fails_its_check_after_schema_timeout_s() -> None:
    RELEASE.clear()
    try:
        outcome, events = asked(
            [call("report_back", how="hangs"), call("report_back", how="behaves")],
            Rude,
            limits=Limits(schema_timeout_s=0.2),
        )
    finally:
        RELEASE.set()
    assert outcome.kind == "reported"
    (failed,) = [one for one in bodies(events, SchemaChecked) if one.status == "failed"]
    assert "took longer than 200 ms" in failed.problems[0].message


def test_too_many_refused_reports_end_the_agent() -> None:
    outcome, _ = asked([WRONG] * 9, Finding, limits=Limits(max_report_attempts=2))
    assert outcome.kind == "invalid_report"
    assert outcome.structured_output is None


@pytest.mark.slow
def test_a_log_of_typed_reports_verifies_where_pydantic_cannot_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    model = ScriptedModel([WRONG, GOOD])
    outcome = Runtime(path, model=model).run_sync(Agent("host"), "go", output_schema=Finding)
    assert outcome.kind == "reported"
    script = (
        "import sys\n"
        "sys.modules['pydantic'] = None\n"
        "from callboard.replay import Recording\n"
        f"recording = Recording.open({str(path)!r}, {outcome.session_id!r})\n"
        "assert recording.verify().is_ok\n"
        "print([event.kind for event in recording.events].count('SchemaChecked'))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def test_a_simulated_session_runs_the_validators_too() -> None:
    run = simulate(Agent("host"), [WRONG, GOOD], output_schema=Finding)
    assert run.breaches == []
    run.verify().check()
    assert [one.verdict for one in bodies(run.events, ReportJudged)] == ["invalid", "accepted"]
    assert isinstance(run.outcome.structured_output, Finding)


# --- refusals ---------------------------------------------------------------------


@table("kind", [reports.Plain, reports.Callback, complex, "Finding", reports.local_type()])
def test_a_type_without_a_schema_or_a_name_is_refused_before_anything_is_recorded(kind: Any) -> None:
    async def run() -> None:
        async with Runtime(log := MemoryLog(), model=ScriptedModel([])) as runtime:
            with pytest.raises(InvalidSchema):
                await runtime.run(Agent("host"), "go", output_schema=kind)
            with pytest.raises(InvalidSchema):
                Agent("host", output_schema=kind)
            assert await log.sessions() == []
            async with await runtime.open(Agent("host"), session_id=NAME) as session:
                with pytest.raises(InvalidSchema):
                    await session.ask("go", output_schema=kind)
        assert not bodies(events_of(log), Ask)

    asyncio.run(run())


# --- resumed ----------------------------------------------------------------------


def script_of(request: Any) -> Any:
    if request.profile == "finder":
        return WRONG if request.turn == 1 else GOOD
    return (
        call("task", agent="finder", prompt="look")
        if request.turn == 1
        else call("report_back", first=1, last=2)
    )


def hosts(kind: Any = Finding) -> Agent:
    return Agent("host", agents=[Agent("finder", output_schema=kind)])


async def resumed(events: list[Event], *types: object, **options: Any) -> Outcome:
    log = await log_of(events, NAME)
    async with Runtime(log, model=ScriptedModel(script_of), types=types) as runtime:
        session = await runtime.resume(NAME, options.pop("host", hosts()), **options)
        outcome = await session.outcome
        await session.close()
    events_of(log)
    return outcome


def ended_and_asked() -> tuple[Outcome[Any], list[Event], range]:
    """Return the outcome of a typed session, its events, and the cuts that leave its ask unfinished."""
    outcome, events = asked(script_of, Span, hosts())
    (start,) = (event.seq for event in events if event.kind == "Ask")
    (end,) = (event.seq for event in events if event.kind == "AskEnded")
    return outcome, events, range(start, end)


@pytest.mark.slow
def test_an_ask_that_is_resumed_anywhere_has_the_same_value_and_delegations() -> None:
    outcome, events, cuts = ended_and_asked()
    assert outcome.structured_output == Span(1, 2)
    for cut in cuts[:: effort(2, 1)]:
        again = asyncio.run(resumed(events[:cut], Span))
        assert again.structured_output == Span(1, 2), f"cut after {cut}"
        (delegation,) = again.delegations
        assert (delegation.address, delegation.profile) == ("host.1", "finder")
        assert delegation.value == Finding.model_validate_json(
            '{"filePath":"a.py","lines":3,"seen":"2026-01-02"}'
        )


def test_an_ask_whose_type_is_not_given_is_refused_and_nothing_is_taken_over() -> None:
    _, events, cuts = ended_and_asked()

    async def run() -> None:
        log = await log_of(events[: cuts[-1]], NAME)
        async with Runtime(log, model=ScriptedModel(script_of)) as runtime:
            with pytest.raises(MissingType, match=r"tests\.runtime\.reports\.Span.*types=\[Span\]") as caught:
                await runtime.resume(NAME, hosts())
            assert caught.value.names == ("tests.runtime.reports.Span",)
        assert len(events_of(log)) == cuts[-1], "nothing was added"

    asyncio.run(run())


def test_a_type_whose_schema_has_changed_is_accepted_only_as_a_change() -> None:
    _, events, cuts = ended_and_asked()
    new = OutputType(output_type({"type": "object"}).schema, "tests.runtime.reports.Span", Loose())
    with pytest.raises(MissingType, match=r"another tests\.runtime\.reports\.Span.*accept_changes=True"):
        asyncio.run(resumed(events[: cuts[-1]], new))
    outcome = asyncio.run(resumed(events[: cuts[-1]], new, accept_changes=True))
    assert outcome.structured_output == "loose"


class Loose:
    """A form that accepts everything."""

    def schema(self) -> dict[str, object]:
        return {"type": "object"}

    def problems(self, report: bytes) -> tuple[()]:
        return ()

    def build(self, report: bytes) -> object:
        return "loose"


def test_a_running_sub_agents_type_is_needed_until_it_has_ended() -> None:
    _, events, _ = ended_and_asked()
    begun = next(event.seq for event in events if event.recipient == "host.1")
    ended = next(event.seq for event in events if event.kind == "DelegationEnded")
    with pytest.raises(AgentsChanged, match="its output type changed"):
        asyncio.run(resumed(events[:begun], Span, host=hosts(Tree)))
    with pytest.raises(MissingType, match=r"reports\.Finding"):
        asyncio.run(resumed(events[:begun], Span, host=hosts(Tree), accept_changes=True))
    for cut, types in ((begun, (Span, Finding)), (ended, (Span,))):
        outcome = asyncio.run(resumed(events[:cut], *types, host=hosts(Tree), accept_changes=True))
        assert outcome.structured_output == Span(1, 2)


def test_agents_that_are_kept_until_the_next_ask_need_their_types_until_then() -> None:
    _, events, _ = ended_and_asked()
    asked_at = next(event.seq for event in events if event.kind == "Ask")

    async def run(*types: object) -> Outcome:
        log = await log_of(events[:asked_at], NAME)
        model = ScriptedModel(script_of)
        async with Runtime(log, model=model, types=types, on_agents_changed="next_ask") as runtime:
            outcome = await (await runtime.resume(NAME, hosts(Tree))).outcome
        events_of(log)
        return outcome

    with pytest.raises(MissingType, match=r"reports\.Finding"):
        asyncio.run(run(Span))
    outcome = asyncio.run(run(Span, Finding))
    assert outcome.structured_output == Span(1, 2)


def test_an_ended_ask_needs_its_type_only_where_its_outcome_is_read() -> None:
    async def run() -> None:
        log = MemoryLog()
        model = ScriptedModel([call("report_back", first=1, last=2), say("and now text")])
        async with Runtime(log, model=model) as runtime:
            session = await runtime.open(Agent("host"), session_id=NAME)
            await session.ask("first", output_schema=Span, request_id="r")
            await session.close()
        left = await log_of(events_of(log)[:-2], NAME)
        async with Runtime(left, model=model) as runtime:
            session = await runtime.resume(NAME, Agent("host"))
            with pytest.raises(MissingType, match=r"types=\[Span\]"):
                await session.outcome
            with pytest.raises(MissingType, match=r"types=\[Span\]"):
                await session.ask("first", request_id="r")
            again = await session.ask("first", output_schema=Span, request_id="r")
            assert again.structured_output == Span(1, 2)
            assert (await session.ask("second")).text == "and now text"

    asyncio.run(run())


# --- delegations ------------------------------------------------------------------


def test_an_outcome_lists_the_delegations_of_its_ask_in_log_order() -> None:
    race: Any = {"agents": ["quick", "deep"], "output_schema": {"type": "integer"}}
    script: Any = {
        "host": [
            calls(
                call("task", agent="plain", prompt="x"),
                call("task", agent="nobody", prompt="x"),
                call("task", prompt="x", **race),
            ),
            say("done"),
            call("task", agent="deep", prompt="again"),
            say("done again"),
        ],
        "plain": lambda request: say("words"),
        "quick": [call("report_back", value=5)],
        "deep": lambda request: call("task", agent="plain", prompt="x") if request.turn == 1 else say("deep"),
    }
    plain = Agent("plain")
    host = Agent("host", agents=[plain, Agent("quick"), Agent("deep", agents=[plain])])

    async def run() -> None:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(script)) as runtime:
            session = await runtime.open(host, session_id=NAME)
            first, second = await session.ask("one"), await session.ask("two")
        ends = bodies(events_of(log), DelegationEnded)
        told = [*first.delegations, *second.delegations]
        assert [(one.address, one.kind, one.usage) for one in told] == [
            (end.address, end.kind, end.usage) for end in ends
        ]
        by_profile = {one.profile: one for one in first.delegations if one.parent == "host"}
        assert (by_profile["plain"].kind, by_profile["plain"].text) == ("answered", "words")
        assert (by_profile["plain"].value, by_profile["plain"].usage.calls) == (None, 1)
        assert (by_profile["quick"].kind, by_profile["quick"].value) == ("reported", 5)
        inner, outer = second.delegations
        assert (inner.profile, outer.profile) == ("plain", "deep")
        assert (inner.parent, outer.parent) == (outer.address, "host")
        assert (inner.usage.calls, outer.usage.calls) == (1, 3)
        assert "Raw" not in repr(first)

    asyncio.run(run())


# --- the port ---------------------------------------------------------------------


def test_a_report_that_a_worker_checks_goes_through_the_validators_too() -> None:
    long = "x" * (INLINE_VALUE_BYTES + 1)
    wrong, right = (call("report_back", filePath=long, lines=lines) for lines in (0, 1))
    outcome, events = asked([wrong, right], Finding)
    assert outcome.structured_output.path == long
    assert [one.verdict for one in bodies(events, ReportJudged)] == ["invalid", "accepted"]


@pytest.mark.usefixtures("short_grace")
def test_a_cancel_does_not_wait_for_a_validator_that_hangs() -> None:
    RELEASE.clear()

    async def run() -> str:
        model = ScriptedModel([call("report_back", how="hangs")])
        async with Runtime(":memory:", model=model) as runtime:
            session = await runtime.open(Agent("host"))
            asking = asyncio.create_task(session.ask("go", output_schema=Rude))
            async for event in session.events():
                if isinstance(event.body, CheckSchema) and event.body.task == "report":
                    break
            await session.cancel("enough")
            return (await asking).kind

    try:
        assert asyncio.run(asyncio.wait_for(run(), 20)) == "cancelled"
    finally:
        RELEASE.set()


def test_the_report_is_also_there_as_plain_json_values() -> None:
    outcome, _ = asked([GOOD], Finding)
    assert outcome.report == {"filePath": "a.py", "lines": 3, "seen": "2026-01-02"}
    assert asked([say("hello")])[0].report is None
    assert "Raw" not in repr(outcome)
