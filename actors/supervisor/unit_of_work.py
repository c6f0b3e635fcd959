"""The unit of work of the supervisor's decisions: the state so far, and the posts.

A decision is a pure function. Inside it, this object carries state and posts from helper to helper, so that
each of them can be small. Consecutive decisions can share one.

Rules
  - Until `commit`, the tree in `state` is the one before the decisions. A record is copied out of it when it
    is first needed, changed here, and put back by `commit`. So is the number of model calls in flight.
  - The `children` of a record therefore tell only which children exist. Read a child's fields from `record`
    or `ancestry`.
"""

from collections.abc import Iterable
from hashlib import blake2b

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, CLOCK, HOST, parent_of, path_of, place_of
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CancelTimer, SetTimer
from callboard.actors.supervisor.state import Delegation, Record, SchemaVerdict, SupervisorState, Timer


class UnitOfWork:
    """The state and posts of decisions in progress. seq: the seq of the event that is handled."""

    __slots__ = ("_changed", "_records", "freed", "in_flight", "posts", "seq", "state")

    def __init__(self, state: SupervisorState, seq: int = 0) -> None:
        self.state = state
        self.seq = seq
        self.in_flight = state.in_flight
        self.posts: list[Post] = []
        # `commit` relies on the order: each record stands after the one above it.
        self._records: dict[str, Record] = {} if state.host is None else {HOST: state.host}
        self._changed: set[str] = set()
        self.freed: list[str] = []

    def take_posts(self) -> tuple[Post, ...]:
        """Return the posts of a decision and start an empty list for the next one."""
        posts, self.posts = self.posts, []
        return tuple(posts)

    def commit(self) -> SupervisorState:
        """Return the state with every changed record in its place."""
        records, changed = self._records, self._changed
        if not changed:
            return self.state
        below: dict[str, dict[int, Record]] = {}
        for address in reversed(records):  # children first, so that each parent is copied once
            if (under := below.get(address)) is not None:
                record = records[address]
                records[address] = replace(record, children=record.children.update(under))
            elif address not in changed:
                continue
            if address != HOST:
                record = records[address]
                below.setdefault(address.rpartition(".")[0], {})[record.ordinal] = record
        return replace(self.state, host=records[HOST], in_flight=self.in_flight)

    def post(self, recipient: str, body: AnyMessage) -> None:
        """Add a post after those that the decision has already."""
        self.posts.append(Post(recipient, body))

    def update_session(self, **fields: object) -> None:
        """Replace fields of the state."""
        self.state = replace(self.state, **fields)

    # --- the tree -----------------------------------------------------------------

    def record(self, address: str) -> Record | None:
        """Return the record of an agent; None if it is not in the tree."""
        record = self._records.get(address)
        if record is None and (ancestry := self.ancestry(address)):
            record = ancestry[-1]
        return record

    def ancestry(self, address: str) -> list[Record] | None:
        """Return the records from the host down to an agent; None if it is not in the tree."""
        records, path = self._records, path_of(address)
        record = records.get(HOST)
        if record is None or path is None:
            return None
        ancestry = [record]
        for below, ordinal in path:
            above, record = record, records.get(below)
            if record is None:
                record = above.children.get(ordinal)
                if record is None:
                    return None
                records[below] = record
            ancestry.append(record)
        return ancestry

    def put_records(self, records: Iterable[Record]) -> None:
        """Keep changed records."""
        known, changed = self._records, self._changed
        for record in records:
            address = record.address
            known[address] = record
            changed.add(address)

    def put_record(self, record: Record) -> None:
        """Keep a changed record."""
        address = record.address
        self._records[address] = record
        self._changed.add(address)

    def update_record(self, address: str, **fields: object) -> None:
        """Replace fields of an agent's record; nothing if it is not in the tree."""
        record = self.record(address)
        if record is not None:
            self._records[address] = replace(record, **fields)
            self._changed.add(address)

    def add(self, record: Record) -> None:
        """Put a new agent into the tree, under its parent."""
        if record.address != HOST:
            parent, ordinal = place_of(record.address)
            above = self._records[parent]
            self.put_record(replace(above, children=above.children.put(ordinal, record)))
        self.put_record(record)

    def remove(self, record: Record) -> None:
        """Take an agent out of the tree. It must have no children."""
        parent, ordinal = place_of(record.address)
        above = self._records[parent]
        self.put_record(replace(above, children=above.children.drop(ordinal)))
        del self._records[record.address]

    # --- delegations --------------------------------------------------------------

    def delegation(self, parent: str, key: int) -> Delegation | None:
        """Return an open delegation of a parent, if there is one. The client's is the running ask."""
        if parent == CLIENT:
            ask = self.state.ask
            if ask is None or ask.outcome is not None or ask.delegation.key != key:
                return None
            return ask.delegation
        record = self.record(parent)
        return record.delegations.get(key) if record else None

    def delegation_of(self, record: Record) -> Delegation | None:
        """Return the delegation that an agent works on; None if it has ended."""
        return self.delegation(parent_of(record.address), record.delegation)

    def put_delegation(self, parent: str, delegation: Delegation) -> None:
        """Store a changed delegation."""
        ask = self.state.ask
        if parent == CLIENT:
            assert ask is not None
            self.update_session(ask=replace(ask, delegation=delegation))
        elif record := self.record(parent):
            delegations = record.delegations.put(delegation.key, delegation)
            self.put_record(replace(record, delegations=delegations))

    def free_places(self, address: str, count: int) -> None:
        """Free places under a program's max_children, and note the program for `take_freed`."""
        record = self.record(address)
        if record is not None and record.profile.is_eager:
            self.update_record(address, turn_children=record.turn_children - count)
            self.freed.append(address)

    def take_freed(self) -> list[str]:
        """Return the programs that have free places since the last call."""
        freed, self.freed = self.freed, []
        return freed

    def racer_address(self, parent: str, ordinal: int) -> str:
        """Return the address of an agent that works on a delegation of a parent."""
        return HOST if parent == CLIENT else f"{parent}.{ordinal}"

    def limits_of(self, address: str) -> Limits:
        """Return the limits of an agent, or for the client those of the running ask."""
        ask, record = self.state.ask, self.record(address)
        if address == CLIENT and ask is not None:
            return ask.limits
        return record.limits if record else self.state.limits

    # --- schemas ------------------------------------------------------------------

    def schema_verdict(self, schema: Json) -> SchemaVerdict | None:
        """Return the verdict on a schema; None before its first check."""
        key, digest = _digests(schema)
        verdict = self.state.schemas.get(key)
        return verdict if verdict is not None and verdict.digest == digest else None

    def has_accepted(self, schema: Json) -> bool:
        """Return True if the schema port has accepted this schema in this session."""
        verdict = self.schema_verdict(schema)
        return verdict is not None and verdict.is_good

    def begin_schema_check(self, schema: Json, check: int, timeout_ms: int) -> int:
        """Note which check examines a schema. Return the schema's key."""
        key, digest = _digests(schema)
        self.update_session(schemas=self.state.schemas.put(key, SchemaVerdict(digest, check, timeout_ms)))
        return key

    def finish_schema_check(self, key: int, check: int, *, is_good: bool) -> None:
        """Keep the result of a check.

        key: the schema's key.
        check: the number of the check.
        is_good: True if the schema was accepted.
        """
        # Keys have 20 bits: another schema may have taken the place of this one, with a check of its own.
        schemas = self.state.schemas
        verdict = schemas.get(key)
        if verdict is not None and verdict.check == check:
            self.update_session(
                schemas=schemas.put(key, SchemaVerdict(verdict.digest)) if is_good else schemas.drop(key)
            )

    # --- timers -------------------------------------------------------------------

    def set_timer(self, timer: Timer, after_ms: int = 0) -> int:
        """Set a timer with the clock, for its `until` if it has one. Return its number."""
        number = self.state.next_timer
        self.update_session(next_timer=number + 1, timers=self.state.timers.put(number, timer))
        self.post(CLOCK, SetTimer(number, after_ms, timer.until))
        return number

    def cancel_timer(self, number: int) -> None:
        """Cancel a timer, if it has not fired."""
        if number and self.state.timers.get(number) is not None:
            self.update_session(timers=self.state.timers.drop(number))
            self.post(CLOCK, CancelTimer(number))


def _digests(schema: Json) -> tuple[int, bytes]:
    """Return 20 bits of a schema's digest, its key, and the whole digest, its identity."""
    digest = blake2b(schema, digest_size=16).digest()
    return int.from_bytes(digest[:3], "big") >> 4, digest
