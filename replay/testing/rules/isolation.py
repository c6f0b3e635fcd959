"""Isolation: an agent receives and may do no more than it was given.

A sub-agent starts from its own profile and a prompt. Nothing of its parent's conversation comes with it, and
only the outcome goes back. Which rights it has can only be narrower than its parent's.
"""

from typing import Final

from callboard.actors.protocol.addresses import HOST, SUPERVISOR, parent_of
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    DelegationEnded,
    Finished,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.conversation_parts import PARTS_OF
from callboard.replay.testing.rules.lives import Life

OWN_SCOPE: Final = frozenset({"tokens", "cost_usd", "deadline_s"})
"""Limits that a parent's scope enforces on its children, so a child's own limit may be wider."""


class Narrowing(Invariant):
    """Rights."""

    name = "narrowing"
    rule = "A child has no wider limits than its parent, is on its list, and uses only its own tools."

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Compare a child's profile, limits and roster with its parent's."""
        who = event.recipient
        parent, life = self.facts.lives.get(parent_of(who)), self.facts.lives[who]
        if who == HOST or parent is None:
            return
        if life.profile.name not in parent.profile.agents and not self.facts.is_implicit(life.call):
            self.broken(event.seq, f"{parent.profile.name} may not delegate to {life.profile.name}")
        for name in begin.limits.__struct_fields__:
            own, above = getattr(begin.limits, name), getattr(parent.limits, name)
            if name not in OWN_SCOPE and above is not None and (own is None or own > above):
                self.broken(event.seq, f"{who} has {name} {own}, its parent {above}")
        if begin.model != life.profile.own_model(self.facts.model_below(parent_of(who))):
            self.broken(event.seq, f"{who} has model {begin.model.name}, which it was not given")

    def on_CallTool(self, event: Event, call: CallTool) -> None:
        """Check that a called tool is in the agent's own profile."""
        spec = self.facts.tools.of(event.sender).get(call.tool)
        if spec is None or spec.effect != call.effect:
            self.broken(event.seq, f"{event.sender} calls {call.tool}, which is not its {call.effect} tool")


class Isolation(Invariant):
    """Context."""

    name = "isolation"
    rule = (
        "A child gets only its profile, its prompt and its own messages, and its parent only the outcome; "
        "all follow the rules of their session."
    )
    _readers: dict[int, str] = {}
    _last_words: dict[str, set[str]] = {}

    def on_any(self, event: Event, body: AnyMessage) -> None:
        """Record the recipient of an event with content."""
        if type(body) in PARTS_OF:
            self._readers[event.seq] = event.recipient

    def on_TurnSettled(self, event: Event, body: AnyMessage) -> None:
        """Record the last text of an agent."""
        settled: Settled | None = getattr(body, "settled", None)
        if settled is not None and settled.text:
            self._last_words.setdefault(event.sender, set()).add(settled.text)

    on_Delegate = on_ReportBack = on_Stopped = on_Wake = on_TurnSettled

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Check that an agent is given its own task and nothing else."""
        who, life = event.recipient, self.facts.lives[event.recipient]
        if self.facts.opened is not None and begin.rules != self.facts.opened.rules:
            self.broken(event.seq, f"{who} lives by rules {begin.rules}, its session by others")
        if self._profile_given(life) != bytes(begin.profile):
            self.broken(event.seq, f"{who} begins with a profile that the session was not opened with")
        prompt, schema = self._given(life)
        if prompt is not None and bytes(prompt) != bytes(begin.prompt):
            self.broken(event.seq, f"{who} is told something else than the prompt that was given")
        if schema is not None and bytes(schema) != bytes(begin.schema):
            self.broken(event.seq, f"{who} has another schema than was asked for")
        for name, description in begin.roster:
            other = self.facts.profiles.get(name)
            if name not in life.profile.agents or other is None or other[0].description != description:
                self.broken(event.seq, f"{who} is offered {name}, or told something else of it")

    def _profile_given(self, life: Life) -> bytes:
        """Return the profile that this life was given, in its own bytes."""
        delegate = self.facts.delegates.get(life.call)
        if delegate is not None and delegate.implicit != NULL:
            return bytes(delegate.implicit)
        known = self.facts.profiles.get(life.profile.name)
        return self._with_own_tools(life, *known) if known else b""

    def _with_own_tools(self, life: Life, profile: Profile, raw: bytes) -> bytes:
        """Return the bytes of a profile, of the host with the tools that were set for it alone."""
        if life.address != HOST or self.facts.host_tools is None:
            return raw
        return self.facts.with_tools(profile, self.facts.host_tools)[1]

    def _given(self, life: Life) -> tuple[Json | None, Json | None]:
        """Return the prompt and the schema that this life was given; None for what the log does not hold."""
        given, profile = self.facts.asked_of(life)
        if given is None:
            return None, None
        fallback = profile.schema if profile else NULL
        return given.prompt, given.schema if given.schema != NULL else fallback

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check that the new content of a request came in messages to this agent."""
        self.on_TurnSettled(event, body)
        for seq in body.new:
            if self._readers.get(seq) != event.sender:
                self.broken(event.seq, f"{event.sender} uses event {seq}, which is not addressed to it")

    def on_Finished(self, event: Event, body: Finished) -> None:
        """Record the last text of an agent."""
        self.on_TurnSettled(event, body)
        self._last_words.setdefault(event.sender, set()).add(body.text)

    def on_DelegationEnded(self, event: Event, end: DelegationEnded) -> None:
        """Check that the parent gets the outcome in the words of an agent that worked on it."""
        if event.sender != SUPERVISOR or not end.text:
            return  # a report is a value, which other rules compare
        copies = self.facts.copies.get((event.recipient, end.turn, end.call), [])
        if not any(end.text in self._last_words.get(one, ()) for one in copies):
            self.broken(event.seq, "no agent that worked on it said its text")
