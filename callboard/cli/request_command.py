"""`callboard request`: the exact request of a model call."""

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.place_names import named
from callboard.actors.session.recorded_answers import OF_MODEL
from callboard.cli.folding import FIRST_MESSAGES, LAST_MESSAGES, Folding
from callboard.cli.options import (
    check_option,
    event_argument,
    full_option,
    json_option,
    log_flag,
    log_option,
)
from callboard.cli.output import emit, emit_json, emit_lines, fields, talk
from callboard.cli.recordings import open_event, say_checked
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import whole_prompt


@click.command("request")
@event_argument
@click.option("--as-sent", is_flag=True, help="Rebuild its body, and say if it is the one that was sent.")
@click.option("--model", default="", metavar="M", help="With --as-sent: PROVIDER:NAME, or FILE.py:model.")
@full_option
@check_option
@log_option
@json_option
def request(
    words: tuple[str, ...], as_sent: bool, model: str, full: bool, check: bool, log: str, as_json: bool
) -> None:
    """Show the exact request of a model call.

    SEQ is the number of any event of the turn: the CallModel, the TurnRequested that led to it, its reply, or
    a call of this reply and its answer. --json prints the request as it was, in its own key order; cache
    marks are added by the model, so they are not part of it. Long messages and conversations are folded. Only
    the agent's own events are read, so digests are checked only with --check.

    --as-sent rebuilds the body with the model and the libraries that are installed, and says `same` or
    `differs`. Nothing is sent. If the model was created with arguments, name it with --model. A body in the
    log (`Runtime(keep_requests=True)`) is printed byte for byte, with the comparison on stderr.

    \b
    Examples:
      callboard request 5
      callboard request 2026#17 --json | jq '.messages[-1]'
      callboard request 7 --as-sent | sha256sum
    """
    recording, seq = open_event(log, words)
    if check:
        recording.check()
    asked = recording.request(seq)
    if as_sent:
        from callboard.cli.as_sent import (
            compare,  # it loads agents and models, which no reader of a log needs
        )

        compare(recording, asked, model, as_json=as_json)
        return
    if as_json:
        emit_json(asked.body())
        return
    fold = Folding(is_full=full)
    show_request(asked, fold)
    fold.say()
    say_checked(is_checked=check)
    talk(f"\neverything, as JSON: callboard request {recording.session_id}#{seq} --json{log_flag()}")


def show_request(asked: ModelRequest, fold: Folding) -> None:
    """Print a request: its facts, and its messages."""
    tools = [msgspec.json.decode(tool, type=dict[str, object]).get("name") for tool in asked.tools]
    facts = {
        "reply": named((asked.address, asked.turn, OF_MODEL)),
        "asked for": f"{_asker(asked)}, turn {asked.turn}, attempt {asked.attempt}",
        "model": _model(asked.model),
        "tools": ", ".join(map(str, tools)) or "none",
        "must use": asked.force_tool,
        "system": fold.block(whole_prompt(asked.system)),
    }
    emit_lines(fields(facts))
    _show_messages(asked, fold)


def _model(model: ModelSpec) -> str:
    if model.is_program:
        return "none: this is a step of a program"
    return f"{model.name}, at most {model.max_tokens:,} tokens"


def _asker(asked: ModelRequest) -> str:
    """Return the agent that asks. A question of a program is a turn of that, which has its messages."""
    if asked.profile == ASK_MODEL:
        return f"{parent_of(asked.address)}, its question {asked.address}"
    return f"{asked.address} ({asked.profile})"


def _show_messages(asked: ModelRequest, fold: Folding) -> None:
    numbered = list(enumerate(asked.messages))
    head, left, tail = fold.ends(numbered, FIRST_MESSAGES, LAST_MESSAGES)
    for place, message in head:
        _show_message(asked, place, message, fold)
    if left:
        emit_lines([Text(), fold.gap(left, "messages between"), Text()])
    for place, message in tail:
        _show_message(asked, place, message, fold)


def _show_message(asked: ModelRequest, place: int, message: Json, fold: Folding) -> None:
    value = msgspec.json.decode(message, type=dict[str, msgspec.Raw])
    role = msgspec.json.decode(value["role"], type=str)
    other = _other(maker_of(asked.origins)(place), asked) if role == "assistant" else ""
    emit_lines([Text(f"\n{place + 1} {role}{other}", style="bold")])
    emit(fold.block(_content(value["content"])))


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
