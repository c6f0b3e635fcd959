"""The model of a call: which one is asked after each answer, and its place in the capacity port.

Rules of conversations in which several models take part, held with the requests of `check_requests`.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.conversation import is_by
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.failures import FailureKind, kind_of
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Begin, Finished, TurnRequested
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.port_messages import (
    CUT_OFF,
    CallModel,
    CapacityGiven,
    ModelReplied,
    RequestCapacity,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import Unsayable, is_all_own, messages_for
from callboard.actors.protocol.usage import NOTHING, Need, bound
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind

_STOPS: dict[str, FailureKind] = {"refusal": "refusal", "model_context_window_exceeded": "context_full"}
_GIVES_UP = ("model_error", "model_refused", "context_full")


def failed_as(reply: ModelReplied) -> FailureKind | None:
    """Return the kind of failure that an answer is; None for any other answer."""
    if reply.status == "ok":
        return _STOPS.get(reply.stop_reason)
    return kind_of(reply.failure.code) if reply.failure is not None else None


def _may_pass(reply: ModelReplied) -> bool:
    return reply.failure is not None and reply.failure.is_retryable


class _Models(Struct, eq=False):
    """The models of one life of an agent.

    asked: the last one that it asked. answered: the one with which a turn begins. failed: those that failed
    in this round. gone: those that are not asked again in this turn.
    """

    spec: ModelSpec
    asked: str
    answered: str
    failed: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def lists(self, reply: ModelReplied) -> bool:
        """Return whether an answer is a failure after which another model is asked."""
        return failed_as(reply) in self.spec.fallback_on

    def left(self) -> set[str]:
        """Return the models that may be asked again in this turn."""
        return {one.name for one in self.spec.all_specs} - self.gone

    def following(self) -> str | None:
        """Return the next model of this round, in order; None if all have failed."""
        names = [one.name for one in self.spec.all_specs]
        place = names.index(self.asked) if self.asked in names else 0
        ahead = names[place + 1 :] + names[:place]
        return next((one for one in ahead if one not in self.failed | self.gone), None)


class Fallbacks(Invariant):
    """The models of an agent with a fallback."""

    name = "fallbacks"
    rule = (
        "After a failure that its fallback lists, an agent asks the next model, and waits only after a whole "
        "round; a turn begins with the model that answered last, and an ask with the first."
    )
    _of: dict[str, _Models] = {}

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Record the first model of an agent."""
        self._of[event.recipient] = _Models(begin.model, begin.model.name, begin.model.name)

    def on_ModelReplied(self, event: Event, reply: ModelReplied) -> None:
        """Record the model that has answered, or failed."""
        models = self._of.get(event.recipient)
        if models is None or reply.status in CUT_OFF or self.facts.is_summary(event, reply):
            return
        if models.lists(reply):
            models.failed.add(models.asked)
            if not _may_pass(reply):
                models.gone.add(models.asked)
        elif reply.status == "ok" or failed_as(reply) == "context_full":
            models.answered = models.asked

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Compare the model that an agent asks with the answers so far."""
        who = event.sender
        models = self._of.get(who)
        if models is None or body.purpose:
            return
        name = body.model or models.spec.name
        if why := self._why_not(who, models, name, body):
            self.broken(event.seq, f"{who} asks {name} after {body.after_ms} ms: {why}")
        models.asked = name

    def _why_not(self, who: str, models: _Models, name: str, body: TurnRequested) -> str:
        """Return why this model may not be asked now; empty if it may."""
        if body.attempt == 1:
            models.failed, models.gone = set(), set()
            return "" if name == models.answered else f"a turn begins with {models.answered}"
        reply = self.facts.replies.get(who)
        if reply is None or reply.status in CUT_OFF or not models.lists(reply):
            return "" if name == models.asked else f"{models.asked} has not failed in a way that is listed"
        if (following := models.following()) is not None:
            return "" if (name, body.after_ms) == (following, 0) else f"{following} is next, at once"
        models.failed = set()
        if name in models.gone:
            return "no wait cures its failure"
        return "" if body.after_ms else "all models have failed"

    def on_Finished(self, event: Event, body: Finished) -> None:
        """Check that an agent which gives up has no model left to ask."""
        who, reply = event.sender, self.facts.replies.get(event.sender)
        models = self._of.get(who)
        if models is None or reply is None or body.kind not in _GIVES_UP or not models.lists(reply):
            return
        most = self.facts.lives[who].most("max_model_attempts", 1)
        left = models.left()
        if left and self.facts.attempts(who, reply.attempt) < most:
            self.broken(event.seq, f"{who} ends as {body.kind}, and could ask {min(left)}")


class Needs(Invariant):
    """The needs of requests for turns."""

    name = "needs"
    rule = "The need of a turn is that of the model that is asked, with its answer and its prices."
    _inputs: dict[
        str, tuple[int, Origin, int]
    ] = {}  # by agent: its last request, with the bound on its input

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Compare a need with the prices and the answer of the model."""
        who, life = event.sender, self.facts.lives.get(event.sender)
        if life is None or life.is_program:
            return
        model = life.asked(body)
        if body.model not in ("", model.name):
            self.broken(event.seq, f"{who} asks {body.model}, which is none of its models")
        asked = life.begin.asked
        if asked is not None and asked.max_tokens:
            model = replace(model, max_tokens=asked.max_tokens)
        known = body.need.tokens - model.max_tokens
        turn, origin, before = self._inputs.get(who, (0, model.made_by, 0))
        self._inputs[who] = body.turn, model.made_by, known
        # The bytes bound the input of another origin: the last one has counted the tokens in its own way. A
        # higher repair level needs room for longer ids, and for words.
        may_grow = origin != model.made_by or (body.repair is not None and body.breaks_cache)
        is_bound = turn != body.turn or known == before or (may_grow and known > before)
        if body.need != _need(known, model) or not is_bound:
            self.broken(event.seq, f"{who} states a need that is not that of {model.name}")


def _need(known: int, model: ModelSpec) -> Need:
    return bound(known, model.max_tokens, model.prices) if known >= 0 else NOTHING


class Places(Invariant):
    """Requests for a place, and the calls that follow."""

    name = "places"
    rule = "A call of a limited model starts after it was given a place, and no other call requests one."
    _limited: frozenset[str] = frozenset()
    _wishes: dict[str, TurnRequested] = {}
    _served: set[str] = set()
    _given: dict[int, CapacityGiven] = {}

    def handled_SessionOpened(self, event: Event, body: SessionOpened, outputs: Sequence[Event]) -> None:
        """Record the limited models."""
        self._limited = frozenset(body.capacity)

    def handled_Resumed(self, event: Event, body: Resumed, outputs: Sequence[Event]) -> None:
        """Record a change of the limited models."""
        if body.capacity is not None:
            self._limited = frozenset(body.capacity)

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Record the wish that a place may be requested for."""
        self._wishes[event.sender] = body
        self._served.discard(event.sender)

    def on_RequestCapacity(self, event: Event, body: RequestCapacity) -> None:
        """Compare a request with the wish of its agent, and its model with the limited ones."""
        wish = self._wishes.get(body.agent, TurnRequested(0))
        if body.agent in self._served:  # one wish asks for one place
            wish = TurnRequested(0)
        self._served.add(body.agent)
        if (body.turn, body.attempt, body.need) != (wish.turn, wish.attempt, wish.need):
            self.broken(event.seq, f"{body.agent} did not ask for this call, or has a place for it already")
        if body.model not in self._limited or body.model != self._model_of(body.agent):
            self.broken(event.seq, f"{body.agent} needs no place at {body.model!r}")

    def on_CapacityGiven(self, event: Event, body: CapacityGiven) -> None:
        """Record a place."""
        if body.status == "given":
            self._given[event.seq] = body

    def on_CallModel(self, event: Event, body: CallModel) -> None:
        """Check that the call of a limited model is the answer to a place for its agent."""
        given = self._given.get(event.cause)
        if given is None and self._model_of(body.agent) in self._limited:
            self.broken(event.seq, f"{body.agent} calls a limited model without a place")
        elif given is not None and given.agent != body.agent:
            self.broken(event.seq, f"{body.agent} has the place of {given.agent}")

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Report a place that was not used by now."""
        if outputs:
            self.confirm()

    def handled_CapacityGiven(self, event: Event, body: CapacityGiven, outputs: Sequence[Event]) -> None:
        """Check that an agent which runs uses its place at once."""
        is_used = any(call.agent == body.agent for _, call in of_kind(outputs, CallModel))
        life = self.facts.lives.get(body.agent)
        is_running = life is not None and not 0 < life.ended_by < event.seq
        if body.status == "given" and is_running and not is_used:
            self.in_doubt = event.seq, f"{body.agent} has a place and does not call its model"

    def _model_of(self, who: str) -> str:
        life, wish = self.facts.lives.get(who), self._wishes.get(who)
        if life is None:
            return ""
        return life.begin.model.name if wish is None else life.asked(wish).name


ORIGIN_RULES: Final = {
    "other-origin": "A request to an origin other than the last one says that it breaks the cache.",
    "per-origin": "At one repair level, each request to an origin begins with the previous request to it.",
}


class SentByOrigin:
    """The last request of one agent to each origin."""

    def __init__(self) -> None:
        self._requests: dict[Origin, ModelRequest] = {}
        self._last: Origin | None = None

    def take(self, request: ModelRequest, is_anew: bool) -> str:
        """Record the next request, and return the name of the rule that it breaks, or an empty text."""
        asked, last = request.model.made_by, self._last
        self._last, before = asked, self._requests.get(asked)
        self._requests[asked] = request
        if last not in (None, asked) and not is_anew:
            return "other-origin"
        if before is None or before.repair != request.repair:  # replies are repaired in another way
            return ""
        # `append-only` holds for a conversation with one model.
        if len(self._requests) == 1 and is_all_own(request):
            return ""
        earlier, sent = _sent(before), _sent(request)
        return "" if sent[: len(earlier)] == earlier else "per-origin"


def _sent(request: ModelRequest) -> list[Json]:
    """Return the messages that are sent, but for those about tools and the words that are sent for once."""
    try:
        sent = messages_for(request)
    except Unsayable:
        return []
    if is_by("assistant", request.message(request.length - 1)) and is_by("user", sent[-1]):
        sent = sent[:-1]
    return [said for said in sent if not is_by("system", said)]
