"""The writer's side of a log on PostgreSQL: plain functions on one connection, one after the other.

The store remembers number, epoch and head of the sessions that it writes. A head that is not as remembered
refuses an append in the server, so a wrong memory costs a question and never an event.

After a cut connection the outcome of the last statement is not known. `append` waits until its rows are free,
reads where each session stands, and sends the events of those again that stand where they stood, under the
same comparison. So the old statement and the new one cannot both be stored, whichever comes first.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.errors import (
    Fenced,
    MisuseError,
    SessionNotFound,
    StoreFailed,
    WrongHead,
)
from callboard.actors.protocol.events import Event
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres.arrays import Bytea, int8s, texts
from callboard.runtime.log.postgres.batch import Known, Move, Plan
from callboard.runtime.log.postgres.checking import CheckedTables
from callboard.runtime.log.postgres.deletion import remove_some, take_out, vacuum
from callboard.runtime.log.postgres.link import ATTEMPTS_MAX, PAUSE_S, Cut, Link
from callboard.runtime.log.postgres.schema import make_partition, partition_of
from callboard.runtime.log.postgres.spending import SpendingTables
from callboard.runtime.log.postgres.store_errors import driver, is_repeatable, store_error
from callboard.runtime.log.postgres.tables import is_text
from callboard.runtime.log.protocol import (
    Append,
    Head,
    Stored,
    has_forks,
    no_base,
    no_session,
    session_exists,
)
from callboard.runtime.log.session_rows import HIDDEN, SessionQuery, SessionRow

T = TypeVar("T")
_REFUSALS: Final = (Fenced, WrongHead)
REMEMBERED_MAX: Final = 10_000  # sessions, and digests of large values, give or take one batch
EVENT_BYTES: Final = 180  # in the table and its index, beside the body

_NEW: Final = (
    "INSERT INTO {s}.sessions(session_id, epoch, head, digest, origin, base, created_ms, title, parent) "
    "SELECT %s, 1, %s, %s, %s, %s, %s, %s, %s "
    # Without it a refused id would use up a number.
    "WHERE NOT EXISTS (SELECT 1 FROM {s}.sessions WHERE session_id = %s) "
    "ON CONFLICT (session_id) DO NOTHING RETURNING id"
)
_RAISE: Final = "UPDATE {s}.sessions SET epoch = epoch + 1 WHERE id = ANY(%s) RETURNING id, epoch"
_ENTRIES: Final = (
    "SELECT session_id, id, epoch, head, digest, status FROM {s}.sessions WHERE session_id = ANY(%s)"
)
_STANDING: Final = (
    "SELECT id, epoch, head, digest FROM {s}.sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
)
_WITHDRAW: Final = (  # a session that was submitted, and that neither has events nor is about to get some
    "DELETE FROM {s}.leases AS l WHERE l.session = %s "
    "AND NOT EXISTS (SELECT 1 FROM {s}.sessions WHERE session_id = %s AND status <> %s) "
    "AND NOT EXISTS (SELECT 1 FROM {s}.workers AS w WHERE w.id = l.worker "
    "AND w.ends_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint) RETURNING 1"
)
_DIGEST_AT: Final = "SELECT digest FROM {s}.events WHERE session = %s AND seq = %s"
_SIZE: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c "
    "JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
)


class Memory:
    """The part of a log that this process remembers. The threads of one log share it.

    known: number, epoch and head of sessions. blobs: digests of large values that the log has. partitions:
    those that are there.
    """

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.blobs: set[bytes] = set()
        self.partitions = {0}
        self.written = 0  # bytes since the size of the log was measured

    def note(self, moves: Iterable[Move]) -> None:
        """Remember the sessions and large values of a batch that was stored."""
        if max(len(self.known), len(self.blobs)) > REMEMBERED_MAX:
            self.known.clear()
            self.blobs.clear()
        for move in moves:
            self.known[move.session_id] = move.known._replace(head=move.head)
            values = {cut.digest: cut.data for cuts in move.cuts() for cut in cuts}
            self.written += sum(len(values[new]) for new in values.keys() - self.blobs)
            self.blobs.update(values)
            self.written += sum(len(body) + EVENT_BYTES for one in move.sealings for body in one.bodies)


class PostgresStore:
    """A log's tables, as one thread of a process writes them."""

    def __init__(self, link: Link, hash_chain: HashChain, cipher: Cipher | None, memory: Memory) -> None:
        self.link = link
        self.tables = CheckedTables(link, cipher)
        self.spending = SpendingTables(self.tables, cipher)
        self._memory = memory
        self._hash_chain = hash_chain
        self._cipher = cipher
        self._driver = driver()

    # --- appending ----------------------------------------------------------------

    def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        """Write a batch, as `EventLog.append` does."""
        plan = self._planned(batch, is_asked=False)
        if any(isinstance(answer, _REFUSALS) for answer in plan.answers):  # maybe for want of a newer memory
            plan = self._planned(batch, is_asked=True)
        answers, refused = plan.answers, self._write(plan)
        if refused:
            # Where they stand says why; one that only the memory was wrong about is written.
            left = [at for at, part in enumerate(batch) if part.session_id in refused]
            plan = self._planned([batch[at] for at in left], is_asked=True)
            again = self._write(plan)
            for at, answer in zip(left, plan.answers, strict=True):
                answers[at] = _lost(batch[at]) if batch[at].session_id in again else answer
        return answers

    def _planned(self, batch: Sequence[Append], *, is_asked: bool) -> Plan:
        """Plan a batch. is_asked: True to ask the log where its sessions stand, whatever is remembered."""
        plan = Plan(self._hash_chain, self._cipher, self.tables.stored_text)
        known, names = self._memory.known, {part.session_id for part in batch}
        former = {name: known[name] for name in names if name in known}
        found = former if not is_asked and len(former) == len(names) else self._ask_for(names)
        for part in batch:
            now = found.get(part.session_id)
            if now is None:
                plan.answers.append(no_session(part.session_id))
            elif _is_other(former.get(part.session_id), now):
                plan.answers.append(_lost(part))
            else:
                plan.add(part, now)
        return plan

    def _ask_for(self, names: Iterable[str]) -> dict[str, Known]:
        rows = self.tables.rows(_ENTRIES, (texts(filter(is_text, names)),))
        return {
            name: Known(number, epoch, Head(head, digest))
            for name, number, epoch, head, digest, status in rows
            if status != HIDDEN
        }

    def _write(self, plan: Plan, *, is_inside: bool = False) -> set[str]:
        """Write a plan. Return the sessions that the log refused. Raises StoreFailed.

        is_inside: True inside a transaction, which a cut ends.
        """
        left, refused, is_doubtful = dict(plan.moves), set[str](), False
        for attempt in range(ATTEMPTS_MAX):
            if not left:
                return self._noted(plan, refused)
            try:
                # A transaction cannot send again, so it sends every value.
                moved = self._send(plan, left.values(), () if is_inside else self._memory.blobs)
            except Cut:
                if is_inside:
                    raise
                is_doubtful = True
                refused |= self._settle(left)
                continue
            except self._driver.Error as error:
                if is_inside:  # `Link.transact` repeats the transaction, or raises a StoreError
                    raise
                self._memory.blobs.clear()  # one that was thought to be there may be gone
                is_lost = isinstance(error, self._driver.errors.ForeignKeyViolation)
                if not (is_lost or is_repeatable(error)):
                    raise store_error(error, self.link.address, "append") from error
                self.link.pause(PAUSE_S * attempt)
                continue
            gone = {name: move for name, move in left.items() if move.known.number not in moved}
            refused |= {name for name, move in gone.items() if not (is_doubtful and self._has(move))}
            return self._noted(plan, refused)
        raise StoreFailed(f"{self.link.address}: append is in the way of others each time; resume")

    def _noted(self, plan: Plan, refused: set[str]) -> set[str]:
        self._memory.note(move for name, move in plan.moves.items() if name not in refused)
        return refused

    def _send(self, plan: Plan, moves: Iterable[Move], sent: Collection[bytes]) -> set[int]:
        statement, values = plan.statement(moves, sent, self.spending)
        rows = self.link.execute(statement.replace("{s}", self.tables.schema), values, "append")
        return {number for (number,) in rows}

    def _settle(self, left: dict[str, Move]) -> set[str]:
        """After a cut connection, take those sessions out of `left` that need not be sent again.

        Return those among them that were refused.
        """
        numbers = int8s([move.known.number for move in left.values()])

        def ask() -> dict[int, Known]:
            rows = self.tables.rows(_STANDING, (numbers,))
            return {number: Known(number, epoch, Head(head, digest)) for number, epoch, head, digest in rows}

        standing = self.link.transact("asking for the outcome of an append", ask)
        refused = set[str]()
        for name, move in list(left.items()):
            if standing.get(move.known.number) == move.known and move.head != move.known.head:
                continue  # as it was: sent again, under the same comparison
            del left[name]
            if not self._has(move):
                refused.add(name)
        return refused

    def _has(self, move: Move) -> bool:
        """Return whether the log has the last event of a move, as it was sealed."""
        if not move.events:
            return True
        rows = self.tables.rows(_DIGEST_AT, (move.known.number, move.head.seq))
        return rows == [(move.head.digest,)]

    # --- sessions -----------------------------------------------------------------

    def create(self, session_id: str, created_ms: int, title: str, origin: bytes) -> int:
        """Create a session, as `EventLog.create` does."""
        before = Head(0, origin)
        number = self.link.transact("create", lambda: self._make(session_id, created_ms, title, before))
        self._memory.partitions.add(partition_of(number))
        self._memory.known[session_id] = Known(number, 1, before)
        return 1

    def _make(self, session_id: str, created_ms: int, title: str, before: Head, parent: str = "") -> int:
        """Insert the row of a session, in a transaction. Return its number. Raises SessionExists."""
        if not is_text(session_id):
            raise MisuseError(
                f"{session_id!r:.80} cannot be the id of a session: it holds NUL or half a character"
            )
        kept, digest = self.tables.stored_text("title", session_id, title), Bytea(before.digest)
        values = (session_id, before.seq, digest, digest, before.seq, created_ms, kept, parent, session_id)
        rows = self.tables.rows(_NEW, values)
        if not rows:
            raise session_exists(session_id)
        number: int = rows[0][0]
        if partition_of(number) not in self._memory.partitions:
            make_partition(self.link.execute, self.link.address.schema, partition_of(number))
        return number

    def fork(
        self, session_id: str, created_ms: int, title: str, parent: str, base: int, own: Sequence[Event]
    ) -> Head:
        """Fork a session, as `EventLog.fork` does."""
        entry = self.tables.entry(parent, hidden=True)
        self.tables.verify(self._hash_chain, entry)  # before the transaction: events up to the base stay

        def work() -> tuple[Plan, int]:
            # Locked, so that nobody deletes it meanwhile; appends go on.
            now = self.tables.entry(parent, hidden=True, lock="FOR KEY SHARE")
            if not 1 <= base <= now.head.seq:
                raise no_base(parent, base, now.head.seq)
            # The parent is the session under which the event stands, which may be one that `parent` forks.
            owner = next(one for one in self.tables.lineage(now) if base <= one.head.seq)
            self.tables.entry(owner.session_id, hidden=True, lock="FOR KEY SHARE")
            before = Head(base, self.tables.digest_at(owner, base))
            number = self._make(session_id, created_ms, title, before, owner.session_id)
            plan = Plan(self._hash_chain, self._cipher, self.tables.stored_text)
            plan.add(Append(session_id, base, 1, own), Known(number, 1, before))
            (answer,) = plan.answers
            if isinstance(answer, Exception):
                raise answer
            self._write(plan, is_inside=True)  # nothing is refused: no other has seen the fork yet
            return plan, number

        plan, number = self.link.transact("fork", work)
        self._memory.partitions.add(partition_of(number))
        return plan.moves[session_id].head

    def take_over(self, session_ids: Sequence[str]) -> list[tuple[int, Head] | SessionNotFound]:
        """Raise the epochs of sessions, as `EventLog.take_over` does.

        Raises CorruptLog if one is damaged; then none is raised.
        """

        def work() -> dict[str, Known]:
            entries = self.tables.entries(session_ids, lock="FOR NO KEY UPDATE")
            self.tables.verify_tails(self._hash_chain, [*entries.values()])
            numbers = int8s([entry.number for entry in entries.values()])
            epochs: dict[int, int] = dict(self.tables.rows(_RAISE, (numbers,)))
            return {
                name: Known(entry.number, epochs[entry.number], entry.head) for name, entry in entries.items()
            }

        found = self.link.transact("take_over", work)
        self._memory.known.update(found)
        return [
            (found[name].epoch, found[name].head) if name in found else no_session(name)
            for name in session_ids
        ]

    def set_waiting(self, session_id: str, since_ms: int) -> None:
        """Note since when a session waits, as `EventLog.set_waiting` does."""

        def work() -> None:
            entry = self.tables.entry(session_id, lock="FOR NO KEY UPDATE")
            noted = replace(self.tables.details_of(session_id), waits_ms=since_ms)
            kept = self.tables.stored_text("details", session_id, msgspec.json.encode(noted).decode())
            self.tables.rows("UPDATE {s}.sessions SET details = %s WHERE id = %s", (kept, entry.number))

        self.link.transact("set_waiting", work)

    def delete(self, session_id: str, *, keep_forks: bool) -> int:
        """Take a session out, as `EventLog.delete` does; also one that no worker has opened yet."""

        def work() -> int:
            if self.tables.rows(_WITHDRAW, (session_id, session_id, HIDDEN)):
                self.tables.rows("DELETE FROM {s}.commands WHERE session = %s", (session_id,))
                return 0
            entry = self.tables.entry(session_id, lock="FOR UPDATE")
            forks = self.tables.forks(session_id)
            if forks and not keep_forks:
                raise has_forks(session_id, tuple(forks))
            ((last_ms,),) = self.tables.rows(
                "SELECT last_ms FROM {s}.sessions WHERE id = %s", (entry.number,)
            )
            self.spending.charge_all(session_id, max(1, last_ms))
            self.spending.drop_usage(entry.number)
            for name in ("leases", "commands"):
                self.tables.rows(f"DELETE FROM {{s}}.{name} WHERE session = %s", (session_id,))
            return take_out(self.tables, entry)

        count = self.link.transact("delete", work)
        self._memory.known.pop(session_id, None)
        return count

    def purge(self) -> bool:
        """Remove some events of deleted sessions. Return whether more is left."""
        is_left = self.link.transact("purge", lambda: remove_some(self.tables))
        self._memory.blobs.clear()  # some may be gone: they are sent again
        return is_left

    def vacuum(self, pages: int | None) -> int:
        """Give free space back. Return 0, because the server reuses the rest."""
        vacuum(self.link, is_full=pages is None)
        return 0

    def measure(self) -> int:
        """Return the size of the log in bytes, as the server has it now."""
        ((size,),) = self.tables.rows(_SIZE, (self.link.address.schema,))
        self._memory.written = 0
        return int(size)

    # --- reading ------------------------------------------------------------------

    def read(self, session_id: str, start: int, limit: int) -> list[Stored]:
        """Return events of a session."""
        return self.tables.events(session_id, start, limit)

    def head(self, session_id: str) -> Head:
        """Return the head of a session."""
        return self.tables.entry(session_id).head

    def sessions(self, query: SessionQuery) -> list[SessionRow]:
        """Return the chosen sessions."""
        return self.spending.added_to(self.tables.sessions(query))

    def change_spending(self, change: Callable[[SpendingTables], T]) -> T:
        """Change amounts in a transaction."""
        return self.link.transact("changing the amounts spent", lambda: change(self.spending))


def _is_other(former: Known | None, now: Known) -> bool:
    """Return whether a session with the same epoch and head holds events of another writer."""
    if former is None or (former.epoch, former.head.seq) != (now.epoch, now.head.seq):
        return False
    return former != now


def _lost(part: Append) -> Fenced:
    return Fenced(
        f"session {part.session_id} has other events than this writer of epoch {part.epoch} has stored: the "
        "server was set back, or another writer was given the same epoch; read its log, then resume"
    )
