"""`callboard state` and `callboard request`: what an actor knew, and what a model was asked."""

import click
import msgspec
from rich.text import Text

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.messages import CallModel, ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.step import ActorState
from callboard.cli.errors import misused
from callboard.cli.message_summary import whole_prompt
from callboard.cli.options import Command, json_option, log_flag, log_option, session_argument
from callboard.cli.output import emit, emit_json, emit_lines, fields, table, talk
from callboard.cli.recordings import open_recording
from callboard.cli.states import plain, summary, summary_fields
from callboard.replay.recording import Recording


@click.command("state", cls=Command)
@session_argument
@click.option("--at", type=int, metavar="N", help="After event N; by default after the last.")
@click.option(
    "--actor", default="", metavar="A", help="host, host.1, ..., or supervisor; without it, all in short."
)
@log_option
@json_option
def state(session: str, at: int | None, actor: str, log: str, as_json: bool) -> None:
    """Show what an actor knew after an event.

    The state is computed anew from the log; no model is called. --json has all of it, the conversation
    included.

    \b
    Examples:
      callboard state --at 12
      callboard state 2026 --at 12 --actor host.1
      callboard state --actor host --json | jq .state.history
    """
    recording, _ = open_recording(log, session)
    upto = len(recording.events) if at is None else at
    head = {"session": recording.session_id, "at": upto}
    if not actor:
        known = recording.states(upto)
        if as_json:
            emit_json({**head, "actors": {name: plain(one) for name, one in known.items()}})
            return
        emit_lines(table([(name, summary(one)) for name, one in known.items()], ("ACTOR", "STATE")))
        return
    found = recording.state(upto, actor)
    if as_json:
        emit_json({**head, "actor": actor, "state": plain(found)})
        return
    emit_lines(fields({"actor": actor, "after event": f"{upto}", **summary_fields(found)}))
    _show_conversation(found)


def _show_conversation(found: ActorState) -> None:
    if not isinstance(found, AgentState) or not len(found.history):
        return
    emit_lines([Text("\nconversation", style="bold")])
    for message in found.history.values():
        emit(msgspec.json.format(bytes(message), indent=2).decode())


@click.command("request", cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="[SESSION] SEQ")
@log_option
@json_option
def request(words: tuple[str, ...], log: str, as_json: bool) -> None:
    """Show exactly what a model was asked.

    SEQ is the number of a CallModel event, or of the ModelReplied that answers it:
    `callboard events --kind CallModel` lists them. --json has the request as it was, in its own key order;
    cache marks are the model's business and not part of it.

    \b
    Examples:
      callboard request 5
      callboard request 2026 17 --json | jq '.messages[-1]'
    """
    if len(words) > 2 or not words[-1].isdecimal():
        raise misused("write the number of a CallModel event: callboard request [SESSION] SEQ")
    recording, _ = open_recording(log, words[0] if len(words) == 2 else "")
    asked = recording.request(_grant(recording, int(words[-1])))
    if as_json:
        emit_json(asked.body())
        return
    _show_request(asked)
    talk(f"\nall of it, as JSON: callboard request {recording.session_id} {words[-1]} --json{log_flag()}")


def _grant(recording: Recording, seq: int) -> int:
    """The seq of the grant that is meant."""
    event = recording.event(seq)
    if isinstance(event.body, ModelReplied):
        return event.cause
    if not isinstance(event.body, CallModel):
        grants = [str(one.seq) for one in recording.events if isinstance(one.body, CallModel)][:12]
        raise UnknownName(
            f"event {seq} is {event.kind}, not CallModel; the first of those: {', '.join(grants) or 'none'}"
        )
    return seq


def _show_request(asked: ModelRequest) -> None:
    tools = [msgspec.json.decode(tool, type=dict[str, object]).get("name") for tool in asked.tools]
    emit_lines(
        fields(
            {
                "asked for": f"{asked.address} ({asked.profile}), turn {asked.turn}, attempt {asked.attempt}",
                "model": f"{asked.model.name}, at most {asked.model.max_tokens:,} tokens",
                "tools": ", ".join(map(str, tools)) or "none",
                "must use": asked.force_tool,
                "system": whole_prompt(asked.system),
            }
        )
    )
    for place, message in enumerate(asked.messages, 1):
        value = msgspec.json.decode(message, type=dict[str, msgspec.Raw])
        role = msgspec.json.decode(value["role"], type=str)
        emit_lines([Text(f"\n{place} {role}", style="bold")])
        emit(_content(value["content"]))


def _content(content: msgspec.Raw) -> str:
    """A message's content: text as text, blocks as JSON."""
    value = msgspec.json.decode(content)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, dict) and one.get("type") == "text" for one in value):
        return whole_prompt(content)
    return msgspec.json.format(bytes(content), indent=2).decode()
