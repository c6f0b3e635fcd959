"""The calls of a stream of blocks (Messages, Converse), each a block with an index and an id.

A block is named by its index. Behind some proxies that is absent, or the same for all, and a block comes
twice. So a piece belongs to the last block of its index, and a call is judged when all have come: one that
comes again is left out, and one to which pieces may belong that went elsewhere is not run.
"""

from collections.abc import Sequence

from callboard.runtime.models.call_arguments import (
    CONTRADICTED,
    DOUBLED,
    UNCLEAR,
    Settled,
    is_object,
    settled,
)


class CallBlock:
    """The call of one block while it streams.

    index: None if the service tells none. id: empty for none. whole: the arguments at its start, if they are
    there. is_stopped: its end was told, so that a call without arguments so far has none.
    """

    def __init__(self, index: object, call_id: str, name: object, whole: str = "") -> None:
        self.index = index
        self.id = call_id
        self.name = name
        self.is_stopped = False
        self._whole = [whole] if whole else []
        self._pieces: list[str] = []
        self._why = ""

    @property
    def has_begun(self) -> bool:
        """Return True if more than its start has come."""
        return bool(self._pieces) or self.is_stopped

    def add(self, piece: str) -> None:
        """Add a piece of its arguments."""
        if self.is_stopped and piece:
            self.refuse(UNCLEAR)  # of another call perhaps
        self._pieces.append(piece)

    def follows(self, before: "CallBlock") -> None:
        """Begin at the index of another call. Pieces of either may come, unless that one is whole."""
        if not before.is_stopped and not is_object(before.settled().text):
            before.refuse(UNCLEAR)
            self.refuse(UNCLEAR)

    def refuse(self, why: str) -> None:
        """Do not run it, for this reason if there is no earlier one."""
        self._why = self._why or why

    def settled(self) -> Settled:
        """Return its arguments."""
        found = settled(self._pieces, self._whole, is_told=self.is_stopped)
        return Settled(found.text, found.why or self._why)


def once_each(calls: Sequence[CallBlock]) -> frozenset[CallBlock]:
    """Return the calls that came before under the same id. Refuse those that contradict each other.

    Without ids an equal call at the same index may be the same one or another: it stays, and is refused.
    """
    again = set()
    for at, call in enumerate(calls):
        for before in calls[:at]:
            if before.id != call.id or before in again:
                continue
            is_equal = (before.name, before.settled().text) == (call.name, call.settled().text)
            if call.id and is_equal:
                again.add(call)
                break
            if call.index != before.index:
                continue
            if is_equal:
                call.refuse(DOUBLED)
            elif call.id:
                before.refuse(CONTRADICTED)
                call.refuse(CONTRADICTED)
    return frozenset(again)
