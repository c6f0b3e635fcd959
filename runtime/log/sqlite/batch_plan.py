"""A batch before it is written: the answer for each session, the rows, and how heads move."""

from collections.abc import Sequence

import msgspec

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.log.append_rules import refusal
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import UNWRITABLE, HashChain
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.sqlite.rows import Rows
from callboard.runtime.log.sqlite.schema import SEQ_BITS


class KnownHead(msgspec.Struct, gc=False):
    """A session as its owner remembers it: number in the file, epoch, head, the head's digest."""

    number: int
    epoch: int
    head: int
    digest: bytes


class BatchPlan:
    """The plan of one batch. answers: one per session. heads: of the sessions, after the batch."""

    def __init__(self, rows: Rows, hash_chain: HashChain, cipher: Cipher | None) -> None:
        self.answers: list[Head | Exception] = []
        self.rows = rows
        self.heads: dict[str, KnownHead] = {}
        self._before: dict[str, int] = {}
        self._hash_chain = hash_chain
        self._cipher = cipher

    @property
    def is_refused(self) -> bool:
        """True if a session of the batch is refused."""
        return any(isinstance(answer, Exception) for answer in self.answers)

    def moves(self) -> str:
        """Return number, epoch, former and new head of every session of the batch, as JSON."""
        moves = [
            (known.number, known.epoch, self._before[session_id], known.head)
            for session_id, known in self.heads.items()
        ]
        return msgspec.json.encode(moves).decode()

    def add(self, part: Append, known: KnownHead) -> None:
        """Seal one session's events, all or none, and note its answer. known: its head so far."""
        self.answers.append(self._added(part, known))

    def _added(self, part: Append, known: KnownHead) -> Head | Exception:
        if refused := refusal(part, known.epoch, known.head):
            return refused
        try:
            sealing = self._hash_chain.seal_all(part.session_id, known.digest, part.events)
            if self._cipher is not None:
                sealing = sealing._replace(bodies=_encrypted(self._cipher, part, sealing.bodies))
        except UNWRITABLE as error:  # of one session only: the others of the batch go on
            return StoreFailed(f"session {part.session_id}: an event cannot be written: {error}")
        head = known.head + len(part.events)
        self.rows.add(known.number << SEQ_BITS, part.events, sealing)
        self._before.setdefault(part.session_id, known.head)
        digest = sealing.digests[-1] if sealing.digests else known.digest
        self.heads[part.session_id] = KnownHead(known.number, known.epoch, head, digest)
        return Head(head, digest)


def _encrypted(cipher: Cipher, part: Append, bodies: Sequence[bytes]) -> list[bytes]:
    return [
        cipher.seal_event(part.session_id, event.seq, body)
        for event, body in zip(part.events, bodies, strict=True)
    ]
