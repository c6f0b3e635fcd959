"""The message with which a program asks for its next step."""

from typing import final

from callboard.actors.protocol.immutable import RichMessage


@final
class RunStep(RichMessage, frozen=True):
    """A request for a step of a program, which reserves nothing and so needs no grant.

    turn, attempt, digest, new: as of `TurnRequested`.
    """

    turn: int
    attempt: int = 1
    digest: str = ""
    new: tuple[int, ...] = ()
