"""Decisions of the supervisor while they are being made: the state so far, and what is to be posted.

A decision is a pure function from outside; inside, this object carries state and posts from helper to
helper so that each of them can be small. Decisions that follow each other can share one.

Rules
  - While decisions are made, the tree in `state` is the one before them: a record is taken out of it when it
    is first asked for, changed here as often as need be, and put back once, by `done`. The same goes for
    the number of model calls in flight.
  - So the `children` of a record only say who is there. How they are, `record` and `chain` say.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, CLOCK, HOST, parent_of, path_of, place_of
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, CancelTimer, SetTimer
from callboard.actors.supervisor.state import Delegation, Record, SchemaVerdict, SupervisorState, Timer


class UnitOfWork:
    """State and posts of decisions. seq: of the event that is being handled."""

    __slots__ = ("_changed", "_records", "in_flight", "posts", "seq", "state")

    def __init__(self, state: SupervisorState, seq: int = 0) -> None:
        self.state = state
        self.seq = seq
        self.in_flight = state.in_flight
        self.posts: list[Post] = []
        # The records asked for, each after the one above it, and the addresses of those that were changed.
        self._records: dict[str, Record] = {} if state.host is None else {HOST: state.host}
        self._changed: set[str] = set()

    def take_posts(self) -> tuple[Post, ...]:
        """The posts of the decision that is made; those of the next one come after."""
        posts, self.posts = self.posts, []
        return tuple(posts)

    def commit(self) -> SupervisorState:
        """The state with every changed record in its place."""
        records, changed = self._records, self._changed
        if not changed:
            return self.state
        below: dict[str, dict[int, Record]] = {}
        for address in reversed(records):  # those below before those above
            if (under := below.get(address)) is not None:
                record = records[address]
                records[address] = replace(record, children=record.children.update(under))
            elif address not in changed:
                continue
            if address != HOST:
                parent, ordinal = place_of(address)
                below.setdefault(parent, {})[ordinal] = records[address]
        return replace(self.state, host=records[HOST], in_flight=self.in_flight)

    def post(self, recipient: str, body: AnyMessage) -> None:
        """Say something, after all that was said before."""
        self.posts.append(Post(recipient, body))

    def update_session(self, **fields: Any) -> None:
        """Replace fields of the state."""
        self.state = replace(self.state, **fields)

    # --- the tree -----------------------------------------------------------------

    def record(self, address: str) -> Record | None:
        """The record of this agent, if it is in the tree."""
        record = self._records.get(address)
        if record is None and (chain := self.chain(address)):
            record = chain[-1]
        return record

    def chain(self, address: str) -> list[Record] | None:
        """The records from the host down to this agent, or None if it is not in the tree."""
        records, path = self._records, path_of(address)
        record = records.get(HOST)
        if record is None or path is None:
            return None
        chain = [record]
        for below, ordinal in path:
            above, record = record, records.get(below)
            if record is None:
                record = above.children.get(ordinal)
                if record is None:
                    return None
                records[below] = record
            chain.append(record)
        return chain

    def put_records(self, records: Iterable[Record]) -> None:
        """Keep changed records."""
        known, changed = self._records, self._changed
        for record in records:
            address = record.address
            known[address] = record
            changed.add(address)

    def update_record(self, address: str, **fields: Any) -> None:
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
            self.update_record(parent, children=above.children.put(ordinal, record))
        self.put_records((record,))

    def remove(self, record: Record) -> None:
        """Take an agent out of the tree. There must be nobody below it."""
        parent, ordinal = place_of(record.address)
        above = self._records[parent]
        self.update_record(parent, children=above.children.drop(ordinal))
        del self._records[record.address]
        self._changed.discard(record.address)

    # --- delegations --------------------------------------------------------------

    def delegation(self, parent: str, key: int) -> Delegation | None:
        """An open delegation of this parent; the running ask is the client's."""
        if parent == CLIENT:
            ask = self.state.ask
            is_open = ask is not None and ask.outcome is None and ask.delegation.key == key
            return ask.delegation if ask is not None and is_open else None
        record = self.record(parent)
        return record.delegations.get(key) if record else None

    def delegation_of(self, record: Record) -> Delegation | None:
        """The delegation that an agent works on, while it is open."""
        return self.delegation(parent_of(record.address), record.delegation)

    def put_delegation(self, parent: str, delegation: Delegation) -> None:
        """Put a changed delegation back."""
        ask = self.state.ask
        if parent == CLIENT:
            assert ask is not None
            self.update_session(ask=replace(ask, delegation=delegation))
        elif record := self.record(parent):
            self.update_record(parent, delegations=record.delegations.put(delegation.key, delegation))

    def racer_address(self, parent: str, ordinal: int) -> str:
        """The address of one who works on a delegation of this parent."""
        return HOST if parent == CLIENT else f"{parent}.{ordinal}"

    def limits_of(self, who: str) -> Limits:
        """What bounds an agent, or the running ask of the client."""
        ask, record = self.state.ask, self.record(who)
        if who == CLIENT and ask is not None:
            return ask.limits
        return record.limits if record else self.state.limits

    # --- schemas ------------------------------------------------------------------

    def schema_verdict(self, schema: Json) -> SchemaVerdict | None:
        """What is known of a schema, if it was accepted or is being looked at."""
        key, digest = _digests(schema)
        seen = self.state.schemas.get(key)
        return seen if seen is not None and seen.digest == digest else None

    def has_accepted(self, schema: Json) -> bool:
        """Whether the schema port has accepted this schema before, in this session."""
        seen = self.schema_verdict(schema)
        return seen is not None and seen.is_good

    def begin_schema_check(self, schema: Json, check: int, timeout_ms: int) -> int:
        """Remember which check looks at a schema; the schema's key."""
        key, digest = _digests(schema)
        self.update_session(schemas=self.state.schemas.put(key, SchemaVerdict(digest, check, timeout_ms)))
        return key

    def finish_schema_check(self, key: int, check: int, *, is_good: bool) -> None:
        """Remember what came of a check, unless another schema has taken the place of this one."""
        schemas = self.state.schemas
        seen = schemas.get(key)
        if seen is not None and seen.check == check:
            self.update_session(
                schemas=schemas.put(key, SchemaVerdict(seen.digest)) if is_good else schemas.drop(key)
            )

    # --- timers -------------------------------------------------------------------

    def set_timer(self, timer: Timer, after_ms: int) -> int:
        """Ask the clock for a wake-up; returns its number."""
        number = self.state.next_timer
        self.update_session(next_timer=number + 1, timers=self.state.timers.put(number, timer))
        self.post(CLOCK, SetTimer(number, after_ms))
        return number

    def cancel_timer(self, number: int) -> None:
        """Take a wake-up back, if it is still to come."""
        if number and self.state.timers.get(number) is not None:
            self.update_session(timers=self.state.timers.drop(number))
            self.post(CLOCK, CancelTimer(number))


def _digests(schema: Json) -> tuple[int, bytes]:
    """Some bits of a schema's digest to find it by, and all of it to know it by."""
    digest = blake2b(schema, digest_size=16).digest()
    return int.from_bytes(digest[:3], "big") >> 4, digest
