"""`callboard why`: the causes of an event, its parts, and the source of a value in it."""

from collections.abc import Sequence

import click
from rich.text import Text

from callboard.actors.agent.program_step import is_step
from callboard.actors.protocol.client_messages import Ask, Forked, SessionOpened, Tell
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ApprovalGiven, ContextMade, ModelReplied, ToolReturned
from callboard.actors.session.place_names import call_name
from callboard.cli.event_lines import lines_of, summary_of
from callboard.cli.folding import Folding
from callboard.cli.options import (
    check_option,
    event_argument,
    full_option,
    json_option,
    log_flag,
    log_option,
)
from callboard.cli.output import attributes, emit_json, emit_lines, talk, width_of_stdout
from callboard.cli.recordings import open_event, say_checked
from callboard.replay.rights import label_source
from callboard.replay.why import Why

_SHOWN = 12  # events of a long list, beside those that matter


@click.command("why")
@event_argument
@click.option(
    "--value", default="", metavar="V", help="A text or number in the event: show where it first appeared."
)
@click.option("--label", default="", metavar="L", help="A label of the event's agent: show its source.")
@full_option
@check_option
@log_option
@json_option
def why(
    words: tuple[str, ...], value: str, label: str, full: bool, check: bool, log: str, as_json: bool
) -> None:
    """Show why an event happened.

    The output begins with one path from a client's input to the event. Below it are the events that
    contributed to its content; for a request or a reply of a model, those that were new in the request. With
    --value, it lists the events that contain the value, from this one back to the one where it first
    appeared; others that could be its source are listed under "also in"; for a value that a model made
    itself, it shows the inputs. With --label, it lists the events through which the label reached the event's
    agent, from the newest to the source.

    Only the required events are read, so digests are checked only with --check.

    \b
    Examples:
      callboard why 120
      callboard why 2026#120 --value 41900
      callboard why 120 --label untrusted
    """
    recording, seq = open_event(log, words)
    if check:
        recording.check()
    found = recording.why(seq, value)
    labelled = label_source(recording.events, seq, label) if label else ()
    if as_json:
        more = {"label": _json(labelled)} if label else {}
        emit_json({"session": recording.session_id, "seq": seq, "checked": check, **why_json(found), **more})
        return
    fold = Folding(is_full=full)
    _emit("the way to it", found.way, fold)
    _emit("made of", found.parts, fold)
    if value:
        _emit_source(found, value, fold)
    if label:
        _emit(f"the source of the label {label!r}", labelled, fold)
    if isinstance(found.event.body, ModelReplied):
        talk(f"\nthe whole request to the model: callboard request {recording.session_id}#{seq}{log_flag()}")
    fold.say()
    say_checked(is_checked=check)


def _emit_source(found: Why, value: str, fold: Folding) -> None:
    _emit(f"the source of {value!r}", found.source, fold)
    emit_lines([Text(f"\n{_first_words(found)}", style="bold")])
    if found.also_in:
        _emit("also in, and no log says which of them was read", found.also_in, fold)
    if found.made_of:
        _emit("that reply was made of", found.made_of, fold)
    if found.odd is not None:
        emit_lines([Text(f"\nevent {found.odd.seq} stands out: its number is far from those of the others")])


def _emit(title: str, events: Sequence[Event], fold: Folding) -> None:
    width = width_of_stdout()
    shown = fold.essential(events, _SHOWN)
    drawn = lines_of([one for one in shown if isinstance(one, Event)], width)
    lines = [next(drawn) if isinstance(one, Event) else fold.gap(one, "events", "       ") for one in shown]
    lines = lines or [Text("       nothing: it is an input")]
    emit_lines([Text(f"\n{title}", style="bold"), *lines], is_whole=fold.is_full)


def _first_words(found: Why) -> str:
    """Say in one line who brought the value into the session."""
    first = found.source[-1]
    place = call_name(first)
    where = f"event {first.seq}" + f", {place}" * bool(place)
    holds = "holds it"
    if found.like is not None:
        holds += f", but {found.like[0]!r} in event {found.like[1].seq} is nearly the same"
    if found.written:
        where += f", written {found.written!r:.80}"
    if found.also_in:  # no place may look like the only one
        where += f", one of {len(found.also_in) + 1} places that hold it"
    match first.body:
        case ModelReplied(content=content):
            if is_step(content):
                return f"{where}: the program {first.recipient} made it; nothing that it was given {holds}"
            return f"{where}: the model of {first.recipient} wrote it; nothing that it was asked {holds}"
        case ToolReturned():
            return f"{where}: a tool returned it to {first.recipient}"
        case SessionOpened():
            return f"{where}: it stands in the description of an agent"
        case Ask() | Tell():
            return f"{where}: the client wrote it"
        case Forked():
            return f"{where}: the client wrote it, as a change of this fork"
        case ApprovalGiven():
            return f"{where}: a person wrote it"
        case ContextMade() | Begin():
            return f"{where}: {first.recipient} was given it at its start"
        case _:
            return f"{where}: {first.sender} posted it: {summary_of(first.body)}"


def why_json(found: Why) -> dict[str, object]:
    """Return an explanation for `--json`."""
    lists = {"way": found.way, "parts": found.parts, "source": found.source}
    lists |= {"also_in": found.also_in, "made_of": found.made_of}
    odd = None if found.odd is None else found.odd.seq
    like = None if found.like is None else {"value": found.like[0], "seq": found.like[1].seq}
    one: dict[str, object] = {"odd": odd, "like": like, "written": found.written}
    return {name: _json(events) for name, events in lists.items()} | one


def _json(events: Sequence[Event]) -> list[dict[str, object]]:
    return [
        {**attributes(one, "seq", "sender", "recipient", "kind"), "place": call_name(one)} for one in events
    ]
