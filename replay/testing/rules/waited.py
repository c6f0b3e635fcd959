"""The answers to calls that waited for background tasks: they tell an agent which of them still run."""

import msgspec

from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import place_of
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.messages import AnyMessage, Begin, Delegated, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied


class Waited(msgspec.Struct, eq=False):
    """The tasks of an agent. texts: the answers that were true at some moment since its last reply."""

    running: dict[tuple[int, int], str] = {}
    texts: set[bytes] = set()

    def hear(self, body: AnyMessage) -> None:
        """Take in a message to the agent."""
        match body:
            case Begin():
                self.running, self.texts = {}, set()
            case ModelReplied():
                self.texts = set()
            case Delegated(turn=turn, call=call, address=address):
                self.running[turn, call] = address
            case DelegationEnded(turn=turn, call=call):
                self.running.pop((turn, call), None)
            case _:
                return
        told = prompts.waited(sorted(self.running.values(), key=lambda one: place_of(one)[1]))
        self.texts.add(bytes(encode(told)))
