"""The sessions that the readers of a client follow, and what the notifications of their owners lead to.

A session is known to its owner once a notification of it has come: from then on it is asked less often. Until
then, and while the client does not listen, it is asked as if there were no notifications.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from callboard.runtime.cluster.listening import Listener
from callboard.runtime.cluster.live_text import LiveText
from callboard.runtime.cluster.standings import CALM_S, PAUSE_S_MAX, Standings
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.notices import Piece
from callboard.runtime.log.postgres.tables import is_text

LATER_S: Final = 0.05  # in which changes are collected: one that is taken back meanwhile is never sent


class Interest:
    """The sessions that a client follows. It connects when the first one is followed."""

    def __init__(self, log: PostgresLog, leases: Leases) -> None:
        self._leases = leases
        self.standings = Standings(log, self.pause_max_s)
        self.is_listening = False
        self._wishes: dict[str, Counter[int]] = {}
        self._texts: dict[str, LiveText] = {}
        self._sent: dict[str, int] = {}
        self._changed: set[str] = set()
        self._known: set[str] = set()
        self._listener: Listener | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def pause_max_s(self, session_id: str) -> float:
        """Return the longest pause between two questions about a session."""
        return CALM_S if session_id in self._known else PAUSE_S_MAX

    @contextmanager
    def following(self, session_id: str, wish: int) -> Iterator[LiveText]:
        """Follow a session for one reader. wish: such as `HOST_TEXT`."""
        wishes = self._wishes.setdefault(session_id, Counter())
        live = self._texts.setdefault(session_id, LiveText())
        wishes[wish] += 1
        self._change(session_id)
        try:
            yield live
        finally:
            wishes[wish] -= 1
            if not +wishes:
                del self._wishes[session_id], self._texts[session_id]
                self._known.discard(session_id)
            self._change(session_id)

    async def aclose(self) -> None:
        """Stop listening."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.aclose()

    # --- to the listener --------------------------------------------------------------

    def _change(self, session_id: str) -> None:
        if not is_text(session_id):  # no session has this name
            return
        self._changed.add(session_id)
        if self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(LATER_S, self._send)

    def _send(self) -> None:
        """Tell the listener of the sessions whose wish has changed."""
        self._timer = None
        changed, self._changed = self._changed, set()
        wishes = {name: max(+self._wishes[name]) if name in self._wishes else None for name in changed}
        changes = {name: wish for name, wish in wishes.items() if wish != self._sent.get(name)}
        for name, wish in changes.items():
            if wish is None:
                del self._sent[name]
            else:
                self._sent[name] = wish
        if changes and self._listener is None:
            address, cipher = self._leases.address, self._leases.cipher
            self._listener = Listener(address, cipher, self._on_news, self._on_state)
        if changes and self._listener is not None:
            self._listener.change(changes)

    # --- from the listener ------------------------------------------------------------

    def _on_state(self, is_listening: bool) -> None:
        self.is_listening = is_listening
        self._known.clear()
        for name in self._wishes:  # something may have been missed
            self.standings.wake(name)

    def _on_news(self, news: list[str], pieces: list[tuple[str, Piece]]) -> None:
        for name in news:
            if name in self._wishes:
                self._known.add(name)
                self.standings.wake(name)
        for name, piece in pieces:
            if (live := self._texts.get(name)) is not None:
                live.add(piece)
