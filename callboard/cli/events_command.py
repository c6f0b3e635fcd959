"""`callboard events`: the events of a session, one a line."""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from typing import Final, get_args

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import PORTS, SUPERVISOR
from callboard.actors.protocol.client_messages import SessionClosed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallModel
from callboard.cli.errors import refuse_if
from callboard.cli.event_lines import emit_spans, event_json, lines_of
from callboard.cli.folding import Folding
from callboard.cli.options import (
    check_option,
    full_option,
    json_option,
    log_flag,
    log_option,
    session_argument,
)
from callboard.cli.output import emit_json, emit_lines, is_terminal, talk, width_of_stdout
from callboard.cli.recordings import find_place, open_reader, open_recording
from callboard.cli.terminal_escape import indented
from callboard.replay.grouping import Span
from callboard.replay.recording import Recording
from callboard.runtime.log.hash_chain import PageSizes
from callboard.runtime.log.protocol import LogReader, Stored, event_of
from callboard.runtime.log.session_rows import SessionRow

KINDS: Final = tuple(sorted(kind.__name__ for kind in get_args(AnyMessage)))
_STEPS_ALL: Final = "--step shows every event: leave --follow, --grouped, --kind, --actor and --full out"
_PAGE: Final = 1_000
_POLL_S: Final = 0.2


@dataclass(frozen=True)
class Filter:
    """A choice of events. An empty set chooses all."""

    start: int = 1
    upto: int = sys.maxsize
    kinds: frozenset[str] = frozenset()
    actors: frozenset[str] = frozenset()

    def takes(self, event: Event) -> bool:
        """Return whether this event is chosen; an actor's events include its grants."""
        if self.kinds and event.kind not in self.kinds:
            return False
        if not self.actors:
            return True
        granted = event.body.agent if isinstance(event.body, CallModel) else ""
        return bool(self.actors & {event.sender, event.recipient, granted})

    def takes_span(self, span: Span) -> bool:
        """Return whether this span is chosen: it begins in the range, and is one of these actors'."""
        is_inside = self.start <= span.first.seq <= self.upto
        return is_inside and (not self.actors or bool(self.actors & {span.agent, span.last.sender}))


@click.command("events")
@session_argument
@click.option("--from", "start", type=click.IntRange(min=1), default=1, metavar="N", help="From event N on.")
@click.option(
    "--to", "upto", type=click.IntRange(min=1), default=sys.maxsize, metavar="N", help="Up to event N."
)
@click.option(
    "--kind", "kinds", multiple=True, metavar="K", help="Only this kind of message. May be repeated."
)
@click.option(
    "--actor",
    "actors",
    multiple=True,
    metavar="A",
    help="Only events that this actor sent or received. May be repeated.",
)
@click.option(
    "--grouped",
    is_flag=True,
    help="One line for each turn, call, delegation, report and message.",
)
@click.option("--step", is_flag=True, help="Step through with keys; off a terminal, print each step.")
@full_option
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until the session is closed.")
@check_option
@log_option
@json_option
def events(
    session: str,
    start: int,
    upto: int,
    kinds: tuple[str, ...],
    actors: tuple[str, ...],
    grouped: bool,
    step: bool,
    full: bool,
    follow: bool,
    check: bool,
    log: str,
    as_json: bool,
) -> None:
    """List a session's events, one per line.

    A line has the event's number, the local time, sender, recipient and kind, the event that it answers, its
    call as AGENT:TURN:CALL, and a summary of the message. With --json each line is a JSON object with the
    whole message under `body` and the time in UTC. A terminal with fewer than 110 columns has no room for the
    time, the call and the answered event. Every command accepts SESSION#SEQ and SESSION#AGENT:TURN:CALL.
    SESSION#SEQ is the same as --from SEQ. --full shows each message whole, below its line.

    An actor is `host`, a sub-agent such as `host.1`, `supervisor`, or an edge to the world: `model`,
    `tools`, `schema`, `clock`, `client`.

    With --grouped each line is a turn, a call, a delegation, a report, a message to an agent, a cancel, a
    timer that fired, a context or a change of agents, from its first event to its last, with its outcome, its
    duration, its attempts, and the events between.

    With --step each event is shown with its envelope, its message, the decision that posted it, the events
    that answer it, and the state of its recipient afterwards, as the deciders compute it from the log. No
    model is called and no tool runs. On a terminal, keys move through the events, starting at SESSION#SEQ or
    --from N. Off a terminal, or with --json, the steps are printed one after the other, or only that of
    SESSION#SEQ, whose JSON has the whole state. Digests are checked when all steps are printed, or with
    --check.

    \b
    Keys of --step:
      enter, n, space, down   next          p, up    back
      12 enter                event 12      g, G     first, last
      a, A                    next event of this actor, the last one before
      d, D                    next delegation, the last one before
      f, F                    next failure or refusal, the last one before
      /                       search for a text
      v                       last change of a field of the actor's state
      b                       all of a long message
      s                       all of the actor's state, as JSON
      c                       the fields of the state that the event changed
      r                       the request of the model call
      w                       why: what the event was made of, and the way to it
      q                       leave

    \b
    Examples:
      callboard events --from 10 --to 20
      callboard events 2026 --kind CallTool --kind ToolReturned --actor host.1
      callboard events --kind ModelReplied --json | jq .body.usage
      callboard events --grouped --actor host.1
      callboard events --follow
      callboard events --step
      callboard events 2026#12 --step | less
    """
    with open_reader(log) as reader:
        row, seq = find_place(reader, session)
    start = start if seq is None else max(start, seq)
    if step:
        refuse_if(follow or grouped or bool(kinds or actors or full), _STEPS_ALL)
        last = upto if seq is None else min(seq, upto)
        _step_through(open_recording(log, row.session_id)[0], start, last, is_checked=check, as_json=as_json)
        return
    if check:
        open_recording(log, row.session_id)[0].check()
    wanted = Filter(start, upto, kinds_named(kinds), _actors(actors))
    if grouped:
        refuse_if(follow or bool(kinds), "--grouped shows whole calls: leave out --follow and --kind")
        emit_spans(row.session_id, log, wanted.takes_span, as_json=as_json)
        return
    _emit_events(row, log, wanted, is_followed=follow, as_json=as_json, fold=Folding(is_full=full))


def _emit_events(
    row: SessionRow, log: str, wanted: Filter, *, is_followed: bool, as_json: bool, fold: Folding
) -> None:
    """Print the events of a session that a filter takes, one on a line."""
    width = width_of_stdout()
    with open_reader(log) as reader:
        if wanted.start > row.head and not is_followed:
            talk(f"session {row.session_id} has {row.head} events, so none from {wanted.start} on")
        found = chosen(reader, row.session_id, wanted, is_endless=is_followed)
        if as_json:
            for stored, event in found:
                emit_json(event_json(row.session_id, stored, event), is_line=True)
        else:
            _emit_lines((event for _, event in found), width, fold)
            talk(places_of(row.session_id))


def _step_through(recording: Recording, start: int, upto: int, *, is_checked: bool, as_json: bool) -> None:
    """Step through a recording on a terminal, or print its steps. start: an event that exists."""
    # Here: a list of events needs no deciders.
    from callboard.cli.stepper import Stepper, emit_steps

    if start > 1:  # a session without events has no steps, which is fine
        recording.event(start)
    last = min(upto, recording.head.seq)
    is_stepped = not as_json and sys.stdin.isatty() and is_terminal(sys.stdout)
    is_checked = is_checked or not (is_stepped or start > 1 or last < recording.head.seq)
    if is_checked:
        recording.check()
    if is_stepped:
        Stepper(recording, start).run()
    else:
        emit_steps(recording, start, last, is_checked=is_checked, as_json=as_json)


def _emit_lines(events: Iterable[Event], width: int, fold: Folding) -> None:
    kept, shown = tee(events)
    for event, line in zip(kept, lines_of(shown, width), strict=True):
        fold.note(line.plain.endswith("…") and not fold.is_full)
        body = msgspec.json.format(encode(event.body), indent=2).decode() if fold.is_full else ""
        emit_lines([line, *(Text(indented(body), style="dim"),) * fold.is_full], is_whole=fold.is_full)
    fold.say()


def chosen(
    reader: LogReader, session_id: str, wanted: Filter, *, is_endless: bool
) -> Iterator[tuple[Stored, Event]]:
    """Yield the chosen events, each with its row. is_endless: wait for more until the session is closed."""
    for stored in _rows(reader, session_id, wanted, is_endless=is_endless):
        event = event_of(session_id, stored)
        if wanted.takes(event):
            yield stored, event
        if is_endless and isinstance(event.body, SessionClosed):
            return


def _rows(reader: LogReader, session_id: str, wanted: Filter, *, is_endless: bool) -> Iterator[Stored]:
    following = wanted.start
    sizes = PageSizes(_PAGE)
    while following <= wanted.upto:
        page = reader.events(session_id, following, min(sizes.events, wanted.upto - following + 1))
        sizes.note(page)
        yield from page
        following += len(page)
        if not page:
            if not is_endless:
                return
            time.sleep(_POLL_S)


def places_of(session_id: str) -> str:
    """Say how the events and calls of a list are named on a command line."""
    name = shlex.quote(session_id)
    return f"\nan event of these: {name}#SEQ, a call: {name}#AGENT:TURN:CALL{log_flag()}"


def kinds_named(names: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds of these names, in any case of letters. Fails for an unknown one."""
    known = {kind.lower(): kind for kind in KINDS}
    for name in names:
        refuse_if(name.lower() not in known, f"there is no kind {name!r}; kinds: {', '.join(KINDS)}")
    return frozenset(known[name.lower()] for name in names)


def _actors(names: tuple[str, ...]) -> frozenset[str]:
    for name in names:
        refuse_if(
            name not in PORTS and name != SUPERVISOR and not name.startswith("host"),
            f"there is no actor {name!r}; write host, host.1, ..., {SUPERVISOR}, "
            f"or one of {', '.join(sorted(PORTS))}",
        )
    return frozenset(names)
