"""Checks of the log and the notes, after every kill and at the end of every session.

Each check returns or yields its findings as sentences.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.kept_bodies import body_after
from callboard.actors.protocol.messages import DeciderFailed
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.scripted_session import is_closed
from callboard.runtime.log.protocol import Head, LogReader, Stored
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.crash.notes import (
    Effect,
    Seen,
    SeenEvent,
    SeenHead,
    SeenOutcome,
    read_effects,
    read_seen,
)
from tests.crash.told import wrong_programs, wrong_state, wrong_tells


def wrong_after_kill(folder: Path) -> list[str]:
    """Return the faults in the log and the notes of a killed process."""
    return _wrong(folder, None)


def heads_of(folder: Path) -> dict[str, int]:
    """Return the seq of the last event of each session."""
    try:
        with SQLiteReader(folder / "log.db") as reader:
            return {row.session_id: row.head for row in reader.sessions()}
    except CallboardError:  # there is no log yet
        return {}


def wrong_after_leaving(folder: Path, heads: Mapping[str, int]) -> list[str]:
    """Return the faults in the log and the notes of a process that has left politely.

    heads: of the sessions before it began. It owes an answer to each model call that it has made itself.
    """
    found = wrong_after_kill(folder)
    if found or not read_seen(folder / "seen"):  # it may have left before there was a log
        return found
    with SQLiteReader(folder / "log.db") as reader:
        for row in reader.sessions():
            events = Recording.open(reader, row.session_id).events
            answered = {event.cause for event in events if isinstance(event.body, ModelReplied)}
            made = (event.seq for event in events if isinstance(event.body, CallModel | RunStep))
            open_calls = {seq for seq in made if seq > heads.get(row.session_id, 0)} - answered
            found += [f"session {row.session_id}: model call {seq} has no answer" for seq in open_calls]
    return found


def wrong_at_end(folder: Path, asks: Mapping[str, int]) -> list[str]:
    """Return the faults in ended sessions. asks: the number of asks by session."""
    return _wrong(folder, asks)


def seen_up_to(folder: Path) -> dict[str, int]:
    """Return the last seq that was shown of each session."""
    last: dict[str, int] = {}
    for note in read_seen(folder / "seen"):
        if isinstance(note, SeenEvent):
            last[note.session] = max(note.seq, last.get(note.session, 0))
    return last


def _wrong(folder: Path, asks: Mapping[str, int] | None) -> list[str]:
    seen, effects = read_seen(folder / "seen"), read_effects(folder / "effects")
    log = folder / "log.db"
    if not log.exists():
        return ["the log is gone"] * bool(seen or effects)
    try:
        with SQLiteReader(log) as reader:
            names = [row.session_id for row in reader.sessions()]
            expected = {note.session for note in seen} | set(asks or ())
            found = [f"session {name} is gone" for name in sorted(expected - set(names))]
            for name in names:
                told = [note for note in seen if note.session == name]
                did = [effect for effect in effects if effect.session == name]
                wrong = _wrong_in_session(reader, name, told, did, None if asks is None else asks[name])
                found += [f"session {name}: {what}" for what in wrong]
    except CallboardError as error:
        if not seen and not effects:  # it was killed before the file existed
            return []
        return [f"{type(error).__name__}: {error}"]
    return found


def _wrong_in_session(
    reader: LogReader, name: str, seen: Sequence[Seen], effects: Sequence[Effect], asks: int | None
) -> Iterator[str]:
    heads = [note for note in seen if isinstance(note, SeenHead) and note.seq]
    last = max(heads, key=lambda note: note.seq, default=None)
    known = Head(last.seq, bytes.fromhex(last.digest)) if last else None
    recording = Recording.open(reader, name, head=known)
    rows, events = list(recording.rows), list(recording.events)  # read once: they decode at every look
    for note in heads:
        if rows[note.seq - 1].digest.hex() != note.digest:
            yield f"event {note.seq} was acknowledged with digest {note.digest}, and has another one"
    yield from _lost_events(rows, seen)
    yield from _contradicted(events, seen)
    yield from _effects(events, name, effects)
    yield from wrong_tells(events, seen, is_over=asks is not None)
    yield from wrong_state(events, name, effects, seen)
    yield from wrong_programs(events)
    yield from _wrong_bodies(events)
    if asks is not None:
        yield from _at_end(recording, events, asks)


def _lost_events(rows: Sequence[Stored], seen: Sequence[Seen]) -> Iterator[str]:
    """Yield the shown events that are not in the log, byte for byte."""
    for note in seen:
        if not isinstance(note, SeenEvent):
            continue
        if note.seq > len(rows):
            yield f"event {note.seq} was shown and is lost"
            continue
        row = rows[note.seq - 1]
        stored = (row.seq, row.at, row.sender, row.recipient, row.cause, row.body.decode())
        shown = (note.seq, note.at, note.sender, note.recipient, note.cause, note.body)
        if stored != shown:
            yield f"event {note.seq} was shown as {shown} and is {stored}"


def _contradicted(events: Sequence[Event], seen: Sequence[Seen]) -> Iterator[str]:
    """Yield the asks with several outcomes, or with another outcome than the one that was given."""
    ends: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for event in events:
        if isinstance(body := event.body, AskEnded):
            usage = msgspec.json.encode(body.usage).decode()
            ends[body.request_id].append((body.kind, body.text, bytes(body.value).decode(), usage))
    yield from (f"{ask} ended {len(told)} times" for ask, told in ends.items() if len(told) > 1)
    for note in seen:
        if isinstance(note, SeenOutcome):
            given = (note.kind, note.text, note.value, note.usage)
            if [given] != ends[note.request_id][:1]:
                yield f"{note.request_id} was said to end {given}, and is {ends[note.request_id]}"


def _effects(events: Sequence[Event], name: str, effects: Sequence[Effect]) -> Iterator[str]:
    """Compare the effects of tools with the log."""
    calls = {
        f"{name}/{e.sender}/{e.body.turn}/{e.body.call}": e for e in events if isinstance(e.body, CallTool)
    }
    started = {e.cause for e in events if isinstance(e.body, ToolStarted)}
    status = {e.cause: e.body.status for e in events if isinstance(e.body, ToolReturned)}
    keys: dict[str, set[str]] = defaultdict(set)
    runs: dict[str, int] = defaultdict(int)
    for effect in effects:
        keys[effect.label].add(effect.key)
        runs[effect.key] += 1
        call = calls.get(effect.key)
        if call is None:
            yield f"{effect.key} took effect, and the log does not know of it"
        elif effect.effect == "write" and call.seq not in started:
            yield f"{effect.key} took effect before its start was in the log"
        elif status.get(call.seq) == "cancelled":
            yield f"{effect.key} took effect, and the log says that it never started"
    yield from (f"{label} ran under several keys: {some}" for label, some in keys.items() if len(some) > 1)
    for key, call in calls.items():
        assert isinstance(call.body, CallTool)
        effect_, times = call.body.effect, runs[key]
        if effect_ == "write" and times > 1:
            yield f"write {key} ran {times} times"
        if effect_ != "read" and times == 0 and status.get(call.seq) == "ok":
            yield f"{key} is said to have run, and never did"


def _wrong_bodies(events: Sequence[Event]) -> Iterator[str]:
    """Yield the answers whose request was kept and is not the one that was sent."""
    last: dict[str, bytes] = {}
    for event in events:
        if isinstance(reply := event.body, ModelReplied) and reply.sent is not None:
            body = last[event.recipient] = body_after(last.get(event.recipient, b""), reply)
            if not reply.body or hashlib.sha256(body).hexdigest() != reply.sent.digest:
                yield f"event {event.seq} does not keep the body that was sent"


def _at_end(recording: Recording, events: Sequence[Event], asks: int) -> Iterator[str]:
    """Check a whole session: it replays, is closed, breaks no rule, and no decider failed."""
    verification = recording.verify()
    if not verification.is_ok:
        yield "\n".join(verification.lines())
        return
    if not is_closed(events):  # answers of ports may come after the end
        yield "it was not closed"
    if (asked := sum(isinstance(event.body, Ask) for event in events)) != asks:
        yield f"it was asked {asked} times, not {asks}"
    yield from (f"{e.recipient} failed on {e.cause}" for e in events if isinstance(e.body, DeciderFailed))
    for event in events:
        if isinstance(event.body, ModelReplied) and event.body.status == "lost" and event.body.usage:
            yield f"event {event.seq}: a lost call is said to have used {event.body.usage}"
    yield from (str(breach) for breach in check_log(events, is_at_rest=True))
