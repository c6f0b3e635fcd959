"""`callboard state` and `callboard request`: an actor's state, and the request of a model call."""

import click
import msgspec
from rich.text import Text

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.shared_state import Cell, SharedState
from callboard.actors.session.step import ActorState
from callboard.actors.supervisor.state import AskState, SupervisorState
from callboard.cli.as_sent import compare
from callboard.cli.formats import counted, dollars, tokens
from callboard.cli.message_summary import whole_prompt
from callboard.cli.options import (
    check_option,
    event_argument,
    json_option,
    log_flag,
    log_option,
    session_argument,
)
from callboard.cli.output import emit, emit_json, emit_lines, fields, table, talk
from callboard.cli.recordings import open_recording, place_of, say_checked
from callboard.cli.terminal_escape import safe_line
from callboard.replay.digests import to_jsonable
from callboard.replay.recording import Recording

_VALUE_CHARS_MAX = 60


@click.command("state")
@session_argument
@click.option("--at", type=int, metavar="N", help="After event N; by default after the last.")
@click.option(
    "--actor", default="", metavar="A", help="host, host.1, ..., or supervisor; without it, all in short."
)
@check_option
@log_option
@json_option
def state(session: str, at: int | None, actor: str, check: bool, log: str, as_json: bool) -> None:
    """Show the state of an actor after an event.

    The deciders compute the state again from the log; no model is called. --json has all of it, the
    conversation included. Without --actor the shared state follows, with the agent whose tool wrote each key
    last.

    Without --actor every event up to N is read and its digest checked. With --actor only that actor's events
    are read, which is fast in a long session; their digests cannot be checked alone, so the answer says
    `chain not checked`, and --check reads the rest.

    \b
    Examples:
      callboard state --at 12
      callboard state 2026 --at 12 --actor host.1
      callboard state --actor host --json | jq .state.history
    """
    recording, _ = open_recording(log, session)
    if check:
        recording.check()
    upto = recording.head.seq if at is None else at
    if actor:
        _emit_state(recording, upto, actor, is_checked=check, as_json=as_json)
    else:
        _emit_states(recording, upto, as_json=as_json)


def _emit_states(recording: Recording, at: int, *, as_json: bool) -> None:
    known, shared = recording.states(at), recording.shared_state(at)
    if as_json:
        actors = {name: plain(one) for name, one in known.items()}
        head = {"session": recording.session_id, "at": at, "checked": True, "actors": actors}
        emit_json({**head, "shared": _shared_json(shared)})
        return
    emit_lines(table([(name, summary(one)) for name, one in known.items()], ("ACTOR", "STATE")))
    if shared:
        emit("")
        emit_lines(table(list(map(_shared_row, shared.cells.values())), _SHARED))


_SHARED = ("KEY", "REDUCER", "VALUE", "WRITTEN BY")


def _shared_row(cell: Cell) -> tuple[str, str, str, str]:
    by = f"{cell.by}, event {cell.seq}" if cell.by else "no tool yet"
    value = bytes(cell.json()).decode()
    return safe_line(cell.key.name, 40), cell.key.reducer, safe_line(value, _VALUE_CHARS_MAX), by


def _shared_json(shared: SharedState) -> dict[str, object]:
    return {
        name: {"reducer": cell.key.reducer, "value": cell.json(), "by": cell.by, "seq": cell.seq}
        for name, cell in shared.cells.items()
    }


def _emit_state(recording: Recording, at: int, actor: str, *, is_checked: bool, as_json: bool) -> None:
    found = recording.state(at, actor)
    if as_json:
        head = {"session": recording.session_id, "at": at, "checked": is_checked}
        emit_json({**head, "actor": actor, "state": plain(found)})
        return
    own = _supervisor(found) if isinstance(found, SupervisorState) else _agent(found)
    emit_lines(fields({"actor": actor, "after event": f"{at}", **own}))
    if isinstance(found, AgentState):
        _emit_conversation(found)
    say_checked(is_checked=is_checked)


def _emit_conversation(state: AgentState) -> None:
    if len(state.history):
        emit_lines([Text("\nconversation", style="bold")])
    for message in state.history.values():
        emit(msgspec.json.format(bytes(message), indent=2).decode())


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
        parts += [f"{counted(state.unanswered, 'call')} unanswered"] * bool(state.unanswered)
        parts += [f"{counted(state.tools_out, 'tool')} out"] * bool(state.tools_out)
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
        "calls": ", ".join(safe_line(use.name, 64) for use in state.uses),
        "unanswered": f"{state.unanswered}, {counted(state.tools_out, 'tool')} out" * bool(state.unanswered),
        "last text": safe_line(state.text, 400),
    }


@click.command("request")
@event_argument
@click.option("--as-sent", is_flag=True, help="Make its body again, and say if it is the one that was sent.")
@click.option("--model", default="", metavar="M", help="With --as-sent: PROVIDER:NAME, or FILE.py:model.")
@check_option
@log_option
@json_option
def request(words: tuple[str, ...], as_sent: bool, model: str, check: bool, log: str, as_json: bool) -> None:
    """Show the exact request of a model call.

    SEQ is the number of a CallModel event, of the TurnRequested that led to it, or of the ModelReplied that
    answers it: `callboard events --kind CallModel` lists them. --json has the request as it was, in its own
    key order; the model adds cache marks, so they are not part of it. Only the agent's own events are read,
    so digests are checked with --check only.

    --as-sent makes the body again with the model and the libraries that are installed, and says `same` or
    `differs`. Nothing is sent. A model that was made with arguments of its own is named by --model. A body
    that was kept (`Runtime(keep_requests=True)`) is printed byte for byte, and the comparison on stderr.

    \b
    Examples:
      callboard request 5
      callboard request 2026#17 --json | jq '.messages[-1]'
      callboard request 7 --as-sent | sha256sum
    """
    session, seq = place_of(words)
    recording, _ = open_recording(log, session)
    if check:
        recording.check()
    asked = recording.request(seq)
    if as_sent:
        compare(recording, asked, model, as_json=as_json)
        return
    if as_json:
        emit_json(asked.body())
        return
    _show_request(asked)
    say_checked(is_checked=check)
    talk(f"\nall of it, as JSON: callboard request {recording.session_id}#{seq} --json{log_flag()}")


def _show_request(asked: ModelRequest) -> None:
    tools = [msgspec.json.decode(tool, type=dict[str, object]).get("name") for tool in asked.tools]
    facts = {
        "asked for": f"{asked.address} ({asked.profile}), turn {asked.turn}, attempt {asked.attempt}",
        "model": f"{asked.model.name}, at most {asked.model.max_tokens:,} tokens",
        "tools": ", ".join(map(str, tools)) or "none",
        "must use": asked.force_tool,
        "system": whole_prompt(asked.system),
    }
    emit_lines(fields(facts))
    maker = maker_of(asked.origins)
    for place, message in enumerate(asked.messages):
        value = msgspec.json.decode(message, type=dict[str, msgspec.Raw])
        role = msgspec.json.decode(value["role"], type=str)
        other = _other(maker(place), asked) if role == "assistant" else ""
        emit_lines([Text(f"\n{place + 1} {role}{other}", style="bold")])
        emit(_content(value["content"]))


def _other(maker: Origin | None, asked: ModelRequest) -> str:
    """Name the maker of a message if it is not the model that is asked."""
    if maker is None or maker == asked.model.made_by:
        return ""
    parts = msgspec.structs.astuple(maker)
    return safe_line(", made by " + " ".join(filter(None, parts)), 200)


def _content(content: msgspec.Raw) -> str:
    """Return a message's content: text as text, blocks as JSON."""
    try:
        msgspec.json.decode(content, type=str | list[_TextBlock])
    except msgspec.ValidationError:
        return msgspec.json.format(bytes(content), indent=2).decode()
    return whole_prompt(content)


class _TextBlock(msgspec.Struct, tag="text"):
    text: str
