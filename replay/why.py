"""Why an event happened: the way from the prompt to it, the events it was made of, the source of a value.

- The *way* is one path: from the event back, through the event that each one answers, to a client's input.
  `CallModel` leads to the turn it grants, and an end of a delegation to the event that ended it.
- The *parts* of an event are those whose content it was made of. Of a request, and so of a reply, they are
  the events that its turn names in `TurnRequested.new`; the requests before hold the rest of its content. A
  value is looked for in all of it, also in what a compaction has taken out, and in the summaries.
- The *source* of a value: from the event back, part by part, to one that holds the value. The last one is
  where the value first was: a tool, a model, a person, a prompt. Where several hold it, the newest content of
  the request comes first, then the one with the same words near the value or in its call, then one that is
  nothing but the value, then the newest. For numbers of two digits, which many messages hold by chance, the
  words come before all else. A word counts the less, the more of the holders have it. The others stand under
  `also_in`, since no log says which of them a model has read.
- A model may write a value in its own way: `$1,203` for 1203, May 20th for 2024-05-20. Other spellings are
  looked for once nothing holds it as it stands.
- An answer that a fork has changed has its content from the `Forked` with that change, and not from a tool
  or a model.
- A value that a model made itself, such as a sum, has no holder: `made_of` are the inputs of that reply, and
  `odd` the one whose number is far from those of the others. If one of them holds an id or a number of which
  a slip makes the value, `like` is that one: two characters changed places, or one is missing or doubled.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from statistics import median
from typing import Final, NamedTuple, Protocol

import msgspec

from callboard.actors.protocol.addresses import CLIENT, is_agent, parent_of
from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, Finished, TurnRequested
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CheckSchema,
    ContextMade,
    ModelReplied,
    SchemaChecked,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.wishes import wish_in
from callboard.actors.session.cached_results import origin_of
from callboard.actors.session.place_names import call_of
from callboard.replay.diagnosis.copies import copied_from
from callboard.replay.json_values import (
    Held,
    Place,
    Words,
    leaves,
    names,
    numbers_in,
    words_of,
)
from callboard.replay.spellings import other_spellings
from callboard.replay.steps import is_failure

ODD_INPUTS_MIN: Final = 4
_ASKED_CHARS_MAX: Final = 200  # of a text in a call's arguments or a task
_WEIGHT: Final = 720_720  # of a word that one holder has; whole for the first sixteen
FAR: Final = 5
_decode: Final = msgspec.json.Decoder().decode
_WITHOUT_CONTENT: Final = (CallModel, CheckSchema, SchemaChecked)
"""Kinds of events that have no content, or only pass on that of another event."""


class Events(Protocol):
    """The events that a question needs."""

    def event(self, seq: int) -> Event:
        """Return one event."""

    def events_of(self, address: str, upto: int) -> Iterable[Event]:
        """Return the events up to `upto` that an actor received or posted, in order."""

    def request(self, seq: int) -> ModelRequest:
        """Return the request that a reply answers."""


class Why(NamedTuple):
    """The answer for one event.

    way: from the client's input to the event. parts: the events that it was made of, in the order of the log.
    source: of the value that was asked for, from the event back to where the value first was; empty without a
    value. also_in: the other events that could be its source, the likelier first. made_of: the inputs of the
    reply in which a model first wrote the value. odd: the one of them that stands out; None for none. like:
    a value that its request holds, nearly the same, and the event that brought it; None for none. written:
    the value as its source writes it, if in another way.
    """

    event: Event
    way: tuple[Event, ...]
    parts: tuple[Event, ...]
    source: tuple[Event, ...] = ()
    also_in: tuple[Event, ...] = ()
    made_of: tuple[Event, ...] = ()
    odd: Event | None = None
    like: tuple[str, Event] | None = None
    written: str = ""


def why(events: Events, seq: int, value: str = "") -> Why:
    """Explain an event. value: a text or number in it whose source is wanted.

    Raises UnknownName if the event does not hold the value.
    """
    event = events.event(seq)
    found = Why(event, tuple(_way(events, event))[::-1], tuple(parts_of(events, event)))
    return _with_source(events, found, value) if value else found


def _way(events: Events, event: Event) -> Iterator[Event]:
    yield event
    while before := _before(event):
        event = events.event(before)
        yield event


def _before(event: Event) -> int:
    """Return the seq of the event before this one on the way; 0 for a client's input."""
    match event.body:
        case CallModel(request=request):
            return request
        case AskEnded(by=by) | DelegationEnded(by=by) if by:
            return by
        case _:
            return event.cause


def parts_of(events: Events, event: Event) -> list[Event]:
    """Return the events that an event was made of, in the order of the log.

    A check that found nothing wrong is not part, but the report or the schema that it was of.
    """
    parts = [events.event(seq) for seq in sorted(set(_parts(events, event)))]
    passed = [one for one in parts if isinstance(one.body, _WITHOUT_CONTENT) and not is_failure(one)]
    found = {one.seq: one for one in parts if one not in passed}
    found |= {one.seq: one for check in passed for one in parts_of(events, check)}
    return [found[seq] for seq in sorted(found)]


def _parts(events: Events, event: Event) -> Iterator[int]:
    yield from _change(events, event)
    if isinstance(event.body, TurnRequested | RunStep | CallModel | ModelReplied):
        yield from first_attempt(events, event).new
    elif isinstance(event.body, Begin):
        yield 1  # the profiles
        yield from _starts(events, event)
    elif event.cause:
        yield _before(event)
        yield from _reply(events, event)
        # A fork repeats the answers of its origin, whose numbers are those of another log.
        if isinstance(event.body, ToolReturned) and event.body.cached_from and not event.body.reused:
            yield origin_of(event.body)


def _change(events: Events, event: Event) -> Iterator[int]:
    """Yield the seq of the `Forked` whose change an answer is."""
    body = event.body
    if isinstance(body, ToolReturned | ModelReplied) and body.reused and (call := call_of(event)):
        place = *call, body.reused
        yield from (one.seq for one in events.events_of(CLIENT, event.seq) if place in _changed_in(one))


def _changed_in(event: Event) -> set[tuple[str, int, int, int]]:
    changes = event.body.changes if isinstance(event.body, Forked) else ()
    return {(one.agent, one.turn, one.call, one.replaces) for one in changes}


def first_attempt(events: Events, event: Event) -> TurnRequested:
    """Return the first request of the turn that an event asks for, grants or answers."""
    while (wish := wish_in(event.body)) is None or (wish.attempt > 1 and not wish.new):
        is_grant = isinstance(event.body, CallModel)
        event = events.event(_before(event) if is_grant else event.cause)
    return wish


def _starts(events: Events, event: Event) -> Iterator[int]:
    """Yield what an agent begins with: the delegation or the ask, and the context that was made for it."""
    while event.cause and not isinstance(event.body, Delegate | Ask):
        event = events.event(event.cause)
        if isinstance(event.body, ContextMade | Delegate | Ask):
            yield event.seq


def _reply(events: Events, event: Event) -> Iterator[int]:
    """Yield the reply that an event comes from, if another event released it.

    A call may wait for an approval or a free place, and an answer for the end of the tasks that it gave up.
    """
    if not is_agent(event.sender):
        return
    replies = [one for one in events.events_of(event.sender, event.seq) if _is_reply(one, event.sender)]
    if isinstance(event.body, Finished) and event.body.kind == "answered":
        yield from (one.seq for one in replies[-1:])
    elif turn := getattr(event.body, "turn", 0):
        yield from (one.seq for one in replies if getattr(one.body, "turn", 0) == turn)


def _is_reply(event: Event, agent: str) -> bool:
    return event.recipient == agent and isinstance(event.body, ModelReplied)


def _with_source(events: Events, asked: Why, value: str) -> Why:
    source, others = [asked.event], list[Event]()
    own = held = _held(asked.event, value)
    wanted = frozenset[str]()
    while True:
        wanted = wanted.union(*(place.words for place in _places(source[-1], held)))
        held, ranked = _holders(events, source[-1], held, wanted, value)
        if not ranked:
            break
        source.append(ranked[0])
        others += ranked[1:]
    also = {one.seq: one for one in others if one not in source}
    made, odd, like = list[Event](), None, None
    if isinstance(source[-1].body, ModelReplied):
        like = _like(_content(events, source[-1]), value)
        made = [one for one in parts_of(events, source[-1]) if not isinstance(one.body, ModelReplied)]
        odd = odd_one(made)
    written = "" if held is own else next(place.text for place in _places(source[-1], held))
    found = asked._replace(source=tuple(source), also_in=tuple(also.values()), written=written)
    return found._replace(made_of=tuple(made), odd=odd, like=like)


def _like(content: Iterable[Event], value: str) -> tuple[str, Event] | None:
    """Return the newest value in a request's content of which a slip makes another one, and its event."""
    found = ((copied_from(encode(one.body), value), one) for one in content)
    return max((one for one in found if one[0]), key=lambda one: one[1].seq, default=None)


def _holders(events: Events, event: Event, held: Held, wanted: Words, value: str) -> tuple[Held, list[Event]]:
    """Return the events from which an event may have a value, and how they write it.

    A model may write it in its own way: if nothing holds it as it stands, other spellings are looked for. One
    that many messages hold by chance has to stand near the same words.
    """
    found = _ranked(events, event, held, wanted)
    others = other_spellings(value) if not found and isinstance(event.body, ModelReplied) else ()
    for other in others:
        if near := [one for one in _ranked(events, event, other, wanted) if _is_sound(other, one, wanted)]:
            return other, near
    return held, found


def _is_sound(held: Held, event: Event, wanted: Words) -> bool:
    """Return whether an event holds a value not by chance: a common one has to stand near the words."""
    return not held.is_common or any(at.words & wanted for at in _places(event, held))


def _held(event: Event, value: str) -> Held:
    """Return the value to look for: as whole words, unless the event has it in another form only."""
    for held in (Held(value), Held(value, is_whole=False), *other_spellings(value)):
        if next(_places(event, held), None) is not None:
            return held
    raise UnknownName(
        f"event {event.seq} does not contain {value!r} as a word or number; "
        "`callboard search` lists the events that do"
    )


def _places(event: Event, held: Held) -> Iterator[Place]:
    return held.places(_decode(encode(event.body)))


def _ranked(events: Events, event: Event, held: Held, wanted: Words) -> list[Event]:
    """Return the events from which an event may have a value, the likeliest first.

    wanted: the words near the value in the event and in those behind it.
    """
    content = chain(_content(events, event), _content_of_question(events, event, held))
    holders = {one.seq: (one, found) for one in content if (found := [*_places(one, held)])}
    if len(holders) < 2:
        return [one for one, _ in holders.values()]
    newest = {one.seq for one in parts_of(events, event)}
    asked = {seq: _asked(events, one) & wanted for seq, (one, _) in holders.items()}
    near = {
        seq: [(place.words & wanted | asked[seq], place.is_alone) for place in found]
        for seq, (_, found) in holders.items()
    }
    words = (frozenset[str]().union(*(words for words, _ in places)) for places in near.values())
    weight = {word: _WEIGHT // count for word, count in Counter(chain.from_iterable(words)).items()}

    def rank(seq: int) -> tuple[int, ...]:
        fit, is_alone = max((sum(map(weight.__getitem__, words)), alone) for words, alone in near[seq])
        is_new = seq in newest
        return (fit, is_alone, is_new, seq) if held.is_common else (is_new, fit, is_alone, seq)

    return [holders[seq][0] for seq in sorted(holders, key=rank, reverse=True)]


def _asked(events: Events, event: Event) -> Words:
    """Return the words of the call or the task that an event answers."""
    body = event.body
    if isinstance(body, DelegationEnded) and body.address:
        begin = next(iter(events.events_of(body.address, event.seq)), None)
        return _words_inside(begin.body.prompt) if begin and isinstance(begin.body, Begin) else frozenset()
    if not isinstance(body, ToolReturned):
        return frozenset()
    request = events.event(event.cause)
    if isinstance(request.body, ToolStarted):
        request = events.event(request.cause)
    if not isinstance(request.body, CallTool):
        return frozenset()
    return words_of(request.body.tool) | _words_inside(request.body.arguments)


def _words_inside(value: Json) -> Words:
    """Return the words of the names and of the beginnings of the texts in a JSON value."""
    inside = chain(leaves(_decode(value), ""), names(_decode(value), ""))
    return words_of(" ".join(text[:_ASKED_CHARS_MAX] for _, text in inside if isinstance(text, str)))


def _content(events: Events, event: Event) -> Iterator[Event]:
    """Yield the events whose content an event may hold, oldest first."""
    if changes := [*_change(events, event)]:
        yield from map(events.event, changes)
        return
    if isinstance(event.body, ModelReplied):
        yield from _conversation(events, event)
        return
    for part in parts_of(events, event):
        yield from _content(events, part) if isinstance(part.body, _WITHOUT_CONTENT) else (part,)


def _conversation(events: Events, reply: Event) -> Iterator[Event]:
    """Yield all events that a reply's request was made of: those of its agent's turns so far."""
    named: set[int] = set()
    for one in events.events_of(reply.recipient, reply.cause):
        wish = wish_in(one.body) if one.sender == reply.recipient else None
        named.update(wish.new if wish is not None else ())
    yield from (_with_words(events, events.event(seq)) for seq in sorted(named))


def _content_of_question(events: Events, reply: Event, held: Held) -> Iterator[Event]:
    """Yield what a program had asked and got before a question, if its whole request holds the value.

    The request names places of earlier ones, so none of these events has all of it.
    """
    steps = _steps_behind(events, reply) if isinstance(reply.body, ModelReplied) else []
    if steps and _is_asked(events.request(reply.seq), held):
        yield from steps
        yield from _conversation(events, steps[-1])


def _steps_behind(events: Events, reply: Event) -> list[Event]:
    """Return the steps of a program up to a question with its whole request; empty for another reply."""
    begin = next(iter(events.events_of(reply.recipient, reply.cause)))
    if not isinstance(begin.body, Begin) or begin.body.asked is None:
        return []
    asker, start = parent_of(reply.recipient), min(_starts(events, begin))
    return [one for one in events.events_of(asker, start) if _is_reply(one, asker)]


def _is_asked(request: ModelRequest, held: Held) -> bool:
    parts = (request.system, *request.messages, *request.tools)
    return any(next(held.places(_decode(part)), None) is not None for part in parts)


def _with_words(events: Events, event: Event) -> Event:
    """Return the event that holds the words of another one: of a compaction, the answer with its summary."""
    if not isinstance(event.body, Compacted) or not event.body.summary:
        return event
    return events.event(event.body.summary)


def odd_one(inputs: Sequence[Event]) -> Event | None:
    """Return the input whose number is far from those of the others; None if none is, or there are few.

    Compared are inputs that hold the same number of numbers, place by place. Far: by more than five times the
    median distance from the median (Iglewicz and Hoaglin 1993 call 3.5 far for normal data).
    """
    columns: dict[int, list[tuple[Event, list[float]]]] = {}
    for one in inputs:
        numbers = numbers_in(_decode(encode(one.body)))
        columns.setdefault(len(numbers), []).append((one, numbers))
    rows = max(columns.values(), key=len, default=[])
    if len(rows) < ODD_INPUTS_MIN:
        return None
    for place in range(len(rows[0][1])):
        values = [numbers[place] for _, numbers in rows]
        middle = median(values)
        spread = median([abs(one - middle) for one in values]) or abs(middle) / 1_000
        far = max(rows, key=lambda row: abs(row[1][place] - middle))
        if spread and abs(far[1][place] - middle) > FAR * spread:
            return far[0]
    return None
