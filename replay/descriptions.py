"""One description of each kind of event: its meaning in words, its topic, its weight, and its links.

Terminal, page, transcript, charts and search draw from this table and have no words of their own. The place
of an event among turns and calls is `place_names.call_name`.

    words_of(event.body)      what happens, in one line, without the parts that the envelope shows
    fails(event.body)         it tells of a failure or of a refusal
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.agent.content import read
from callboard.actors.protocol import client_messages as c
from callboard.actors.protocol import messages as m
from callboard.actors.protocol import port_messages as p
from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.profiles import ModelSpec, ToolSpec
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.replay.compaction_words import compacted, service_edits
from callboard.replay.forks import changed_place
from callboard.replay.formats import counted, duration, json_text, tokens, utc, value_text
from callboard.runtime.log.tree import prompt_text

CHARS_MAX: Final = 200
"""The most of the words of an event that a list shows."""

Topic: TypeAlias = Literal["model", "tool", "task", "report", "approval", "client", "plain"]
Weight: TypeAlias = Literal["", "bookkeeping", "outside"]

BAD_OUTCOMES: Final = frozenset(
    {
        *(kind for kind, status in STATUS.items() if status == "failed"),
        *("error", "failed", "cancelled", "lost", "interrupted", "detached", "refused", "denied", "invalid"),
        *("late", "failure"),
    }
)
"""The outcomes that lists and the page show as bad."""


class Description(NamedTuple):
    """The description of one kind of event.

    title: of its text in a transcript. words: say one in a line. weight: `bookkeeping` if it only says that
    something was asked for, granted, settled or checked; `outside` if it comes from outside the agents, and
    so stays in every list. fails: returns True if one tells of a failure or a refusal. links: the fields that
    name other events.
    """

    title: str
    topic: Topic
    words: Callable[[Any], str]
    weight: Weight = ""
    fails: Callable[[Any], bool] = lambda _: False
    links: tuple[str, ...] = ()


def words_of(body: m.AnyMessage) -> str:
    """Say a message in one line. The text may be long, and hold any text of models and tools."""
    return DESCRIPTIONS[type(body)].words(body)


def title_of(body: m.AnyMessage) -> str:
    """Return the heading of a message in a transcript."""
    return DESCRIPTIONS[type(body)].title


def fails(body: m.AnyMessage) -> bool:
    """Return True if a message tells of a failure, or of a refusal."""
    return DESCRIPTIONS[type(body)].fails(body)


def _forked(body: c.Forked) -> str:
    changed = (f"changes {changed_place(one)}" for one in body.changes)
    return ", ".join(filter(None, [f"of {body.origin}#{body.at}", *changed, _resumed(body.resumed)]))


def _resumed(body: c.Resumed) -> str:
    changes = []
    if body.profiles:
        when = " from the next ask on" if body.from_next_ask else ""
        changes.append(f"with {counted(len(body.profiles), 'agent profile')} of now{when}")
    if body.model is not None:
        changes.append(f"model {_names(body.model)}")
    if body.limits is not None:
        changes.append("with other limits")
    if body.capacity is not None:
        changes.append(f"limited over all sessions: {', '.join(body.capacity) or 'no model'}")
    if body.scopes is not None:
        changes.append(f"budgets above the session: {', '.join(body.scopes) or 'none'}")
    if body.extend_ms:
        changes.append(f"deadlines {duration(body.extend_ms)} later")
    if body.left_out_ms:
        changes.append(f"{duration(body.left_out_ms)} left out for programs")
    return ", ".join(changes)


def _names(model: ModelSpec) -> str:
    return ", then ".join(one.name for one in model.all_specs)


def _turn_requested(body: m.TurnRequested) -> str:
    wait = f", after {duration(body.after_ms)}" if body.after_ms else ""
    asked = f" of {body.model}" if body.model else ""
    asked += " for a summary" if body.purpose else ""
    repaired = f", replies repaired at level {body.repair.level}" if body.repair else ""
    return (
        f"turn {body.turn}, attempt {body.attempt}{asked}, "
        f"needs at most {tokens(body.need.tokens)} tokens{wait}{repaired}"
    )


def _reply(body: p.ModelReplied) -> str:
    status = f"{body.status}: " * (body.status != "ok")
    unknown = "; usage not known" * (body.usage is None)
    if body.failure is not None:
        return f"{status}{body.failure.code}: {body.failure.message}{unknown}"
    said = read(body.content)
    if said is None:
        is_cut_off = body.status in p.CUT_OFF
        why = "the process ended before the answer" if is_cut_off else "content that cannot be read"
        return f"{status}{why}{unknown}"
    made = [f"{use.name} {json_text(use.input)}" for use in said.uses]
    return f"{status}{' | '.join(filter(None, [said.text, *made, *service_edits(body)]))}{unknown}"


def _returned(body: p.ToolReturned) -> str:
    notes = (
        body.status * (body.status != "ok"),
        "after the origin" * body.after_origin,
        f"as {body.cached_from}" * bool(body.cached_from),
    )
    said = ", ".join(filter(None, notes))
    return f"{said}: {value_text(body.output)}" if said else value_text(body.output, CHARS_MAX)


def _approval(body: p.ApprovalGiven) -> str:
    always, by = " always" * body.is_always, f" by {body.by}" * bool(body.by)
    permission = f" by permission {body.permission}" * bool(body.permission)
    changed = f" with {json_text(body.arguments)}" * (body.arguments != NULL)
    return body.verdict + always + by + permission + changed + f": {body.note}" * bool(body.note)


def _ended(body: c.AskEnded | m.DelegationEnded | m.Finished) -> str:
    said = body.detail or body.text
    if not isinstance(body, m.Finished) and body.kind == "reported" and body.value != NULL:
        said = json_text(body.value)
    return f"{body.kind}: {said}" if said else body.kind


def _prompt(body: c.Ask | m.Begin | m.Delegate) -> str:
    named = f"{body.description}: " if not isinstance(body, c.Ask) and body.description else ""
    told = prompt_text(body.prompt, CHARS_MAX) + (" (with a schema)" if body.schema != NULL else "")
    return named + told


def _context(body: p.ContextMade) -> str:
    messages = f"{len(body.history)} messages, " if body.history else ""
    messages += f"{len(body.repairs)} repairs, " if body.repairs else ""
    return (
        f"{body.status}, for {body.profile}: {messages}{body.detail or prompt_text(body.content, CHARS_MAX)}"
    )


def _tool_names(tools: tuple[ToolSpec, ...]) -> str:
    return ", ".join(tool.name for tool in tools) or "no tools"


def _set_timer(body: p.SetTimer) -> str:
    due = f"in {duration(body.after_ms)}" if body.until is None else f"at {utc(body.until)}"
    return f"timer {body.timer}, {due}"


def _problems(problems: tuple[SchemaProblem, ...]) -> str:
    return "".join(f"; {one.path or '/'}: {one.message}" for one in problems)


class _Named(msgspec.Struct):
    name: str


_profile: Final = msgspec.json.Decoder(_Named).decode


def _ends_badly(body: c.AskEnded | m.DelegationEnded | m.Finished) -> bool:
    return STATUS[body.kind] == "failed"


def _aside(
    title: str,
    words: Callable[[Any], str],
    fails: Callable[[Any], bool] = lambda _: False,
    links: tuple[str, ...] = (),
) -> Description:
    """Describe a kind that only says that something was asked for, granted, settled or checked."""
    return Description(title, "plain", words, "bookkeeping", fails, links)


def _call(body: p.ToolStarted | m.CancelTask | p.CancelCall) -> str:
    seq = body.reused if isinstance(body, p.ToolStarted) else 0
    return f"turn {body.turn}, call {body.call}" + f", waits for recorded event {seq}" * bool(seq)


def _timer(body: p.CancelTimer | p.TimerFired) -> str:
    return f"timer {body.timer}"


DESCRIPTIONS: Final[Mapping[type, Description]] = {
    c.SessionOpened: Description(
        "Session opened",
        "client",
        lambda it: f"host {it.host}, {counted(len(it.profiles), 'agent profile')}, model {_names(it.model)}",
    ),
    c.Resumed: Description("Resumed", "client", _resumed, weight="outside"),
    c.Forked: Description("Forked", "client", _forked, weight="outside"),
    c.Ask: Description("Ask", "client", _prompt),
    c.Tell: Description(
        "Told", "client", lambda it: f"{it.request_id} to {it.address}: {it.text}", weight="outside"
    ),
    c.Cancel: Description(
        "Cancelled", "client", lambda it: ": ".join(filter(None, (it.address, it.reason))), weight="outside"
    ),
    c.Close: Description("Closing", "client", lambda _: ""),
    c.TellEnded: Description(
        "Told",
        "client",
        lambda it: (
            f"{it.request_id} heard in turn {it.turn}"
            if it.status == "heard"
            else f"{it.request_id} refused: {it.detail}"
        ),
        weight="outside",
    ),
    c.AskEnded: Description("Outcome", "client", _ended, fails=_ends_badly, links=("by",)),
    c.SessionClosed: Description(
        "Session closed",
        "client",
        lambda it: f"{counted(it.usage.calls, 'model call')}, {tokens(it.usage.tokens)} tokens in all",
    ),
    m.DeciderFailed: Description(
        "Failure of a decider",
        "plain",
        lambda it: f"on event {it.event}: {it.error}",
        weight="outside",
        fails=lambda _: True,
        links=("event",),
    ),
    m.Begin: Description("Prompt", "task", lambda it: f"{_profile(it.profile).name}: {_prompt(it)}"),
    m.Told: Description("Told", "client", lambda it: it.text, weight="outside"),
    m.Stop: Description(
        "Stopped", "plain", lambda it: it.reason, fails=lambda it: STATUS[it.reason] == "failed"
    ),
    m.ReportJudged: Description(
        "Report",
        "report",
        lambda it: f"{it.verdict}{_problems(it.problems)}",
        fails=lambda it: it.verdict != "accepted",
    ),
    m.Delegated: Description("Delegation started", "task", lambda it: f"{it.address} runs in the background"),
    m.DelegationEnded: Description(
        "Delegation",
        "task",
        lambda it: f"{it.address or 'nobody'} {_ended(it)}",
        fails=_ends_badly,
        links=("by",),
    ),
    m.Woken: Description("Deadline", "plain", lambda it: f"at {utc(it.until)}"),
    p.ModelReplied: Description(
        "Model", "model", _reply, fails=lambda it: it.status not in ("ok", "detached")
    ),
    p.ToolStarted: Description("Tool started", "tool", _call, weight="bookkeeping"),
    p.ToolReturned: Description(
        "Result", "tool", _returned, fails=lambda it: it.status not in ("ok", "detached")
    ),
    p.ApprovalGiven: Description(
        "Approval", "approval", _approval, fails=lambda it: it.verdict != "approved"
    ),
    c.RevokePermission: Description(
        "Permission revoked",
        "client",
        lambda it: f"permission {it.permission}{f', by {it.by}' if it.by else ''}",
        weight="outside",
    ),
    c.ToolsChanged: Description(
        "Tools changed",
        "tool",
        lambda it: f"{it.change.address or it.change.profile} has {_tool_names(it.change.tools)}",
        weight="outside",
    ),
    m.ToolsGiven: Description("Tools", "tool", lambda it: _tool_names(it.tools)),
    m.TurnRequested: _aside("Turn", _turn_requested, links=("new",)),
    Compacted: Description("Compacted", "model", compacted, links=("summary",)),
    SummaryRefused: Description(
        "Summary refused",
        "model",
        lambda it: f"turn {it.turn}: results are cleared, and nothing is summarised: {it.detail}",
        fails=lambda _: True,
    ),
    m.TurnSettled: _aside(
        "Turn settled", lambda it: f"{tokens(it.usage.tokens)} tokens" if it.usage else "use not known"
    ),
    m.Delegate: Description(
        "Delegation",
        "task",
        lambda it: (
            f"to {', '.join(it.profiles)}{' in the background' * (it.mode == 'background')}: {_prompt(it)}"
        ),
    ),
    m.CancelTask: Description("Task cancelled", "task", _call, weight="outside"),
    m.Wake: Description(
        "Deadline", "plain", lambda it: "no more" if it.until is None else f"at {utc(it.until)}"
    ),
    m.ReportBack: Description("Report", "report", lambda it: json_text(it.value)),
    m.Finished: Description("Finished", "report", _ended, fails=_ends_badly),
    m.Stopped: Description("Stopped", "report", lambda _: ""),
    p.CallModel: Description(
        "Model call",
        "model",
        lambda it: f"for {it.agent}, {'granted with' if it.opening else 'asked for by'} event {it.request}",
        weight="bookkeeping",
        links=("request",),
    ),
    RunStep: _aside("Step", lambda it: f"turn {it.turn}, attempt {it.attempt}", links=("new",)),
    p.RequestCapacity: _aside(
        "Place requested",
        lambda it: (
            f"for {it.agent}, turn {it.turn}, attempt {it.attempt}, of {it.model}, "
            f"at most {tokens(it.need.tokens)} tokens"
        ),
    ),
    p.CapacityGiven: _aside(
        "Place given", lambda it: f"{it.status}, for {it.agent}, turn {it.turn}, attempt {it.attempt}"
    ),
    p.RequestBudget: _aside(
        "Budget requested",
        lambda it: (
            f"for {it.agent}, turn {it.turn}, attempt {it.attempt}, at most {tokens(it.need.tokens)} tokens"
        ),
    ),
    p.BudgetGiven: _aside(
        "Budget given",
        lambda it: (
            f"{it.status}, for {it.agent}, turn {it.turn}, attempt {it.attempt}"
            f"{f', by the budget {it.scope}' * bool(it.scope)}"
        ),
        fails=lambda it: it.status == "refused",
    ),
    p.SettleBudget: _aside(
        "Budget settled",
        lambda it: f"for {it.agent}, turn {it.turn}, attempt {it.attempt}: {tokens(it.tokens)} tokens",
    ),
    p.CallTool: Description("Call", "tool", lambda it: f"{it.tool} {json_text(it.arguments)}"),
    p.RequestApproval: Description(
        "Question",
        "approval",
        lambda it: (
            f"{'again: ' * it.is_repeat}{'input: ' * (it.round > 0)}{it.tool} {json_text(it.arguments)}"
        ),
    ),
    p.CancelCall: Description("Call cancelled", "tool", _call),
    p.CheckSchema: _aside("Schema check", lambda it: f"check {it.check}: {it.task}"),
    p.SchemaChecked: _aside(
        "Schema checked",
        lambda it: f"check {it.check}: {it.status}{_problems(it.problems)}",
        fails=lambda it: it.status != "ok",
    ),
    p.MakeContext: _aside(
        "Context requested",
        lambda it: f"for {it.profile}, delegation {it.delegation} of {it.parent}",
        links=("request",),
    ),
    p.ContextMade: Description("Context", "plain", _context, fails=lambda it: it.status != "ok"),
    p.SetTimer: _aside("Timer set", _set_timer),
    p.ExtendTimer: _aside("Timer extended", lambda it: f"timer {it.timer}, {duration(it.by_ms)} later"),
    p.CancelTimer: _aside("Timer cancelled", _timer),
    p.TimerFired: Description("Timer fired", "plain", _timer, weight="outside"),
}
"""Kind -> its description. `test_every_kind_of_event_has_one_description` finds a missing one."""
