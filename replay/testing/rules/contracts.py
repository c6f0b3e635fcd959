"""Contracts: an agent with a contract begins with fields that were checked, and with its presets."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import HOST, SUPERVISOR
from callboard.actors.protocol.contracts import Callee, callees_of, input_prompt
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.folded_results import FOLDED_BYTES_MIN
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.value_types import CallMetadata, Response
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Life, of_kind

_ROOMS_HOLD_SINCE: Final = 2
_Input: TypeAlias = tuple[bytes, bytes, str]
"""A schema, a value and the name of a type."""


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
