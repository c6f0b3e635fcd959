"""The keys of port requests: two requests of a session and a fork of it are the same if their keys are equal.

    request           its key has
    CallModel         agent, turn, attempt, digest of the whole request, and the model that is asked
    RunStep           agent, turn and attempt, as of a `CallModel` for a step
    RequestBudget     the key of the call that it is for, behind the word `budget`
    CallTool          agent, turn, call, tool, arguments, and the input given in this round
    RequestApproval   agent, turn, call, tool and arguments
    CheckSchema       task, schema and value
    MakeContext       agent that begins, profile, digest of the parent's last request, and delegation

`call_places` says how agents and calls are known: those of a program by the ids of its asks.
"""

from typing import Final, TypeAlias

from msgspec.structs import replace

from callboard.actors.agent.content import read
from callboard.actors.protocol.addresses import child_of
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event, Takers
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CheckSchema,
    MakeContext,
    ModelReplied,
    RequestApproval,
    RequestBudget,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.wishes import first_turn, turn_of
from callboard.actors.session.call_places import CallPlaces, Place

Key: TypeAlias = tuple[object, ...]


class RequestKeys:
    """The keys of port requests. Takes the events of a session in order."""

    def __init__(self) -> None:
        self._wishes: dict[int, TurnRequested] = {}
        self._latest: dict[str, TurnRequested] = {}
        self._models: dict[str, ModelSpec] = {}
        self._delegations: dict[int, bytes] = {}
        self._places = CallPlaces()

    def take(self, event: Event) -> Key | None:
        """Take the next event. Return its key if it is a request that a recorded answer may fit."""
        make = _MAKERS.get(type(event.body))
        return None if make is None else make(self, event, event.body)

    def agent(self, address: str) -> str:
        """Return the name of an agent in keys."""
        return self._places.name(address)

    def place(self, agent: str, turn: int, call: int) -> Place:
        """Return the place of a call in keys."""
        return self._places.place(agent, turn, call)

    def _begin(self, event: Event, begin: Begin) -> None:
        self._models[event.recipient] = begin.model
        self._places.begin(event.recipient, is_program=begin.model.is_program)

    def _replied(self, event: Event, reply: ModelReplied) -> None:
        if self._places.is_program(event.recipient) and (said := read(reply.content)) is not None:
            self._places.reply(event.recipient, reply.turn, [use.id for use in said.uses])

    def _wish(self, event: Event, wish: TurnRequested) -> None:
        self._wishes[event.seq] = wish
        self._latest[event.sender] = wish

    def _delegate(self, event: Event, body: Delegate) -> None:
        self._places.delegate(event.sender, body.turn, body.call, len(body.profiles))
        if self._places.is_program(event.sender):  # its turns, and what it has heard, depend on the order
            body = replace(body, turn=0, call=0, messages=0)
        self._delegations[event.seq] = encode(replace(body, settled=None))

    def _ended(self, event: Event, end: DelegationEnded) -> None:
        if not end.address:
            self._places.refuse(event.recipient, end.turn, end.call)

    def _model(self, event: Event, grant: CallModel) -> Key | None:
        if (first := first_turn(grant)) is not None:
            self._latest[grant.agent] = first
            return self._call(grant.agent, first)
        wish = self._wishes.pop(grant.request, None)
        return None if wish is None else self._call(grant.agent, wish)

    def _step(self, event: Event, step: RunStep) -> Key:
        self._latest[event.sender] = wish = turn_of(step)
        return self._call(event.sender, wish)

    def _budget(self, event: Event, asked: RequestBudget) -> Key | None:
        wish = self._latest.get(asked.agent)
        return None if wish is None else ("budget", *self._call(asked.agent, wish))

    def _call(self, address: str, wish: TurnRequested) -> Key:
        agent = self.agent(address)
        if self._places.is_program(address):
            return ("step", agent, wish.turn, wish.attempt)
        # The digest covers the request, but not the model.
        spec = self._models[address].spec_named(wish.model)
        model = (wish.model, spec.name, spec.max_tokens, bytes(spec.params))
        return ("model", agent, wish.turn, wish.attempt, wish.digest, *model)

    def _tool(self, event: Event, call: CallTool) -> Key:
        place = self.place(event.sender, call.turn, call.call)
        given = encode(call.given) if call.given else b""
        return ("tool", *place, call.tool, bytes(call.arguments), given)

    def _approval(self, event: Event, asked: RequestApproval) -> Key:
        call = (*self.place(event.sender, asked.turn, asked.call), asked.tool, bytes(asked.arguments))
        return ("approval", *call, asked.is_repeat, asked.round, bytes(asked.form))

    def _schema(self, event: Event, check: CheckSchema) -> Key:
        return ("schema", check.task, bytes(check.schema), bytes(check.value), check.output_type)

    def _context(self, event: Event, wanted: MakeContext) -> Key:
        child = self.agent(child_of(wanted.parent, wanted.delegation))
        known = self._latest.get(wanted.parent)
        digest = known.digest if known else None
        return ("context", child, wanted.profile, digest, self._delegations.get(wanted.request))


_MAKERS: Final[Takers[RequestKeys, Key | None]] = {
    Begin: RequestKeys._begin,
    TurnRequested: RequestKeys._wish,
    Delegate: RequestKeys._delegate,
    DelegationEnded: RequestKeys._ended,
    ModelReplied: RequestKeys._replied,
    CallModel: RequestKeys._model,
    RunStep: RequestKeys._step,
    RequestBudget: RequestKeys._budget,
    CallTool: RequestKeys._tool,
    RequestApproval: RequestKeys._approval,
    CheckSchema: RequestKeys._schema,
    MakeContext: RequestKeys._context,
}
