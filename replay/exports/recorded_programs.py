"""The runs of recorded programs, as pure values: what each asked, and after which answers.

A program's steps depend on the order of answers, so a step itself cannot be given again in another order. But
what a program asked can: in any order, once all answers have come that it had when it asked in the recording.
Waits are left out: a step that waited for a deadline comes at once.
"""

from collections import defaultdict
from typing import Any, Final

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.session.call_places import CallPlaces

Value = dict[str, Any]

_decode: Final = msgspec.json.Decoder().decode


Step = tuple[list[str], Value]
"""The ids of all answers that a step of a program had, and its reply, as JSON."""


class RecordedPrograms:
    """The runs of all programs of a session, by address. Takes its events in order.

    runs: for each `Begin` of a program, its steps. places: of its calls.
    """

    def __init__(self) -> None:
        self.runs: defaultdict[str, list[list[Step]]] = defaultdict(list)
        self.places = CallPlaces()
        self._answers: dict[int, str] = {}
        self._heard: dict[str, list[str]] = {}

    def take(self, event: Event) -> None:
        """Add the next event."""
        body = event.body
        match body:
            case Begin():
                self._begin(event.recipient, is_program=body.model.is_program)
            case TurnRequested(new=new) if event.sender in self._heard:
                self._heard[event.sender] += [self._answers[seq] for seq in new if seq in self._answers]
            case ModelReplied(status="ok" | "error") if event.recipient in self._heard:
                self._reply(event.recipient, body)
            case ToolReturned() | DelegationEnded() | ApprovalGiven() if event.recipient in self._heard:
                if ask := self.ask(event.recipient, body.turn, body.call):
                    self._answers[event.seq] = ask
            case _:
                pass

    def _begin(self, address: str, *, is_program: bool) -> None:
        self.places.begin(address, is_program=is_program)
        if is_program:
            self._heard[address] = []
            self.runs[address].append([])
        else:
            self._heard.pop(address, None)

    def _reply(self, address: str, reply: ModelReplied) -> None:
        value: Value = _decode(encode(reply))
        blocks = value.get("content") or ()
        ids = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        self.places.reply(address, reply.turn, ids)
        self.runs[address][-1].append(([*self._heard[address]], value))

    def ask(self, address: str, turn: int, call: int) -> str:
        """Return the id of a program's ask, or an empty text for a call of another agent."""
        place = self.places.place(address, turn, call)
        return place[1] if len(place) == 2 else ""


def named(request: CallTool | RequestApproval) -> str:
    """Return a call of a program as its tool and arguments, by which a person's answer is found."""
    return f"{request.tool} {bytes(request.arguments).decode()}"
