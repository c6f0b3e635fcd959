"""One decision of the supervisor while it is being made: the state so far, and what is to be posted.

A decision is a pure function from outside; inside, this object carries state and posts from helper to
helper so that each of them can be small.
"""

from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from callboard.actors.addresses import CLIENT, CLOCK, HOST, is_agent, ordinals, parent_of
from callboard.actors.base import Json
from callboard.actors.events import Post
from callboard.actors.limits import Limits
from callboard.actors.messages import AnyMessage, CancelTimer, SetTimer
from callboard.actors.supervisor_state import Delegation, Record, SupervisorState, Timer


class Work:
    """State and posts of one decision. seq: of the event that is being handled."""

    __slots__ = ("posts", "seq", "state")

    def __init__(self, state: SupervisorState, seq: int) -> None:
        self.state = state
        self.seq = seq
        self.posts: list[Post] = []

    def post(self, recipient: str, body: AnyMessage) -> None:
        """Say something, after all that was said before."""
        self.posts.append(Post(recipient, body))

    def change(self, **fields: Any) -> None:
        """Replace fields of the state."""
        self.state = replace(self.state, **fields)

    # --- the tree -----------------------------------------------------------------

    def chain(self, address: str) -> list[Record] | None:
        """The records from the host down to this agent, or None if it is not in the tree."""
        record = self.state.host
        if record is None or not is_agent(address):
            return None
        chain = [record]
        for ordinal in ordinals(address):
            record = record.children.get(ordinal)
            if record is None:
                return None
            chain.append(record)
        return chain

    def record(self, address: str) -> Record | None:
        """The record of this agent, if it is in the tree."""
        chain = self.chain(address)
        return chain[-1] if chain else None

    def store(self, chain: list[Record], **fields: Any) -> None:
        """Put a changed chain back, each record into the one before it, and replace fields of the state."""
        for place in range(len(chain) - 1, 0, -1):
            child, parent = chain[place], chain[place - 1]
            chain[place - 1] = replace(parent, children=parent.children.put(child.ordinal, child))
        self.state = replace(self.state, host=chain[0], **fields)

    def edit(self, address: str, **fields: Any) -> None:
        """Replace fields of an agent's record; nothing if it is not in the tree."""
        chain = self.chain(address)
        if chain:
            chain[-1] = replace(chain[-1], **fields)
            self.store(chain)

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

    def keep(self, parent: str, delegation: Delegation) -> None:
        """Put a changed delegation back."""
        ask = self.state.ask
        if parent == CLIENT:
            assert ask is not None
            self.change(ask=replace(ask, delegation=delegation))
        elif record := self.record(parent):
            self.edit(parent, delegations=record.delegations.put(delegation.key, delegation))

    def copy_address(self, parent: str, ordinal: int) -> str:
        """The address of one who works on a delegation of this parent."""
        return HOST if parent == CLIENT else f"{parent}.{ordinal}"

    def limits_of(self, who: str) -> Limits:
        """What bounds an agent, or the running ask of the client."""
        ask, record = self.state.ask, self.record(who)
        if who == CLIENT and ask is not None:
            return ask.limits
        return record.limits if record else self.state.limits

    # --- schemas known to be good -------------------------------------------------

    def has_accepted(self, schema: Json) -> bool:
        """Whether the schema port has accepted this schema before, in this session."""
        key, digest = _digests(schema)
        return self.state.accepted.get(key) == digest

    def accept(self, schema: Json) -> None:
        """Remember that the schema port has accepted this schema."""
        self.change(accepted=self.state.accepted.put(*_digests(schema)))

    # --- timers -------------------------------------------------------------------

    def set_timer(self, timer: Timer, after_ms: int) -> int:
        """Ask the clock for a wake-up; returns its number."""
        number = self.state.next_timer
        self.change(next_timer=number + 1, timers=self.state.timers.put(number, timer))
        self.post(CLOCK, SetTimer(number, after_ms))
        return number

    def cancel_timer(self, number: int) -> None:
        """Take a wake-up back, if it is still to come."""
        if number and self.state.timers.get(number) is not None:
            self.change(timers=self.state.timers.drop(number))
            self.post(CLOCK, CancelTimer(number))


def _digests(schema: Json) -> tuple[int, bytes]:
    """A short digest to find a schema by, and a long one to know it by."""
    digest = blake2b(schema, digest_size=16).digest()
    return int.from_bytes(digest[:5], "big"), digest
