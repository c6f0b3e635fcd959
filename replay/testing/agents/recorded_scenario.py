"""A recorded session as a scenario: recorded answers, in other orders and with faults.

An answer is known by its agent and turn, a tool's by the call too, so that any order finds it. A program
makes its recorded asks, each once the answers before it have come. A request that was never answered in the
recording fails as `not_recorded`: a racer that lost before it had replied loses again. An outcome that came
from time (a deadline) or from a cancel of the client is not made again.

The steps of recorded programs in another order: each ask is made once the answers before it have come.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Ask, SessionOpened, Tell, ToolsChanged
from callboard.actors.protocol.codec import UnreadableBody, decode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.histories import HandedHistory
from callboard.actors.protocol.immutable import Json, JsonObject, Message
from callboard.actors.protocol.origin import Makers
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.actors.session.contexts import ContextRequest
from callboard.replay.exports.recorded_parts import Place, named
from callboard.replay.testing.agents.runs import Scenario
from callboard.replay.testing.agents.scenario_arguments import FaultsLike, faults_of, monitors_of
from callboard.replay.testing.agents.simulated_ports import checker
from callboard.replay.testing.sessions import scenario as pure
from callboard.replay.testing.sessions.scripted_replies import Reply
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Monitor
from callboard.runtime.sessions.session_types import SessionTypes

M = TypeVar("M", bound=Message)
Value = JsonObject
_NOT_RECORDED: Final = "not_recorded"
Step = tuple[Sequence[str], JsonObject]
"""The ids of the answers that a step had, and its reply."""
Block = JsonObject
_NO_RUN: Final = ModelFailure("not_recorded", "no run of this program was recorded for the ask")


class RecordedScenario(Scenario):
    """A session that was recorded, as `callboard export --format scenario` writes it.

    The messages are JSON values. opened: the first one. asks, tells, changes: of the client; a tell comes
    with the event that `after` names, such as `CallTool host.1:2:0`, and without it at any time.
    closes: whether it closes the session at the end. replies: by agent and turn, each attempt in order.
    results, approvals: by agent and (turn, call), each round in order. contexts: of delegations. programs: by
    agent, the steps of each run; their results are known by the ids of their asks. faults, monitors, name: as
    of `Scenario`.

    Raises MisuseError for values that are not messages.
    """

    def __init__(
        self,
        opened: Value,
        asks: Sequence[Value],
        replies: Mapping[str, Mapping[int, Sequence[Value]]],
        results: Mapping[str, Mapping[Place, Sequence[Value]]] | None = None,
        *,
        approvals: Mapping[str, Mapping[Place, Sequence[Value]]] | None = None,
        contexts: Sequence[Value] = (),
        programs: Mapping[str, Sequence[Sequence[Step]]] | None = None,
        tells: Sequence[Value] = (),
        changes: Sequence[Value] = (),
        closes: bool = False,
        faults: FaultsLike = None,
        monitors: Sequence[Monitor[SessionWorld]] = (),
        name: str = "",
    ) -> None:
        first = _message(opened, SessionOpened)
        said = [replace(_message(one, Ask), output_type="", deps="") for one in asks]
        self.types = SessionTypes({}, first.host, ())
        self.name = name or first.host
        self.monitors = monitors_of(monitors)
        answers = _Answers(replies, results or {}, approvals or {}, contexts, programs or {})
        self.pure = pure.Scenario(
            _profiles(first),
            answers.reply,
            said,
            first.limits,
            tool=answers.result,
            check=checker(self.types),
            approve=answers.approval,
            context=answers.context,
            model=first.model,
            closes=closes,
            faults=faults_of(faults),
            changes=[_message(one, ToolsChanged).change for one in changes],
            state=first.state,
            capacity=first.capacity,
            scopes=first.scopes,
            tells=[_message(_without_after(one), Tell) for one in tells],
            tells_after={str(one["request_id"]): str(one["after"]) for one in tells if "after" in one},
        )


def _without_after(tell: Value) -> Value:
    return {name: value for name, value in tell.items() if name != "after"}


class _Answers:
    """The recorded answers, as the ports of a scenario. Pure: the same request gets the same answer."""

    def __init__(
        self,
        replies: Mapping[str, Mapping[int, Sequence[Value]]],
        results: Mapping[str, Mapping[Place, Sequence[Value]]],
        approvals: Mapping[str, Mapping[Place, Sequence[Value]]],
        contexts: Sequence[Value],
        programs: Mapping[str, Sequence[Sequence[Step]]],
    ) -> None:
        self._programs = programs
        self._replies = _messages(replies, ModelReplied)
        self._results = _messages(results, ToolReturned)
        self._approvals = _messages(approvals, ApprovalGiven)
        self._contexts = {_view(one): one for one in contexts}

    def reply(self, request: ModelRequest) -> Reply:
        """Return the recorded reply to a turn: of that attempt, else the one that answered."""
        if request.address in self._programs:
            return next_step(self._programs[request.address], request.conversation)
        said = self._recorded_reply(request)
        if said is None:
            why = f"no reply to turn {request.turn} of {request.address} was recorded"
            return Reply(failure=ModelFailure(_NOT_RECORDED, why), usage=ZERO)
        if said.failure is not None:
            return Reply(failure=said.failure, usage=said.usage)
        return Reply(content=bytes(said.content), stop_reason=said.stop_reason, usage=said.usage)

    def _recorded_reply(self, request: ModelRequest) -> ModelReplied | None:
        attempts = self._replies.get((request.address, request.turn), ())
        same = [one for one in attempts if one.attempt == request.attempt]
        return next(iter(same or [one for one in attempts if one.status == "ok"]), None)

    def result(self, address: str, call: CallTool) -> ToolReturned:
        """Return the recorded result of a call, in the round that it is in."""
        place: Place = call.id if address in self._programs else (call.turn, call.call)
        rounds = self._results.get((address, place), ())
        number = call.given.round if call.given is not None else 0
        if number >= len(rounds):
            return ToolReturned(
                call.turn, call.call, "error", text_json("no result of this call was recorded")
            )
        return replace(rounds[number], turn=call.turn, call=call.call, reused=0)

    def approval(self, address: str, request: RequestApproval) -> ApprovalGiven:
        """Return the recorded answer to a question; a call that was not asked about is approved."""
        place: Place = named(request) if address in self._programs else (request.turn, request.call)
        given = self._approvals.get((address, place), ())
        same = [one for one in given if (one.is_repeat, one.round) == (request.is_repeat, request.round)]
        if not same:
            return ApprovalGiven(
                request.turn, request.call, "approved", is_repeat=request.is_repeat, round=request.round
            )
        return replace(same[0], turn=request.turn, call=request.call, permission=0)

    def context(self, view: ContextRequest) -> HandedHistory:
        """Return the recorded context of a delegation. Raises LookupError without one."""
        found = self._contexts.get((view.parent, view.profile, encoded(view.prompt)))
        if found is None or found["status"] != "ok":
            raise LookupError("no context of this delegation was recorded")
        messages = tuple(Json(encoded(one)) for one in found.get("history", ()))
        makers = msgspec.convert(found.get("makers", ()), Makers)
        repairs = tuple(found.get("repairs", ()))
        return HandedHistory(messages, makers, Json(encoded(found["content"])), repairs)


def encoded(value: object) -> bytes:
    """Return a JSON value as bytes, to compare it."""
    return msgspec.json.encode(value)


def _view(one: Value) -> tuple[str, str, bytes]:
    return one["parent"], one["profile"], encoded(one["prompt"])


def _messages(
    values: Mapping[str, Mapping[Any, Sequence[Value]]], kind: type[M]
) -> dict[tuple[str, object], tuple[M, ...]]:
    return {
        (agent, place): tuple(_message(one, kind) for one in found)
        for agent, places in values.items()
        for place, found in places.items()
    }


def _message(value: Value, kind: type[M]) -> M:
    try:
        found = decode(encoded(value))
    except UnreadableBody as error:
        raise MisuseError(
            f"{value!r:.80} is not a {kind.__name__} ({error}); export the session again"
        ) from None
    if not isinstance(found, kind):
        raise MisuseError(f"{value!r:.80} is a {type(found).__name__}, not a {kind.__name__}")
    return found


def _profiles(opened: SessionOpened) -> list[Profile]:
    """Return the profiles, the host's first. The Python types of reports are not known here."""
    found = [
        replace(msgspec.json.decode(one, type=Profile), output_type="") for one in map(bytes, opened.profiles)
    ]
    return sorted(found, key=lambda one: one.name != opened.host)


def next_step(runs: Sequence[Sequence[Step]], conversation: Sequence[Block]) -> Reply:
    """Return the next reply of a recorded program. runs: those of the recording, in order."""
    number, said, heard = _run_so_far(conversation)
    steps = runs[number - 1] if 0 < number <= len(runs) else ()
    if not steps:
        return Reply(failure=_NO_RUN, usage=ZERO)
    asked = {block["id"] for block in said if block.get("type") == "tool_use"}
    due = len([after for after, _ in steps if set(after) <= heard])
    while not (new := _new_asks(steps[:due], asked)) and asked <= heard and due < len(steps):
        due += 1  # an answer never came: a lost race, a cancel
    if due == len(steps) and not new:
        return _last(steps[-1][1], _count(said))
    open_ids = asked - heard - {*_cancels(said)}
    cancels = [one for _, reply in steps[:due] for one in _cancels(_blocks(reply)) if one in open_ids]
    return _reply([_head(_count(said), cancels), *new], "tool_use")


def _run_so_far(conversation: Sequence[Block]) -> tuple[int, list[Block], set[str]]:
    """Return the number of the run, the blocks that it has said, and the ids of the answers that it has."""
    number, said, heard = 0, list[Block](), set[str]()
    for message in conversation:
        content = message["content"]
        blocks = content if isinstance(content, list) else ()
        results = [str(one["tool_use_id"]) for one in blocks if one.get("type") == "tool_result"]
        if message["role"] == "assistant":
            said += blocks
        elif results:
            heard.update(results)
        else:
            number, said, heard = number + 1, [], set()
    return number, said, heard


def _blocks(reply: Mapping[str, Any]) -> Sequence[Block]:
    return reply.get("content") or ()


def _new_asks(steps: Sequence[Step], asked: set[str]) -> list[Block]:
    """Return the asks of these steps that were not made yet, in their recorded order."""
    blocks = [one for _, reply in steps for one in _blocks(reply) if one.get("type") == "tool_use"]
    return [one for one in blocks if one["id"] not in asked]


def _cancels(blocks: Sequence[Block]) -> list[str]:
    return [id for one in blocks for id in one.get("cancels") or ()]


def _count(said: Sequence[Block]) -> int:
    return 1 + len([one for one in said if one.get("type") == "program_step"])


def _head(number: int, cancels: Sequence[str] = ()) -> Block:
    step = {"run": "recorded", "step": number, "at": number, "wake": None, "cancels": cancels, "marks": {}}
    return {"type": "program_step", **step}


def _last(reply: Mapping[str, object], number: int) -> Reply:
    """Return the end of a program: its result, or its error."""
    if failure := reply.get("failure"):
        return Reply(failure=msgspec.convert(failure, ModelFailure), usage=ZERO)
    rest = [one for one in _blocks(reply) if one.get("type") not in ("program_step", "tool_use")]
    return _reply([_head(number), *rest], str(reply.get("stop_reason", "end_turn")))


def _reply(blocks: Sequence[Block], stop_reason: str) -> Reply:
    return Reply(stop_reason=stop_reason, usage=ZERO, content=msgspec.json.encode(blocks))
