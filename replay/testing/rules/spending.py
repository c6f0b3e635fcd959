"""Spending, counted from nothing but grants and answers: no word of the deciders, no function of theirs."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Ask,
    AskEnded,
    CallModel,
    ModelReplied,
    SessionClosed,
    TurnRequested,
)
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.ledger import Ledger


class Spending(Invariant):
    """The usage that a session and an ask state.

    A call is charged the usage in its answer, or its reservation if the usage is not known. An agent
    whose decider failed may have forgotten what its call used, and is charged anything in between.
    """

    name = "spending"
    rule = "The usage of an ask or session is a sum over its calls: the answer's usage, or the reservation."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._needs: dict[int, tuple[int, int]] = {}
        self._charged: list[tuple[int, str, int, int]] = []
        self._failed: set[str] = set()
        self._asked_for: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._is_in_doubt = False

    def on_Ask(self, event: Event) -> None:
        """Record where the calls of an ask begin."""
        assert isinstance(event.body, Ask)
        self._asked.setdefault(event.body.request_id, event.seq)

    def on_TurnRequested(self, event: Event) -> None:
        """Note what a call may use, should it be granted."""
        assert isinstance(event.body, TurnRequested)
        self._asked_for[event.sender] = event.body.need.tokens

    def on_CallModel(self, event: Event) -> None:
        """Note what a call may use."""
        assert isinstance(event.body, CallModel)
        self._needs[event.seq] = event.seq, self._asked_for.get(event.body.agent, 0)

    def on_DeciderFailed(self, event: Event) -> None:
        """Record an agent whose accounting may be missing."""
        self._failed.add(event.sender)

    def on_ModelReplied(self, event: Event) -> None:
        """Record the usage of a call."""
        reply = event.body
        assert isinstance(reply, ModelReplied)
        granted, need = self._needs.pop(event.cause, (0, 0))
        if granted:
            least = need if reply.usage is None else reply.usage.tokens
            self._charged.append((granted, event.recipient, least, max(least, need)))

    def on_AskEnded(self, event: Event) -> None:
        """Compare the usage that an ask states."""
        ended = event.body
        assert isinstance(ended, AskEnded)
        since = self._asked.pop(ended.request_id, 0)
        if not since or ended.kind == "denied":
            return  # it never began
        self._is_in_doubt = bool(ended.in_doubt)
        if not self._is_in_doubt:
            self._compare(event.seq, ended.usage.tokens, since)

    def on_SessionClosed(self, event: Event) -> None:
        """Compare the usage that the session states."""
        assert isinstance(event.body, SessionClosed)
        if not self._is_in_doubt:
            self._compare(event.seq, event.body.usage.tokens, 0)

    def _compare(self, seq: int, told: int, since: int) -> None:
        mine = [one for one in self._charged if one[0] > since]
        least = sum([low for _, _, low, _ in mine])
        most = sum([high if who in self._failed else low for _, who, low, high in mine])
        if not least <= told <= most:
            self.broken(
                seq, f"it says that {told} tokens were used, by the answers it were {least} to {most}"
            )
