"""The answers to calls that waited for background tasks: they tell an agent which of them still run."""

import msgspec

from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import place_of
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.messages import AnyMessage, Begin, Delegated, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied

_OPENINGS = (b'"Still running: ', b'"No background task runs')


class Waited(msgspec.Struct, eq=False):
    """The tasks of an agent. moments: those that ran after each message to it since its last reply."""

    running: dict[tuple[int, int], str] = {}
    moments: list[tuple[str, ...]] = []

    def hear(self, body: AnyMessage) -> None:
        """Take in a message to the agent."""
        match body:
            case Begin():  # the answer to a call of the ask before may be sent only now
                self.running = {}
            case ModelReplied():
                self.moments = []
            case Delegated(turn=turn, call=call, address=address):
                self.running[turn, call] = address
            case DelegationEnded(turn=turn, call=call):
                self.running.pop((turn, call), None)
            case _:
                return
        self.moments.append(tuple(self.running.values()))

    def allows(self, said: bytes) -> bool:
        """Return whether a call that waited may be answered so: it was true at some moment."""
        return said.startswith(_OPENINGS) and any(said == _told(running) for running in self.moments)


def _told(running: tuple[str, ...]) -> bytes:
    return bytes(encode(prompts.waited(sorted(running, key=lambda one: place_of(one)[1]))))
