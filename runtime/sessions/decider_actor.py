"""The Pykka actor around a decider, and the part of the board that it uses.

The redaction of posts that come from outside of the deciders.
"""

import logging
from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from callboard.actors.protocol.addresses import PORTS, SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.session.core import PostGroup, SessionCore
from callboard.runtime.scheduling.loop_actor import LoopActor
from callboard.runtime.scheduling.run_queue import LeanInbox
from callboard.runtime.secrets.registry import Secrets

logger = logging.getLogger("callboard.board")


class DecisionBoard(Protocol):
    """The board of a session, as its actors use it."""

    session_id: str
    core: SessionCore

    def submit(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        """Submit the posts of a decision."""

    def dismiss(self, address: str) -> None:
        """Stop the actor of a sub-agent at rest."""

    def flush(self) -> None:
        """Post and publish everything submitted so far."""

    def fail(self, error: BaseException) -> None:
        """Fail the session in this process."""


class DeciderActor(LoopActor):
    """The shell around a decider: receive, decide, post. The session core keeps the decider's state."""

    use_registry = False
    actor_inbox: LeanInbox
    _create_actor_inbox = LeanInbox

    def __init__(self, board: DecisionBoard, address: str) -> None:
        super().__init__(urn=address)
        self.board = board
        self.address = address

    def on_receive(self, message: Event) -> None:
        """Handle one event."""
        board = self.board
        core = board.core
        try:
            posts = core.decide(message)
        except Exception as error:
            posts = self._replace_decision(message, error)
        if posts:  # an agent that comes to rest says so
            board.submit(self.address, message.seq, posts)
            if self.address not in core.mailboxes:
                board.dismiss(self.address)

    def _replace_decision(self, message: Event, error: Exception) -> tuple[Post, ...]:
        """Return the posts for an event on which the decider raised. Fail the session for the supervisor."""
        board = self.board
        logger.error(
            "session %s: %s failed on event %d", board.session_id, self.address, message.seq, exc_info=error
        )
        if self.address != SUPERVISOR:
            return board.core.decide(message, type(error).__name__)
        board.flush()  # the decisions before this event stand
        board.fail(error)
        return ()

    def on_receive_together(self, messages: list[Event]) -> None:
        """Handle consecutive events; one by one if the decider raises, to find the event at fault."""
        core = self.board.core
        try:
            decisions = core.decide_together(messages)
        except Exception:
            decisions = None
        if decisions is None:
            for message in messages:
                self.on_receive(message)
            return
        for message, posts in zip(messages, decisions, strict=True):
            if posts:
                self.board.submit(self.address, message.seq, posts)
        if self.address not in core.mailboxes:
            self.board.dismiss(self.address)

    def on_crash(self, error: BaseException) -> None:
        """Fail the session: the actor has ended unasked, so its state can no longer be trusted."""
        self.board.fail(error)


def admitted_groups(secrets: Secrets, submitted: list[PostGroup]) -> list[PostGroup]:
    """Redact the submitted posts of ports and clients."""
    # Deciders only repeat text that was redacted when a port or client submitted it.
    foreign = [post for sender, _, posts in submitted if sender in PORTS for post in posts]
    admitted = secrets.admit(foreign)
    if admitted is foreign:  # no secret was found, as nearly always
        return submitted
    rest = iter(admitted)
    return [
        (sender, cause, tuple(islice(rest, len(posts))) if sender in PORTS else posts)
        for sender, cause, posts in submitted
    ]
