"""Every message in every phase of an agent has an outcome, and the table in `agent_phases` says so.

A new phase or message without a row here fails the first test.
"""

from collections.abc import Callable
from typing import NamedTuple, get_args

from msgspec.structs import replace

from callboard.actors.agent.decider import HANDLERS
from callboard.actors.agent.phases import AGENT, Phase
from callboard.actors.agent.state import prefix_of
from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AgentInput,
    Begin,
    Delegated,
    DelegationEnded,
    ReportJudged,
    Stop,
    Told,
    ToolsGiven,
    Woken,
)
from callboard.actors.protocol.port_messages import ApprovalGiven, ModelReplied, ToolReturned, ToolStarted
from callboard.actors.protocol.profiles import CompactRules, ModelSpec
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.scenario import profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import Reply, Step, calls, reply_of, report
from callboard.replay.testing.sessions.scripted_replies import tool as asks_tool
from tests.actors.harness import FINAL, RETRYABLE, SCHEMA, AgentHarness, kinds
from tests.tables import table

Said = list[str]


def new() -> AgentHarness:
    return AgentHarness()


def thinking() -> AgentHarness:
    agent = AgentHarness()
    agent.begins(SCHEMA)
    return agent


def acting() -> AgentHarness:
    """Return an agent with a tool, a delegation and a report outstanding."""
    agent = thinking()
    agent.calls("look", "task", "report_back")
    return agent


def judging() -> AgentHarness:
    """Return an agent with two reports outstanding."""
    agent = thinking()
    agent.calls("report_back", "report_back")
    return agent


LEAD = profile("lead", ["helper"], ["look"], asks=["pay"], background=True)


def lead(*later: tuple[str, object], turns: int = 9, schema: object = SCHEMA) -> AgentHarness:
    """Return an agent with one background task, host.1.1. later: the calls of its next reply."""
    agent = AgentHarness()
    agent.begins(schema, LEAD, Limits(max_iterations=turns))
    agent.reads(calls(("task", {"prompt": "help", "background": True})))
    agent.hears(Delegated(1, 0, "host.1.1"))
    if later:
        agent.reads(calls(*later))
    return agent


def starting(*more: str, turns: int = 9) -> Callable[[], AgentHarness]:
    """Return a start with a background task that is not confirmed yet, and these calls."""

    def start() -> AgentHarness:
        agent = AgentHarness()
        agent.begins(SCHEMA, LEAD, Limits(max_iterations=turns))
        agent.reads(calls(("task", {"prompt": "help", "background": True}), *[(one, {}) for one in more]))
        return agent

    return start


def waiting(*more: tuple[str, object], turns: int = 9) -> Callable[[], AgentHarness]:
    return lambda: lead(("task_wait", {}), *more, turns=turns)


def parked() -> AgentHarness:
    agent = lead()
    agent.reads(Reply("that is all for now"))
    return agent


def failed() -> AgentHarness:
    agent = acting()
    agent.fails(ToolStarted(1, 0))
    return agent


def stopping() -> AgentHarness:
    """Return a stopped agent that waits for one tool and has an open delegation."""
    agent = acting()
    agent.hears(Stop("deadline"))
    return agent


def idle() -> AgentHarness:
    agent = thinking()
    agent.reads(Reply(failure=FINAL))
    return agent


def crowded(
    *later: tuple[str, object], summary: bool = False, text: str = "", size: int = 1_500
) -> AgentHarness:
    """Return an agent whose next request needs too much of its window. later: the calls of its last reply.

    summary: True if a summary may be asked for. text: in each reply. size: of each result.
    """
    room, agent = 1_000_000, AgentHarness()
    for _ in range(2):
        rules = CompactRules(keep=1, has_summaries=summary)
        who = replace(LEAD, compact=rules, model=ModelSpec("scripted", 100, context_tokens=room))
        agent = AgentHarness()
        agent.begins(SCHEMA, who)
        agent.reads(calls(("task", {"prompt": "help", "background": True})), None)
        agent.hears(Delegated(1, 0, "host.1.1"))
        for _ in range(3):
            agent.reads(calls(("look", {"path": "x"}), text=text), None)
            agent.hears(agent.returned(0, "x" * size))
        room = (agent.state.context_tokens + 100) * 5 // 4 + 1
        assert agent.state.phase == "thinking"
        if later:
            agent.reads(calls(*later), None)
    return agent


def crowded_and(*later: tuple[str, object]) -> Callable[[], AgentHarness]:
    return lambda: crowded(*later)


def compacting() -> AgentHarness:
    agent = crowded(("look", {"path": "x"}))
    agent.hears(agent.returned(0))
    return agent


def summarising() -> AgentHarness:
    """Return an agent that has asked for a summary."""
    agent = crowded(("look", {"path": "x"}), summary=True, text="y" * 1_500)
    agent.hears(agent.returned(0, "x" * 5_000))  # more than clearing frees
    assert agent.state.compaction is not None
    assert agent.state.compaction.saved is not None
    return agent


def refused_as_full() -> AgentHarness:
    """Return an agent that asks for a summary since its request was refused, and has nothing to clear."""
    agent = crowded(summary=True, text="y" * 6_000, size=1)
    agent.hears(agent.reply(Reply(failure=ModelFailure("context_full"))))
    return agent


def crowded_and_parked() -> AgentHarness:
    agent = crowded()
    agent.reads(Reply("that is all for now"), None)
    return agent


def crowded_and_idle() -> AgentHarness:
    agent = crowded()
    agent.hears(agent.reply(Reply(failure=FINAL), None))
    return agent


def begin_again(agent: AgentHarness) -> Begin:
    who = replace(prefix_of(agent.state).profile, compact=CompactRules(keep=1, has_summaries=False))
    return AgentHarness().begin(SCHEMA, who)


def begin_with_much(agent: AgentHarness) -> Begin:
    said = crowded(text="y").state
    who = replace(prefix_of(said).profile, model=replace(said.model, context_tokens=said.context_tokens))
    history = tuple(said.history.values())[:-1]
    return replace(AgentHarness().begin(SCHEMA, who), history=history)


PHASES: dict[Phase, Callable[[], AgentHarness]] = {
    "new": new,
    "thinking": thinking,
    "acting": acting,
    "judging": judging,
    "compacting": compacting,
    "parked": parked,
    "failed": failed,
    "stopping": stopping,
    "idle": idle,
}


def waking() -> AgentHarness:
    """Return a program that waits for a tool, at most until a deadline."""
    agent = AgentHarness()
    agent.begins(who=program_profile("p", [], ["look"]))
    agent.reads(reply_of(Step((asks_tool("a", "look"), asks_tool("b", "look")), 7), 1))
    return agent


def program() -> AgentHarness:
    """Return a program whose next step is out, and that waits for a tool."""
    agent = waking()
    agent.hears(agent.returned(1))
    return agent


def acting_on(*names: str, turns: int = 9) -> Callable[[], AgentHarness]:
    """Return a start with these calls outstanding. turns: its limit of turns."""

    def start() -> AgentHarness:
        agent = AgentHarness()
        agent.begins(SCHEMA, limits=Limits(max_iterations=turns))
        agent.calls(*names)
        return agent

    return start


def stopped_while_asking() -> AgentHarness:
    agent = acting_on("pay")()
    agent.hears(Stop("deadline"))
    return agent


def stopped_while_thinking() -> AgentHarness:
    agent = thinking()
    agent.hears(Stop("deadline", (1, 1)))
    return agent


def begin(agent: AgentHarness) -> Begin:
    return AgentHarness().begin(SCHEMA)


def reply(says: Reply) -> Callable[[AgentHarness], AgentInput]:
    return lambda agent: agent.reply(says)


def tool(call: int = 0, turn: int = 0) -> Callable[[AgentHarness], AgentInput]:
    return lambda agent: ToolReturned(agent.state.turn + turn, call, "ok", agent.returned(0).output)


def ended(call: int = 1, turn: int = 0) -> Callable[[AgentHarness], AgentInput]:
    return lambda agent: DelegationEnded(agent.state.turn + turn, call, "answered", "host.1.1", text="helped")


def over(agent: AgentHarness) -> AgentInput:
    """Return the end of the background task of `lead`."""
    return DelegationEnded(1, 0, "answered", "host.1.1", text="helped")


def begun(agent: AgentHarness) -> AgentInput:
    return Delegated(1, 0, "host.1.1")


def told(agent: AgentHarness) -> AgentInput:
    return Told(1, "hurry")


def judged(verdict: str, call: int = 0, turn: int = 0) -> Callable[[AgentHarness], AgentInput]:
    return lambda agent: ReportJudged(agent.state.turn + turn, call, verdict)  # type: ignore[arg-type]  # a verdict


def given(verdict: str, call: int = 0, turn: int = 0) -> Callable[[AgentHarness], AgentInput]:
    return lambda agent: ApprovalGiven(agent.state.turn + turn, call, verdict)  # type: ignore[arg-type]  # a verdict


def compacted(agent: AgentHarness) -> AgentInput:
    return Compacted(1, 1, "clear")


def refuse_summary(agent: AgentHarness) -> AgentInput:
    return SummaryRefused(agent.state.turn)


def stop(*granted: int) -> Callable[[AgentHarness], AgentInput]:
    return lambda agent: Stop("cancelled", granted or (0, 0))  # type: ignore[arg-type]  # a grant has these two fields


class Row(NamedTuple):
    """One row of the table: a message in a phase, the next phase and the posts.

    before: messages that it hears first. start: another way into the phase than the usual one.
    """

    phase: Phase
    message: Callable[[AgentHarness], AgentInput]
    then: Phase
    says: Said = []  # noqa: RUF012  # never changed
    before: tuple[Callable[[AgentHarness], AgentInput], ...] = ()
    start: Callable[[], AgentHarness] | None = None


ROWS = [
    Row("new", begin, "thinking", ["TurnRequested"]),
    Row("new", stop(), "idle", ["Stopped"]),
    Row("new", reply(Reply("hi")), "new"),
    Row("new", tool(), "new"),
    Row("new", ended(), "new"),
    Row("new", judged("late"), "new"),
    Row("new", lambda agent: ToolStarted(1, 0), "new"),
    Row("new", given("approved"), "new"),
    Row("new", lambda agent: Woken(1), "new"),
    Row("new", begun, "new"),
    Row("new", told, "new"),
    #
    Row("thinking", begin, "thinking"),
    Row("thinking", stop(), "idle", ["Stopped"]),
    Row("thinking", stop(1, 1), "stopping"),
    Row("thinking", stop(1, 2), "idle", ["Stopped"]),
    Row("thinking", reply(calls(("look", {}))), "acting", ["CallTool", "TurnSettled"]),
    Row("thinking", reply(report({"n": 1})), "judging", ["ReportBack"]),
    Row("thinking", reply(Reply("I am done")), "thinking", ["TurnRequested"]),
    Row("thinking", reply(Reply(failure=RETRYABLE)), "thinking", ["TurnRequested"]),
    Row("thinking", reply(Reply(failure=FINAL)), "idle", ["Finished"]),
    Row("thinking", reply(Reply("no", stop_reason="refusal")), "idle", ["Finished"]),
    Row("thinking", lambda agent: ModelReplied(1, 2, "ok", agent.reply(Reply("x")).content), "thinking"),
    Row("thinking", lambda agent: ModelReplied(2, 1, "ok", agent.reply(Reply("x")).content), "thinking"),
    Row("thinking", tool(), "thinking"),
    Row("thinking", ended(), "thinking"),
    Row("thinking", judged("late"), "thinking"),
    Row("thinking", lambda agent: ToolStarted(1, 0), "thinking"),
    Row("thinking", given("approved"), "thinking"),
    Row("thinking", lambda agent: Woken(1), "thinking"),
    Row("thinking", begun, "thinking"),
    Row("thinking", told, "thinking"),
    Row("thinking", over, "thinking", start=lead),
    Row("thinking", reply(Reply("so far")), "parked", ["TurnSettled"], start=lead),
    Row("thinking", reply(Reply("so far")), "thinking", ["TurnRequested"], (over,), start=lead),
    Row("thinking", reply(Reply("so far")), "thinking", ["TurnRequested"], (told,), start=lead),
    Row("thinking", reply(Reply("so far")), "idle", ["Finished"], start=lambda: lead(turns=2)),
    #
    Row("acting", begin, "acting"),
    Row("acting", stop(), "stopping"),
    Row("acting", stop(), "idle", ["Stopped"], (tool(),)),
    Row("acting", reply(Reply("again")), "acting"),
    Row("acting", tool(), "acting"),
    Row("acting", tool(), "judging", ["ReportBack"], (ended(),)),
    Row("acting", tool(), "thinking", ["TurnRequested"], start=acting_on("look")),
    Row("acting", tool(), "idle", ["Finished"], start=acting_on("look", turns=1)),
    Row("acting", tool(5), "acting"),
    Row("acting", tool(-1), "acting"),
    Row("acting", tool(turn=1), "acting"),
    Row("acting", tool(), "acting", [], (tool(),)),
    Row("acting", ended(), "acting"),
    Row("acting", ended(), "judging", ["ReportBack"], (tool(),)),
    Row("acting", ended(0), "thinking", ["TurnRequested"], start=acting_on("task")),
    Row("acting", ended(0), "idle", ["Finished"], start=acting_on("task", turns=1)),
    Row("acting", ended(turn=-1), "acting"),
    Row("acting", judged("late"), "acting"),
    Row("acting", lambda agent: ToolStarted(1, 0), "acting"),
    Row("acting", given("approved"), "acting"),
    Row("acting", given("approved"), "acting", ["CallTool"], start=acting_on("pay")),
    Row("acting", given("approved", 5), "acting"),
    Row("acting", given("denied"), "acting"),
    Row("acting", given("denied"), "judging", ["ReportBack"], start=acting_on("pay", "report_back")),
    Row("acting", given("denied"), "thinking", ["TurnRequested"], start=acting_on("pay")),
    Row("acting", given("denied"), "idle", ["Finished"], start=acting_on("pay", turns=1)),
    Row("acting", lambda agent: Woken(1), "acting"),
    Row("acting", begun, "thinking", ["TurnRequested"], start=starting()),
    Row("acting", begun, "acting", start=starting("task_wait")),
    Row("acting", begun, "judging", ["ReportBack"], start=starting("report_back")),
    Row("acting", begun, "idle", ["Finished"], start=starting(turns=1)),
    Row("acting", told, "acting"),
    Row("acting", told, "thinking", ["TurnRequested"], start=waiting()),
    Row("acting", told, "acting", start=waiting(("task_cancel", {"task": "host.1.1"}))),
    Row("acting", told, "judging", ["ReportBack"], start=waiting(("report_back", {}))),
    Row("acting", told, "idle", ["Finished"], start=waiting(turns=2)),
    Row("acting", over, "thinking", ["TurnRequested"], start=waiting()),
    #
    Row("judging", begin, "judging"),
    Row("judging", stop(), "idle", ["Stopped"]),
    Row("judging", reply(Reply("again")), "judging"),
    Row("judging", tool(), "judging"),
    Row("judging", ended(0), "judging"),
    Row("judging", judged("invalid"), "judging"),
    Row("judging", judged("invalid", 1), "thinking", ["TurnRequested"], (judged("invalid"),)),
    Row("judging", judged("late", 1), "idle", ["Finished"], (judged("accepted"),)),
    Row("judging", judged("invalid"), "judging", [], (judged("invalid"),)),
    Row("judging", judged("accepted", turn=1), "judging"),
    Row("judging", lambda agent: ToolStarted(1, 0), "judging"),
    Row("judging", given("approved"), "judging"),
    Row("judging", lambda agent: Woken(1), "judging"),
    Row("judging", begun, "judging"),
    Row("judging", told, "judging"),
    Row("judging", over, "judging", start=lambda: lead(("report_back", {}))),
    #
    Row("parked", begin, "parked"),
    Row("parked", stop(), "idle", ["Stopped"]),
    Row("parked", reply(Reply("hi")), "parked"),
    Row("parked", tool(), "parked"),
    Row("parked", ended(), "parked"),
    Row("parked", over, "thinking", ["TurnRequested"]),
    Row("parked", begun, "parked"),
    Row("parked", told, "thinking", ["TurnRequested"]),
    Row("parked", judged("late"), "parked"),
    Row("parked", lambda agent: ToolStarted(1, 0), "parked"),
    Row("parked", given("approved"), "parked"),
    Row("parked", lambda agent: Woken(1), "parked"),
    #
    Row("failed", begin, "failed"),
    Row("failed", stop(), "stopping"),
    Row("failed", stop(), "idle", ["Stopped"], (tool(),)),
    Row("failed", reply(Reply("hi")), "failed"),
    Row("failed", tool(), "failed"),
    Row("failed", ended(), "failed"),
    Row("failed", ended(), "failed", [], (tool(),)),
    Row("failed", judged("late"), "failed"),
    Row("failed", lambda agent: ToolStarted(1, 0), "failed"),
    Row("failed", given("approved"), "failed"),
    Row("failed", lambda agent: Woken(1), "failed"),
    Row("failed", begun, "failed"),
    Row("failed", told, "failed"),
    #
    Row("stopping", begin, "stopping"),
    Row("stopping", stop(), "stopping"),
    Row("stopping", reply(Reply("hi")), "stopping"),
    Row("stopping", reply(Reply("hi")), "idle", ["Stopped"], start=stopped_while_thinking),
    Row("stopping", reply(Reply(failure=FINAL)), "idle", ["Stopped"], start=stopped_while_thinking),
    Row("stopping", tool(), "idle", ["Stopped"]),
    Row("stopping", tool(5), "stopping"),
    Row("stopping", ended(), "stopping"),
    Row("stopping", judged("late"), "stopping"),
    Row("stopping", lambda agent: ToolStarted(1, 0), "stopping"),
    Row("stopping", given("approved"), "stopping"),
    Row("stopping", given("approved"), "idle", ["Stopped"], start=stopped_while_asking),
    Row("stopping", given("denied", 5), "stopping"),
    Row("stopping", lambda agent: Woken(1), "stopping"),
    Row("stopping", begun, "stopping"),
    Row("stopping", told, "stopping"),
    #
    Row("idle", begin, "thinking", ["TurnRequested"]),
    Row("idle", stop(), "idle"),
    Row("idle", stop(1, 1), "idle"),
    Row("idle", reply(Reply("hi")), "idle"),
    Row("idle", tool(), "idle"),
    Row("idle", ended(), "idle"),
    Row("idle", judged("accepted"), "idle"),
    Row("idle", lambda agent: ToolStarted(1, 0), "idle"),
    Row("idle", given("approved"), "idle"),
    Row("idle", lambda agent: Woken(1), "idle"),
    Row("idle", begun, "idle"),
    Row("idle", told, "idle"),
    #
    Row("thinking", lambda agent: ToolReturned(1, 0, "ok"), "thinking", start=program),
    Row("acting", lambda agent: Woken(7), "thinking", ["RunStep"], start=waking),
    Row("acting", lambda agent: Woken(6), "acting", start=waking),
    #
    Row("new", begin_with_much, "compacting", ["Compacted"]),
    Row("thinking", reply(Reply("short")), "compacting", ["TurnSettled", "Compacted"], start=summarising),
    Row("thinking", reply(Reply("")), "compacting", ["TurnSettled", "Compacted"], start=summarising),
    Row("thinking", reply(Reply("short")), "compacting", ["TurnSettled", "Compacted"], start=refused_as_full),
    Row("thinking", reply(Reply("")), "idle", ["Finished"], start=refused_as_full),
    Row("thinking", reply(Reply(failure=RETRYABLE)), "thinking", ["TurnRequested"], start=summarising),
    Row("thinking", refuse_summary, "compacting", ["Compacted"], start=summarising),
    Row("thinking", refuse_summary, "idle", ["Finished"], start=refused_as_full),
    Row("thinking", stop(), "idle", ["Stopped"], start=summarising),
    Row("acting", tool(), "compacting", ["Compacted"], start=crowded_and(("look", {"path": "x"}))),
    Row("acting", given("denied"), "compacting", ["Compacted"], start=crowded_and(("pay", {"euros": 5}))),
    Row("acting", ended(0), "compacting", ["Compacted"], start=crowded_and(("task", {"prompt": "help"}))),
    Row(
        "acting",
        lambda agent: Delegated(agent.state.turn, 0, "host.1.2"),
        "compacting",
        ["Compacted"],
        start=crowded_and(("task", {"prompt": "help", "background": True})),
    ),
    Row("acting", told, "compacting", ["Compacted"], start=crowded_and(("task_wait", {}))),
    Row("judging", judged("invalid"), "compacting", ["Compacted"], start=crowded_and(("report_back", {}))),
    Row("parked", over, "compacting", ["Compacted"], start=crowded_and_parked),
    Row("parked", told, "compacting", ["Compacted"], start=crowded_and_parked),
    Row("idle", begin_again, "compacting", ["Compacted"], start=crowded_and_idle),
    #
    Row("compacting", begin, "compacting"),
    Row("compacting", stop(), "idle", ["Stopped"]),
    Row("compacting", reply(Reply("hi")), "compacting"),
    Row("compacting", tool(), "compacting"),
    Row("compacting", ended(), "compacting"),
    Row("compacting", over, "compacting"),
    Row("compacting", judged("late"), "compacting"),
    Row("compacting", lambda agent: ToolStarted(1, 0), "compacting"),
    Row("compacting", given("approved"), "compacting"),
    Row("compacting", lambda agent: Woken(1), "compacting"),
    Row("compacting", begun, "compacting"),
    Row("compacting", told, "compacting"),
    Row("compacting", compacted, "thinking", ["TurnRequested"]),
    *(Row(phase, compacted, phase) for phase in get_args(Phase) if phase != "compacting"),
    *(Row(phase, refuse_summary, phase) for phase in get_args(Phase)),
    *(Row(phase, lambda agent: ToolsGiven(()), phase) for phase in get_args(Phase)),
]


def heard(row: Row) -> tuple[AgentHarness, AgentInput]:
    """Return the agent in the row's phase, and its next message."""
    agent = (row.start or PHASES[row.phase])()
    for message in row.before:
        agent.hears(message(agent))
    return agent, row.message(agent)


def test_every_phase_and_message_has_a_row() -> None:
    found = {(row.phase, type(heard(row)[1])) for row in ROWS}
    assert found == {(phase, kind) for phase in get_args(Phase) for kind in get_args(AgentInput)}


@table("row", ROWS, ids=[f"{at}-{row.phase}-{row.then}" for at, row in enumerate(ROWS)])
def test_each_message_leads_to_the_phase_of_its_row(row: Row) -> None:
    agent, message = heard(row)
    assert agent.state.phase == row.phase
    before = agent.state
    said = kinds(agent.hears(message))
    assert (agent.state.phase, said) == (row.then, row.says)
    if (agent.state, said) != (before, []):
        assert row.then in AGENT[row.phase][type(message)]


def test_the_table_has_exactly_the_ways_out_of_each_phase() -> None:
    seen = {
        (row.phase, type(message), row.then)
        for row in ROWS
        for _, message in [heard(row)]
        if row.then != row.phase
    }
    table = {
        (phase, kind, then)
        for phase, row in AGENT.items()
        for kind, targets in row.items()
        for then in targets
        if then != phase
    }
    assert seen == table


def test_every_kind_of_message_to_an_agent_has_a_handler() -> None:
    assert HANDLERS.keys() == set(get_args(AgentInput))
