"""A summary of every kind of message, in one line, without the parts that its envelope shows."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from callboard.actors.agent.content import read
from callboard.actors.protocol import client_messages as c
from callboard.actors.protocol import messages as m
from callboard.actors.protocol import port_messages as p
from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import ModelSpec, ToolSpec
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.cli.formats import counted, duration, local_time, tokens
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.log.tree import prompt_text

_CHARS_MAX: Final = 200


def summary_of(body: m.AnyMessage) -> str:
    """Summarise a message in one line that is safe to print."""
    return safe_line(_SUMMARIES[type(body)](body), _CHARS_MAX)


def whole_prompt(prompt: Json) -> str:
    """Return the whole text of a prompt: of a list of blocks, one block a line."""
    value = msgspec.json.decode(prompt)
    if isinstance(value, str):
        return value
    return "\n".join(
        str(one.get("text") or f"[{one.get('type')}]") for one in value or () if isinstance(one, dict)
    )


def _forked(body: c.Forked) -> str:
    changed = (
        f"{one.agent} turn {one.turn}" + (f" call {one.call}" if one.call >= 0 else "")
        for one in body.changes
    )
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


def _compacted(body: Compacted) -> str:
    how = f"{counted(body.results, 'result')} cleared" if body.by == "clear" else f"summary {body.summary}"
    return (
        f"{how} in place of {counted(body.upto, 'message')}, {body.kept} kept, "
        f"at most {tokens(body.after)} tokens after {tokens(body.before)}"
    )


def _reply(body: p.ModelReplied) -> str:
    used = f"{tokens(body.usage.tokens)} tokens" if body.usage else "use not known"
    if body.failure is not None:
        return f"{body.status}: {body.failure.code}: {body.failure.message}; {used}"
    said = read(body.content)
    if said is None:
        return f"{body.status}, {used}: content that cannot be read"
    made = [f"{use.name} {_json(use.input)}" for use in said.uses]
    return f"{body.status}, {used}: {' | '.join(filter(None, [said.text, *made]))}"


def _approval(body: p.ApprovalGiven) -> str:
    always, by = " always" * body.is_always, f" by {body.by}" * bool(body.by)
    permission = f" by permission {body.permission}" * bool(body.permission)
    changed = f" with {_json(body.arguments)}" * (body.arguments != NULL)
    return body.verdict + always + by + permission + changed + f": {body.note}" * bool(body.note)


def _ended(body: c.AskEnded | m.DelegationEnded | m.Finished) -> str:
    said = body.detail or body.text
    if not isinstance(body, m.Finished) and body.kind == "reported" and body.value != NULL:
        said = _json(body.value)
    return f"{body.kind}: {said}" if said else body.kind


def _prompt(body: c.Ask | m.Begin | m.Delegate) -> str:
    named = f"{body.description}: " if not isinstance(body, c.Ask) and body.description else ""
    told = prompt_text(body.prompt, _CHARS_MAX) + (" (with a schema)" if body.schema != NULL else "")
    return named + told


def _context(body: p.ContextMade) -> str:
    messages = f"{len(body.history)} messages, " if body.history else ""
    messages += f"{len(body.repairs)} repairs, " if body.repairs else ""
    return (
        f"{body.status}, for {body.profile}: {messages}{body.detail or prompt_text(body.content, _CHARS_MAX)}"
    )


def _tool_names(tools: tuple[ToolSpec, ...]) -> str:
    return ", ".join(tool.name for tool in tools) or "no tools"


def _set_timer(body: p.SetTimer) -> str:
    due = f"in {duration(body.after_ms)}" if body.until is None else f"at {local_time(body.until)}"
    return f"timer {body.timer}, {due}"


def _problems(problems: tuple[SchemaProblem, ...]) -> str:
    return "".join(f"; {one.path or '/'}: {one.message}" for one in problems)


def _json(value: Json) -> str:
    return bytes(value)[: 4 * _CHARS_MAX].decode("utf-8", "replace")


class _Named(msgspec.Struct):
    name: str


_profile: Final = msgspec.json.Decoder(_Named).decode


# One entry for each kind: `test_every_kind_of_message_has_words_that_fit_on_a_line` finds a missing one.
_SUMMARIES: Final[dict[type[object], Callable[[Any], str]]] = {
    c.SessionOpened: lambda it: (
        f"host {it.host}, {counted(len(it.profiles), 'agent profile')}, model {_names(it.model)}"
    ),
    c.Resumed: _resumed,
    c.Forked: _forked,
    c.Ask: _prompt,
    c.Tell: lambda it: f"{it.request_id} to {it.address}: {it.text}",
    c.Cancel: lambda it: it.reason,
    c.Close: lambda _: "",
    c.TellEnded: lambda it: (
        f"{it.request_id} heard in turn {it.turn}"
        if it.status == "heard"
        else f"{it.request_id} refused: {it.detail}"
    ),
    c.AskEnded: _ended,
    c.SessionClosed: lambda it: (
        f"{counted(it.usage.calls, 'model call')}, {tokens(it.usage.tokens)} tokens in all"
    ),
    m.DeciderFailed: lambda it: f"on event {it.event}: {it.error}",
    m.Begin: lambda it: f"{_profile(it.profile).name}: {_prompt(it)}",
    m.Told: lambda it: it.text,
    m.Stop: lambda it: it.reason,
    m.ReportJudged: lambda it: f"{it.verdict}{_problems(it.problems)}",
    m.Delegated: lambda it: f"{it.address} runs in the background",
    m.DelegationEnded: lambda it: f"{it.address or 'nobody'} {_ended(it)}",
    m.Woken: lambda it: f"at {local_time(it.until)}",
    p.ModelReplied: _reply,
    p.ToolStarted: lambda it: f"turn {it.turn}, call {it.call}",
    p.ToolReturned: lambda it: (
        f"{it.status}{', after the origin' * it.after_origin}"
        f"{f', as {it.cached_from}' * bool(it.cached_from)}: {_json(it.output)}"
    ),
    p.ApprovalGiven: _approval,
    c.RevokePermission: lambda it: f"permission {it.permission}{f', by {it.by}' if it.by else ''}",
    c.ToolsChanged: lambda it: f"{it.change.address or it.change.profile} has {_tool_names(it.change.tools)}",
    m.ToolsGiven: lambda it: _tool_names(it.tools),
    Compacted: _compacted,
    SummaryRefused: lambda it: f"turn {it.turn}: results are cleared, and nothing is summarised: {it.detail}",
    m.TurnRequested: _turn_requested,
    m.TurnSettled: lambda it: f"{tokens(it.usage.tokens)} tokens" if it.usage else "use not known",
    m.Delegate: lambda it: (
        f"to {', '.join(it.profiles)}{' in the background' * (it.mode == 'background')}: {_prompt(it)}"
    ),
    m.CancelTask: lambda it: f"turn {it.turn}, call {it.call}",
    m.Wake: lambda it: "no more" if it.until is None else f"at {local_time(it.until)}",
    m.ReportBack: lambda it: _json(it.value),
    m.Finished: _ended,
    m.Stopped: lambda _: "",
    p.CallModel: lambda it: f"for {it.agent}, asked for by event {it.request}",
    p.RequestCapacity: lambda it: (
        f"for {it.agent}, turn {it.turn}, attempt {it.attempt}, of {it.model}, "
        f"at most {tokens(it.need.tokens)} tokens"
    ),
    p.CapacityGiven: lambda it: f"{it.status}, for {it.agent}, turn {it.turn}, attempt {it.attempt}",
    p.RequestBudget: lambda it: (
        f"for {it.agent}, turn {it.turn}, attempt {it.attempt}, at most {tokens(it.need.tokens)} tokens"
    ),
    p.BudgetGiven: lambda it: (
        f"{it.status}, for {it.agent}, turn {it.turn}, attempt {it.attempt}"
        f"{f', by the budget {it.scope}' * bool(it.scope)}"
    ),
    p.SettleBudget: lambda it: (
        f"for {it.agent}, turn {it.turn}, attempt {it.attempt}: {tokens(it.tokens)} tokens"
    ),
    p.CallTool: lambda it: f"{it.tool} {_json(it.arguments)}",
    p.RequestApproval: lambda it: (
        f"{'again: ' * it.is_repeat}{'input: ' * (it.round > 0)}{it.tool} {_json(it.arguments)}"
    ),
    p.CancelCall: lambda it: f"turn {it.turn}, call {it.call}",
    p.CheckSchema: lambda it: f"check {it.check}: {it.task}",
    p.SchemaChecked: lambda it: f"check {it.check}: {it.status}{_problems(it.problems)}",
    p.MakeContext: lambda it: f"for {it.profile}, delegation {it.delegation} of {it.parent}",
    p.ContextMade: _context,
    p.SetTimer: _set_timer,
    p.ExtendTimer: lambda it: f"timer {it.timer}, {duration(it.by_ms)} later",
    p.CancelTimer: lambda it: f"timer {it.timer}",
    p.TimerFired: lambda it: f"timer {it.timer}",
}
