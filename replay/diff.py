"""The difference of two sessions, or of a session and its fork.

Events are paired by their purpose: by (agent, kind, turn, attempt, call), and by their order where
those are equal; never by seq or by arrival, since both depend on the order of answers. What the supervisor
asks a port or the clock is for the event that caused the question, and the answer is for the question; the
first check of a schema is for that schema, by any agent. Sub-agents are paired by
profile and prompt, then by place, since a further delegation shifts the ordinals of all later ones. The
calls and the children of a program are paired by the ids of its asks. Seqs, ids, times, digests and figures
of usage are not differences: the totals show the figures. JSON of users, models and tools is compared whole,
with all of its fields.
"""

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import CLIENT, HOST, PORTS, is_agent, parent_of, place_of
from callboard.actors.protocol.codec import canonical
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.session.call_places import CallPlaces
from callboard.actors.session.place_names import named
from callboard.actors.session.recorded_answers import OF_MODEL
from callboard.replay.divergence import LONG_CHARS, compared, first_difference, shortened
from callboard.replay.json_values import value_lines
from callboard.replay.reading import agent_of, kind_of
from callboard.runtime.log.protocol import Stored

Key: TypeAlias = tuple[str, str, int, int, int | str, str, int]
"""Agent, kind, turn, attempt, call, the event that it is for, and the number of earlier ones with all these.

For a call of a program: its id in place of the call, and 0 for the turn. The event that it is for: empty for
what an agent sends or hears itself, as its place says all.
"""

_Child: TypeAlias = tuple[str, str, str, str]
"""The profile, the prompt, the address, and the id of the program's ask that began it, or an empty text."""

_SILENT: Final = frozenset(
    {
        "CallModel",
        "RunStep",
        "TurnRequested",
        "TurnSettled",
        "SetTimer",
        "CancelTimer",
        "Stopped",
        "SessionClosed",
        "Forked",
    }
)
"""Kinds whose events only follow from others'."""

_decode: Final = msgspec.json.Decoder().decode


class Difference(NamedTuple):
    """A pair of events that differ, or one without a pair.

    seqs: of the event in each session; 0 where it has none. agent: as the first session addresses it.
    path: of the first value that differs. first, second: the values there, in each session, or `ABSENT`.
    place: the name of the call or turn that they belong to.
    """

    kind: str
    agent: str
    seqs: tuple[int, int]
    path: str = ""
    first: object = None
    second: object = None
    place: str = ""


class Totals(NamedTuple):
    """The figures of one session, and the kind of its last outcome."""

    outcome: str
    agents: int
    turns: int
    tool_calls: int
    tokens: int
    micro_usd: int


@dataclass(frozen=True)
class SessionDiff:
    """The difference of two sessions.

    profiles: a unified diff of the agents' descriptions, line by line. differences: of their events, in the
    order of the first session. paired: the seqs of the events that have a pair. totals: of both.
    """

    profiles: tuple[str, ...]
    differences: tuple[Difference, ...]
    paired: tuple[tuple[int, int], ...]
    totals: tuple[Totals, Totals]

    @property
    def pairs(self) -> int:
        """Return the number of events that have a pair."""
        return len(self.paired)

    @property
    def is_same(self) -> bool:
        """Return whether both sessions did the same."""
        return not self.profiles and not self.differences


@dataclass
class _Side:
    """One session, read once."""

    events: dict[Key, tuple[int, JsonObject]] = field(default_factory=dict)
    children: dict[str, list[_Child]] = field(default_factory=lambda: defaultdict(list))
    profiles: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    places: CallPlaces = field(default_factory=CallPlaces)
    outcome: str = "running"
    usage: Usage = ZERO


def diff(first: Iterable[Stored], second: Iterable[Stored]) -> SessionDiff:
    """Compare two sessions. first, second: their rows, from seq 1."""
    one, other = _read(first), _read(second)
    names = dict(_paired_agents(one, other, HOST, HOST))
    theirs = {_renamed(key, names): value for key, value in other.events.items()}
    differences = tuple(_differences(one, theirs, names))
    paired = ((seq, theirs[key][0]) for key, (seq, _) in one.events.items() if key in theirs)
    profiles = difflib.unified_diff(one.profiles, other.profiles, "first", "second", lineterm="", n=2)
    return SessionDiff(tuple(profiles), differences, tuple(paired), (_totals(one), _totals(other)))


def _read(rows: Iterable[Stored]) -> _Side:
    side = _Side()
    seen: dict[Key, int] = defaultdict(int)
    keys: dict[int, Key] = {}  # of all events
    for row in rows:
        stored = canonical(row.body)
        kind, body = kind_of(stored), _decode(stored)
        body = shortened(body) if len(stored) > LONG_CHARS else body
        agent = _agent(row) or _agent_in(body)
        side.counts[kind] += 1
        place = _place(side, row, kind, body, agent, keys)
        keys[row.seq] = key = (*place[:-1], seen[place])
        seen[place] += 1
        if kind not in _SILENT:
            side.events[key] = row.seq, body
        if take := _TAKES.get(kind):
            take(side, agent, body)
    return side


def _place(side: _Side, row: Stored, kind: str, body: JsonObject, agent: str, keys: Mapping[int, Key]) -> Key:
    """Return the key of an event, with 0 in the place of its number."""
    cause = keys.get(row.cause)
    if not agent and cause is not None and not PORTS.isdisjoint((row.sender, row.recipient)):
        if kind == "CheckSchema" and body["task"] == "accept":
            schema = msgspec.json.encode(body["schema"]).decode()
            return ("", kind, 0, 1, 0, schema, 0)
        if CLIENT not in (row.sender, row.recipient):
            of, from_kind, turn, attempt, call, for_, number = cause
            return (of, kind, turn, attempt, call, f"{for_} {from_kind} {number}", 0)
    turn, place = _place_of(side, agent, kind, body)
    return (agent, kind, turn, body.get("attempt", 1), place, "", 0)


def _agent_in(body: dict[str, object]) -> str:
    """Return the agent that a wish for capacity or budgets, or its answer, is for."""
    named = body.get("agent")
    return named if isinstance(named, str) and is_agent(named) else ""


def _place_of(side: _Side, agent: str, kind: str, body: JsonObject) -> tuple[int, int | str]:
    """Return the turn and the call of an event, and take them out of the body if a program made the call."""
    turn, call = body.get("turn", 0), body.get("call", 0)
    places = side.places
    if kind == "Delegate":
        places.delegate(agent, turn, call, len(body["profiles"]))
    elif kind == "DelegationEnded" and not body.get("address"):
        places.refuse(agent, turn, call)
    place = places.place(agent, turn, call)
    if "call" not in body or len(place) == 3:
        return turn, call
    del body["turn"], body["call"]  # where more or less comes before it, the same ask stands in another turn
    return 0, place[1]


def _agent(row: Stored) -> str:
    """Return the agent that an event is about: the one that it is a grant for, or goes to, or comes from."""
    if granted := agent_of(row):
        return granted
    return next((one for one in (row.recipient, row.sender) if is_agent(one)), "")


def _opened(side: _Side, agent: str, body: JsonObject) -> None:
    for profile in body.pop("profiles"):
        side.profiles += profile_lines(msgspec.json.encode(profile))


def profile_lines(described: bytes) -> Iterator[str]:
    """Yield a profile as lines: one for each value, with its path; its tools by name, texts line by line."""
    profile: JsonObject = _decode(described)
    tools = {tool["name"]: tool for tool in profile.get("tools", ())}
    fields = {key: tools if key == "tools" and tools else value for key, value in profile.items()}
    return value_lines(profile["name"], fields)


def _begin(side: _Side, agent: str, body: JsonObject) -> None:
    profile = body.pop("profile")  # the difference of the profiles shows it
    prompt = msgspec.json.encode(body["prompt"]).decode()
    side.places.begin(agent, is_program=body["model"].get("kind") == "program")
    of_program, _, last = side.places.name(agent).rpartition("/")
    ask = last if of_program else ""
    side.children[parent_of(agent)].append((profile["name"], prompt, agent, ask))


def _replied(side: _Side, agent: str, body: JsonObject) -> None:
    if side.places.is_program(agent) and isinstance(body.get("content"), list):
        uses = [block["id"] for block in body["content"] if block.get("type") == "tool_use"]
        side.places.reply(agent, body["turn"], uses)


def _ended(side: _Side, agent: str, body: JsonObject) -> None:
    side.outcome = body["kind"]
    side.usage = plus(side.usage, msgspec.convert(body.get("usage", {}), Usage))


def _returned(side: _Side, agent: str, body: JsonObject) -> None:
    body.pop("contents", None)  # which of two sessions has stored a version before is no difference
    for version in body.get("files", ()):
        version.pop("differences", None)


_TAKES: Final = {
    "ToolReturned": _returned,
    "SessionOpened": _opened,
    "Begin": _begin,
    "ModelReplied": _replied,
    "AskEnded": _ended,
}


def _totals(side: _Side) -> Totals:
    agents = len({child[2] for children in side.children.values() for child in children})
    turns, calls = side.counts["ModelReplied"], side.counts["CallTool"]
    return Totals(side.outcome, agents, turns, calls, side.usage.tokens, side.usage.micro_usd)


def _paired_agents(one: _Side, other: _Side, first: str, second: str) -> Iterator[tuple[str, str]]:
    """Yield (address in the second session, address in the first) for an agent's sub-agents, all depths."""
    left = sorted(one.children[first], key=_ordinal)  # not as they began, which may be in any order
    waiting = sorted(other.children[second], key=_ordinal)
    for is_alike in (_is_same_ask, _is_same_task, _is_same_profile):
        for theirs in list(waiting):
            mine = next((child for child in left if is_alike(child, theirs)), None)
            if mine is not None:
                left.remove(mine)
                waiting.remove(theirs)
                yield theirs[2], mine[2]
                yield from _paired_agents(one, other, mine[2], theirs[2])


def _ordinal(child: _Child) -> int:
    return place_of(child[2])[1]


def _is_same_ask(one: _Child, other: _Child) -> bool:
    return bool(one[3]) and one[3] == other[3]


def _is_same_task(one: _Child, other: _Child) -> bool:
    return one[:2] == other[:2]


def _is_same_profile(one: _Child, other: _Child) -> bool:
    return one[0] == other[0]


def _renamed(key: Key, names: Mapping[str, str]) -> Key:
    agent = key[0]
    if not agent or agent == HOST:
        return key
    # An agent without a pair keeps its address, marked, so that it cannot meet another of that address.
    return (names.get(agent, f"{agent} of the second"), *key[1:])


def _differences(
    side: _Side, theirs: Mapping[Key, tuple[int, dict[str, object]]], names: Mapping[str, str]
) -> Iterator[Difference]:
    for key, (seq, body) in side.events.items():
        other_seq, other = theirs.get(key, (0, None))
        if other is None:
            yield Difference(key[1], key[0], (seq, 0), place=_named(key[0], body))
        elif (mine := compared(body, {})) != (their := compared(other, names)):
            values = first_difference(mine, their)
            yield Difference(key[1], key[0], (seq, other_seq), *values, _named(key[0], body))
    for key in [one for one in theirs if one not in side.events]:
        seq, body = theirs[key]
        yield Difference(key[1], key[0], (0, seq), place=_named(key[0], body))


def _named(agent: str, body: JsonObject) -> str:
    """Return the name of the call or turn of a message; '' for one of neither."""
    turn = body.get("turn", 0)
    return named((agent, turn, body.get("call", OF_MODEL))) if agent and turn else ""
