"""The state of actors after an event, and the changes that the event made: `callboard show --state`."""

from collections.abc import Sequence
from typing import Final

import msgspec
from rich.text import Text

from callboard.actors.agent.state import AgentState
from callboard.actors.session.shared_state import Cell, SharedState
from callboard.actors.session.step import ActorState
from callboard.actors.supervisor.state import AskState, SupervisorState
from callboard.cli.event_lines import line_of
from callboard.cli.folding import FIRST_MESSAGES, LAST_MESSAGES, Folding
from callboard.cli.output import emit, emit_json, emit_lines, fields, table, width_of_stdout
from callboard.cli.recordings import say_checked
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import counted, dollars, tokens
from callboard.replay.recording import Recording
from callboard.replay.states import Change, to_jsonable

_VALUE_CHARS_MAX: Final = 60
_CHANGES_SHOWN: Final = 40
_CHANGE_CHARS: Final = 300


def emit_state(
    recording: Recording, at: int, actor: str, fold: Folding, *, is_checked: bool, as_json: bool
) -> None:
    """Print the state of an actor after an event. actor: '' for all actors, in short.

    is_checked: the digests of the whole session were checked. Raises Failure for an unknown actor.
    """
    if actor:
        _emit_actor(recording, at, actor, fold, is_checked=is_checked, as_json=as_json)
    else:
        _emit_actors(recording, at, fold, as_json=as_json)


def emit_changes(recording: Recording, at: int, fold: Folding, *, is_checked: bool, as_json: bool) -> None:
    """Print the fields that differ before and after the decision on an event."""
    found, (decided, actor) = recording.changes(at), recording.decision(at)
    if as_json:
        head = {"session": recording.session_id, "at": at, "checked": is_checked}
        changes = [one._asdict() for one in found]
        emit_json({**head, "decided": decided or None, "actor": actor or None, "changes": changes})
        return
    emit_lines([line_of(recording.event(at), width_of_stdout())], is_whole=fold.is_full)
    emit_lines([Text(heading(decided, actor, has_changes=bool(found)), style="bold")])
    emit_lines(change_lines(found, fold), is_whole=fold.is_full)
    say_checked(is_checked=is_checked)


def heading(at: int, actor: str, *, has_changes: bool) -> str:
    """Return a line that names the decision: the event that was decided on, and the actor."""
    if not actor:
        return "no actor decides on this event"
    return f"the decision of {actor} on event {at} changed{':' if has_changes else ' nothing'}"


def change_lines(changes: Sequence[Change], fold: Folding) -> list[Text]:
    """Return three lines for each change: the field, its value before, its value after."""
    head, left, tail = fold.ends(changes, _CHANGES_SHOWN, 0)
    lines = [line for one in (*head, *tail) for line in _change(one, fold)]
    return [*lines, fold.gap(left, "fields", "  ")] if left else lines


def _change(one: Change, fold: Folding) -> list[Text]:
    before, after = fold.pair(_json_text(one.before), _json_text(one.after), _CHANGE_CHARS)
    return [
        Text(f"  {fold.line(one.path, 200)}", style="bold"),
        Text(f"    - {before}", style="red"),
        Text(f"    + {after}", style="green"),
    ]


def _json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _emit_actors(recording: Recording, at: int, fold: Folding, *, as_json: bool) -> None:
    known, shared = recording.states(at), recording.shared_state(at)
    if as_json:
        actors = {name: plain(one) for name, one in known.items()}
        head = {"session": recording.session_id, "at": at, "checked": True, "actors": actors}
        emit_json({**head, "shared": _shared_json(shared)})
        return
    emit_lines(table([(name, summary(one)) for name, one in known.items()], ("ACTOR", "STATE")))
    if shared:
        emit("")
        rows = [_shared_row(cell, fold) for cell in shared.cells.values()]
        emit_lines(table(rows, _SHARED), is_whole=fold.is_full)


_SHARED = ("KEY", "REDUCER", "VALUE", "WRITTEN BY")


def _shared_row(cell: Cell, fold: Folding) -> tuple[str, str, str, str]:
    by = f"{cell.by}, event {cell.seq}" if cell.by else "no tool yet"
    value = bytes(cell.json()).decode()
    return safe_line(cell.key.name, 40), cell.key.reducer, fold.line(value, _VALUE_CHARS_MAX), by


def _shared_json(shared: SharedState) -> dict[str, object]:
    return {
        name: {"reducer": cell.key.reducer, "value": cell.json(), "by": cell.by, "seq": cell.seq}
        for name, cell in shared.cells.items()
    }


def _emit_actor(
    recording: Recording, at: int, actor: str, fold: Folding, *, is_checked: bool, as_json: bool
) -> None:
    found = recording.state(at, actor)
    if as_json:
        head = {"session": recording.session_id, "at": at, "checked": is_checked}
        emit_json({**head, "actor": actor, "state": plain(found)})
        return
    own = _supervisor(found) if isinstance(found, SupervisorState) else _agent(found)
    emit_lines(fields({"actor": actor, "after event": f"{at}", **own}))
    if isinstance(found, AgentState):
        _emit_conversation(found, fold)
    say_checked(is_checked=is_checked)


def _emit_conversation(state: AgentState, fold: Folding) -> None:
    if len(state.history):
        emit_lines([Text("\nconversation", style="bold")])
    head, left, tail = fold.ends(tuple(state.history.values()), FIRST_MESSAGES, LAST_MESSAGES)
    for message in head:
        emit(fold.block(msgspec.json.format(bytes(message), indent=2).decode()))
    if left:
        emit_lines([Text(), fold.gap(left, "messages between"), Text()])
    for message in tail:
        emit(fold.block(msgspec.json.format(bytes(message), indent=2).decode()))


def summary(state: ActorState) -> str:
    """Return the state in one line."""
    if isinstance(state, SupervisorState):
        parts = [state.phase, f"{counted(state.live, 'agent')} live"]
        parts.append(f"{counted(state.in_flight, 'model call')} in flight")
        parts += [f"{len(state.queue)} queued"] * bool(len(state.queue))
        parts += [f"{len(state.checks)} checking"] * bool(len(state.checks))
        return ", ".join(parts)
    parts = [state.phase]
    if state.prefix is not None:
        parts += [f"turn {state.turn}", counted(len(state.history), "message")]
        calls = state.calls
        parts += [f"{counted(calls.open.size, 'call')} unanswered"] * bool(calls.open.size)
        parts += [f"{counted(calls.tools, 'tool')} out"] * bool(calls.tools)
    return ", ".join(parts)


def plain(state: ActorState) -> object:
    """Return the state as JSON. Maps by number become objects, conversations lists."""
    return msgspec.Raw(msgspec.json.encode(to_jsonable(state)))


def _supervisor(state: SupervisorState) -> dict[str, str]:
    timers = [f"{timer.purpose} {timer.address}".strip() for _, timer in state.timers.items()]
    found = {
        "phase": state.phase,
        "agents": f"{state.live} live, {state.agents} ever",
        "model calls": f"{state.in_flight} in flight, {len(state.queue)} queued",
        "checks": f"{len(state.checks)} out" * bool(len(state.checks)),
        "timers": ", ".join(timers),
    }
    if (host := state.host) is not None:
        limit = f" of {host.budget.tokens:,}" if host.budget.tokens is not None else ""
        found["spent"] = f"{host.spent.tokens:,}{limit} tokens, {dollars(host.spent.micro_usd)}"
        found["reserved"] = f"{host.reserved.tokens:,} tokens" * bool(host.reserved.tokens)
    return found | _ask(state.ask)


def _ask(ask: AskState | None) -> dict[str, str]:
    if ask is None:
        return {}
    return {"ask": f"{safe_line(ask.request_id, 64)}, {ask.outcome.kind if ask.outcome else 'running'}"}


def _agent(state: AgentState) -> dict[str, str]:
    if state.prefix is None:
        return {"phase": f"{state.phase}; its memory is dropped" if state.phase == "idle" else state.phase}
    used = f"{state.turns_used} of {state.limits.max_iterations}"
    said = counted(len(state.history), "message")
    return {
        "phase": state.phase,
        "agent": state.prefix.profile.name,
        "model": state.model.name,
        "turn": f"{state.turn}, attempt {state.attempt}; {used} used",
        "conversation": f"{said}, at most {tokens(state.context_tokens)} tokens",
        "open calls": ", ".join(
            f"{safe_line(call.use.name, 64)} ({call.stage})" for call in state.calls.open.values()
        ),
        "answers": str(state.calls.answers.size or ""),
        "last text": safe_line(state.text, 400),
    }
