"""The beginning of a delegation: checked fields and presets, contexts, and the first system prompt."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from callboard.actors.agent.handed_history import FOREIGN
from callboard.actors.agent.request_prefix import TOOL_OVERHEAD_TOKENS, prefix_for
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import HOST, SUPERVISOR, place_of
from callboard.actors.protocol.contracts import Callee, callees_of, input_prompt
from callboard.actors.protocol.conversation import blocks_of, is_by
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.folded_results import FOLDED_BYTES_MIN
from callboard.actors.protocol.histories import why_broken
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import CheckSchema, ContextMade, MakeContext, SchemaChecked
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.spoken_calls import has_calls, in_words
from callboard.actors.protocol.value_types import CallMetadata, Response
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.in_force import profile_of
from callboard.replay.testing.rules.lives import Life

_ROOMS_HOLD_SINCE: Final = 2
_Input: TypeAlias = tuple[bytes, bytes, str]
"""A schema, a value and the name of a type."""
_Place: TypeAlias = tuple[str, int]
SYSTEM_RULES = {
    "system": "A system prompt is the agent's instructions, the note on reports, and the context put there.",
    "makers": "A message that is handed to an agent keeps its maker.",
    "bound": "The need of an agent's first request includes each byte of its text.",
}


class Contracts(Invariant):
    """The inputs of agents with a contract."""

    name = "contracts"
    rule = "An agent with a contract begins with its presets and with fields that its contract accepted."
    _wanted: set[_Input] = set()
    _asked: dict[int, CheckSchema] = {}
    _accepted: set[_Input] = set()

    def on_Delegate(self, event: Event, body: Delegate) -> None:
        """Check that a prompt was made of the input and of the presets."""
        profile = self._profile(body)
        if profile is None or body.input == NULL or not profile.has_contract:
            return
        self._wanted.add((bytes(profile.input_schema), bytes(body.input), profile.input_type))
        made = input_prompt(profile.input_schema, profile.presets, body.input)
        if bytes(made) != bytes(body.prompt) or not _has_presets(body.prompt, profile.presets):
            self.broken(event.seq, f"{profile.name} is told something else than its input")

    def _profile(self, body: Delegate) -> Profile | None:
        known = self.facts.profiles.get(body.profiles[0]) if body.profiles else None
        return known[0] if known is not None and body.implicit == NULL else None

    def on_CheckSchema(self, event: Event, body: CheckSchema) -> None:
        """Record a check of an input."""
        if body.task != "input":
            return
        self._asked[body.check] = body
        if (bytes(body.schema), bytes(body.value), body.output_type) not in self._wanted:
            self.broken(event.seq, "an input is checked that no call has, or against another contract")

    def on_SchemaChecked(self, event: Event, body: SchemaChecked) -> None:
        """Record an input that was accepted."""
        asked = self._asked.get(body.check)
        if asked is not None and body.status == "ok":
            self._accepted.add((bytes(asked.schema), bytes(asked.value), asked.output_type))

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Check the input that an agent begins with, and the contracts that it is told of."""
        who, life = event.recipient, self.facts.lives[event.recipient]
        delegate, profile = self.facts.delegates.get(life.call), life.profile
        if who != HOST and delegate is not None:
            self._check_input(event, profile, delegate)
        if begin.callees != self._callees(begin):
            self.broken(event.seq, f"{who} is told of other contracts than those of its agents")
        if profile.unavailable:
            self.broken(event.seq, f"{who} begins, and it is unavailable: {profile.unavailable}")

    def _check_input(self, event: Event, profile: Profile, delegate: Delegate) -> None:
        who, given = event.recipient, delegate.input
        if profile.has_contract != (given != NULL):
            self.broken(event.seq, f"{who} begins with an input of the wrong form")
        wanted = (bytes(profile.input_schema), bytes(given), profile.input_type)
        if profile.has_contract and wanted not in self._accepted:
            self.broken(event.seq, f"{who} begins with an input that its contract did not accept")

    def _callees(self, begin: Begin) -> tuple[Callee, ...]:
        names = (name for name, _ in begin.roster)
        return callees_of([self.facts.profiles[name][0] for name in names if name in self.facts.profiles])

    def handled_SchemaChecked(self, event: Event, body: SchemaChecked, outputs: Sequence[Event]) -> None:
        """Check that a wrong input is denied with its problems, and any other end is not a wrong input."""
        if body.check not in self._asked or body.status == "ok":
            return
        for output, end in of_kind(outputs, DelegationEnded):
            is_wrong = end.kind == "denied" and bool(end.problems)
            if is_wrong != (body.status == "invalid") or (end.kind == "unavailable") != (
                body.status == "failed"
            ):
                self.broken(output.seq, f"an input that is {body.status} ends the call as {end.kind}")


def _has_presets(prompt: Json, presets: Json) -> bool:
    """Return True if a prompt holds each preset, also where the call gives another value."""
    if presets == NULL:
        return True
    told = msgspec.json.decode(msgspec.json.decode(prompt, type=str))
    wanted = msgspec.json.decode(presets, type=dict[str, object])
    return all(told.get(name) == value for name, value in wanted.items())


class Folded(Invariant):
    """The metadata of calls of agents."""

    name = "folded"
    rule = "The end of a delegation names the agent, its caller and the form of the result."

    def on_DelegationEnded(self, event: Event, end: DelegationEnded) -> None:
        """Compare the metadata of an end with the call."""
        delegate = self.facts.delegates.get((event.recipient, end.turn, end.call))
        life = self.facts.lives.get(event.recipient)
        if event.sender != SUPERVISOR or not end.address or delegate is None or life is None:
            return
        if end.metadata != self._metadata(delegate, end, life):
            self.broken(event.seq, "the metadata of the end is not that of the call")

    def _metadata(self, delegate: Delegate, end: DelegationEnded, life: Life) -> CallMetadata | None:
        known = self.facts.profiles.get(delegate.profiles[0]) if delegate.profiles else None
        if known is None or delegate.implicit != NULL:
            return None
        has_room = not 0 < end.room < FOLDED_BYTES_MIN or life.begin.rules < _ROOMS_HOLD_SINCE
        response = _response(end, is_folded=known[0].is_folded and has_room)
        return CallMetadata(known[0].name, life.profile.name, response, known[0].context)


def _response(end: DelegationEnded, *, is_folded: bool) -> Response:
    if STATUS[end.kind] == "ok":
        return "ok"
    if not is_folded:
        return "error"
    return "invalid_input" if end.problems else "unavailable"


class Contexts(Invariant):
    """The contexts of delegations."""

    name = "contexts"
    rule = (
        "An agent begins with the context that was made for its delegation, once all contexts are made; in "
        "its messages each call has its result."
    )
    _delegates: dict[int, tuple[str, Delegate]] = {}
    _racers: dict[_Place, _Place] = {}  # each racer's place: the delegation that waits for contexts
    _made: dict[_Place, dict[str, ContextMade | None]] = {}

    def on_Delegate(self, event: Event, body: Delegate) -> None:
        """Record a delegation."""
        self._delegates[event.seq] = event.sender, body

    def on_MakeContext(self, event: Event, wanted: MakeContext) -> None:
        """Check that a context is wanted for a delegation of its parent, by a profile in it."""
        sender, request = self._delegates.get(wanted.request, ("", None))
        if request is None or sender != wanted.parent or wanted.profile not in request.profiles:
            self.broken(event.seq, f"a context is wanted for event {wanted.request}, which needs none")
            return
        if not self._wants_context(wanted.profile):
            self.broken(event.seq, f"{wanted.profile} wants no context")
        place = (wanted.parent, wanted.delegation)
        self._made.setdefault(place, {})[wanted.profile] = None
        for ordinal in range(wanted.delegation, wanted.delegation + len(request.profiles)):
            self._racers[wanted.parent, ordinal] = place

    def _wants_context(self, profile: str) -> bool:
        known = self.facts.profiles.get(profile)
        return known is not None and _is_prepared(known[0])

    def on_ContextMade(self, event: Event, made: ContextMade) -> None:
        """Record a context."""
        self._made.setdefault((made.parent, made.delegation), {})[made.profile] = made

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Compare the context of an agent with the one that was made."""
        who, profile = event.recipient, self.facts.lives[event.recipient].profile
        made = self._made.get(self._racers.get(place_of(who), ("", 0)), {}) if who != HOST else {}
        if any(one is None or one.status != "ok" for one in made.values()):
            self.broken(event.seq, f"{who} begins before every context of its delegation is made")
        own = made.get(profile.name)
        given = (own.content, own.history, own.makers) if own else (NULL, (), ())
        if (begin.context, begin.history, begin.makers) != given:
            self.broken(event.seq, f"{who} begins with another context than was made for it")
        elif why := why_broken(begin.history):
            self.broken(event.seq, f"{who} is handed a conversation that no service takes: {why}")
        elif _is_prepared(profile) and who != HOST and own is None:
            self.broken(event.seq, f"{who} begins without the context that its profile wants")

    def handled_ContextMade(self, event: Event, made: ContextMade, outputs: Sequence[Event]) -> None:
        """Check that a context that failed ends its delegation as `unavailable`."""
        ends = [end.kind for _, end in of_kind(outputs, DelegationEnded)]
        if ends and made.status != "ok" and ends != ["unavailable"]:
            self.broken(event.seq, f"a context that is {made.status} ends a delegation as {ends[0]}")


def _is_prepared(profile: Profile) -> bool:
    """Return whether agents of this profile wait for a context or for a new instance."""
    return bool(profile.context) or bool(profile.factory)


def context_in_message(begin: Begin) -> Json:
    """Return the context that belongs before the prompt; null for none."""
    return NULL if profile_of(bytes(begin.profile)).context_in == "system" else begin.context


def handed_messages(begin: Begin) -> tuple[Json, ...]:
    """Return the messages that an agent is handed, as it reads them."""
    has_tools = not begin.history or bool(prefix_for(begin).tools)
    return begin.history if has_tools or not has_calls(begin.history) else in_words(begin.history)


def why_other_makers(request: ModelRequest, begin: Begin) -> str:
    """Return the first message of a first request whose maker is not the one that was handed over with it."""
    found = maker_of(request.origins)
    for place, said in enumerate(begin.history):
        given = next((maker for start, maker in reversed(begin.makers) if start <= place), None)
        if is_by("assistant", said) and found(place) not in (given, FOREIGN):
            return f"message {place} is by {found(place)}, and {given} made it"
    return ""


def why_other_system(request: ModelRequest, begin: Begin) -> str:
    """Return the difference of a request's system prompt to that of its agent's `Begin`; empty for none."""
    profile = profile_of(bytes(begin.profile))
    given = profile.instructions if begin.schema == NULL else prompts.with_report_note(profile.instructions)
    context = begin.context if profile.context_in == "system" else NULL
    expected, found = (*blocks_of(given), *blocks_of(context)), blocks_of(request.system)
    if [*map(bytes, found)] == [*map(bytes, expected)]:
        return ""
    return f"its system prompt has {len(found)} blocks, and {len(expected)} were given, or others"


def why_small_need(request: ModelRequest, wish: TurnRequested) -> str:
    """Return the bytes that the need of a first request does not count; empty if it counts all."""
    has_media = any(b'"source"' in bytes(message) for message in request.messages)
    if request.model.is_program or wish.is_unbounded or has_media:  # images take fewer tokens than bytes
        return ""
    sent = (request.system, *request.tools, *request.messages)
    least = sum(map(len, sent)) + request.model.max_tokens + bool(request.tools) * TOOL_OVERHEAD_TOKENS
    missing = least - wish.need.tokens
    return f"its need lacks {missing:,} tokens" if missing > 0 else ""
