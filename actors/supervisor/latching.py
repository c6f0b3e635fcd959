"""Refusals that latch: a program whose budget no model fits any more ends so, even if its code goes on.

A refusal is a turn or a delegation for which a scope is too small for good.

Rules
  - A refusal latches for each program that asked, or is above the agent that asked, if the scope is its own
    or one above it, and the smallest request to any model that it may use does not fit either.
  - So a child at its own limits is an exception for its program, and so are denials of depth, children and
    rights. A program that can still ask a smaller model, or a shorter question, goes on.
  - The program hears of it with the next delegation of its that fails: `DelegationEnded.latch`. A delegation
    that still succeeds, as a race can, is not taken from it.
  - Limits that a resume has raised in the meantime are looked at again.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json, user_message
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import bound
from callboard.actors.supervisor.budgets import fits
from callboard.actors.supervisor.rights import agent_refusal, child_refusal
from callboard.actors.supervisor.state import NO_BOOKS, Record, SupervisorState
from callboard.actors.supervisor.unit_of_work import UnitOfWork

SINCE_RULES: Final = 2
"""The first rules by which a refusal latches and questions count."""

LEAST_INPUT_BYTES: Final = len(user_message((), text_json("")))
"""No conversation is shorter."""


class Left(NamedTuple):
    """The amount that a budget above the session has left, in tokens or in micro-dollars."""

    unit: Literal["tokens", "micro_usd"]
    amount: int


def latch(work: UnitOfWork, ancestry: list[Record], place: int, why: str, above: Left | None = None) -> None:
    """Note a refusal with each program for which it latches.

    ancestry: from the host down to the last agent that may be such a program. place: of the scope in it.
    above: if a budget above the session refuses, the amount that it has left. Such a refusal is not looked
        at again: no limit of the session lifts it.
    """
    if work.state.rules < SINCE_RULES:
        return
    for at in range(place, len(ancestry)):
        record = ancestry[at]
        if not record.profile.is_eager or not record.is_running:
            continue
        books = record.program or NO_BOOKS
        if not books.refusal and not _fits_any(work.state, ancestry[: at + 1], above):
            books = replace(books, refusal=why, is_refused_above=above is not None)
            work.update_record(record.address, program=books)


def with_latch(work: UnitOfWork, ancestry: list[Record], end: DelegationEnded) -> DelegationEnded:
    """Return the end of a delegation that failed, with the refusal that latches for its parent, if any."""
    parent = work.record(ancestry[-1].address)
    if parent is None or parent.program is None or not parent.program.refusal:
        return end
    if not parent.program.is_refused_above and _fits_any(work.state, ancestry):
        work.update_record(parent.address, program=replace(parent.program, refusal=""))
        return end
    return replace(end, latch=parent.program.refusal)


def _fits_any(state: SupervisorState, ancestry: list[Record], above: Left | None = None) -> bool:
    """Return True if the smallest request to a model that a program may use can fit, now or later.

    above: the amount that a budget above the session has left; None for any amount.
    """
    for spec in _models_of(state, ancestry[-1]):
        need = bound(LEAST_INPUT_BYTES + spec.overhead_tokens, spec.max_tokens, spec.prices)
        if above is not None and getattr(need, above.unit) > above.amount:
            continue
        if fits(ancestry, need)[0] != "never":
            return True
    return False


def _models_of(state: SupervisorState, record: Record) -> Iterator[ModelSpec]:
    """Yield the models that a program may use: for its questions, and for its agents."""
    yield record.model
    yield from record.profile.models
    if record.depth >= (record.limits.max_depth or 0):
        return
    for name in record.profile.agents:
        child = state.profiles.get(name)
        if child is None or agent_refusal(record, name) or child_refusal(record, child[0]):
            continue
        yield from _models_below(state, child[0], record.model, {name})


def _models_below(
    state: SupervisorState, profile: Profile, inherited: ModelSpec, seen: set[str]
) -> Iterator[ModelSpec]:
    """Yield the models of an agent and those below it. inherited: its parent's. seen: the agents so far."""
    below = profile.model_below(inherited)
    yield below
    yield from profile.models
    for name in profile.agents:
        if name in state.profiles and name not in seen:
            seen.add(name)
            yield from _models_below(state, state.profiles[name][0], below, seen)


def bounds_questions(rules: int, profile: Profile, asked: Limits) -> bool:
    """Return True if `max_iterations` bounds the questions of a program: its profile or its ask states it."""
    if not profile.is_eager or rules < SINCE_RULES:
        return False
    return profile.limits.max_iterations is not None or asked.max_iterations is not None
