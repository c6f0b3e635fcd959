"""The faults of a simulated session, and how often each may occur.

    a model call      error  overloaded  timeout  garbage  refusal  full  blank  greedy  unmetered
                      invalid_report  many_reports  unknown_tool  bad_arguments  twice  unstarted
    a tool call       raises  slow  never  huge  twice  unstarted  finished
    a schema check    unchecked  twice
    a context         unmade  twice
    an approval       denied  ignored (no answer comes)  twice  unstarted
    an actor          crashes (its decider raises)
    the client        cancel  close  ask (while another one runs)
    the clock         jump (to the next timer, though there is other work)
    the process       crash (and a new one resumes, with part of the log lost)
                      detach (it ends politely: some answers come, no decision is made, a new one resumes)
    the store         refuse (the session fail-stops)  fence (another process has taken the session over)

A fault is a move like any other, named after where it strikes: "fault timeout host.1/3". The first move of a
run chooses its *fault mix*, in which a few kinds are on, each at a rate, and at most one fault is offered
before each step (Groce et al., "Swarm Testing", ISSTA 2012: leaving features out finds more than mixing all
of them). Without a mix every fault is offered all the time, so that every run of any mix is a run without it
too. That is how a counterexample shrinks: the mix is dropped first.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from hashlib import blake2b
from typing import Final

import msgspec

from callboard.actors.protocol.addresses import APPROVALS, CONTEXT, MODEL, SCHEMA, TOOLS
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.near_names import NamedFields
from callboard.replay.testing.world import Move, is_count

FAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    MODEL: (
        "error", "overloaded", "timeout", "garbage", "refusal", "full", "blank", "greedy", "unmetered",
        "invalid_report", "many_reports", "unknown_tool", "bad_arguments", "twice", "unstarted",
    ),
    TOOLS: ("raises", "slow", "never", "huge", "twice", "unstarted", "finished"),
    SCHEMA: ("unchecked", "twice"),
    CONTEXT: ("unmade", "twice"),
    APPROVALS: ("denied", "ignored", "twice", "unstarted"),
    "actor": ("crashes",),
    "client": ("cancel", "close", "ask"),
    "clock": ("jump",),
    "process": ("refuse", "fence", "crash", "detach"),
}  # fmt: skip
"""The kinds of faults, by target: a port's answer, an actor, the client, the clock or the process."""

KINDS: Final = frozenset(kind for kinds in FAULTS.values() for kind in kinds)
"""Every kind of fault."""

ABORTED: Final = frozenset({"unstarted", "finished"})
"""These strike calls that were given up; no others do."""

CALM_EVERY: Final = 8
_ENDING: Final = frozenset({"cancel", "close", "crash", "detach", "fence", "refuse"})
_ENDING_SHARE: Final = 0.25
"""Faults that end much, or all: let through more seldom, or the others would hardly come up."""

_SHARES: Final = (0.0, 0.0, 0.1, 0.3, 1.0)
_RATES: Final = (0.1, 0.25, 0.5)
_BIG: Final = 1 << 32


class FaultMix(msgspec.Struct, frozen=True):
    """A choice of faults for one run; kinds that have no share are off."""

    number: int
    rate: float  # before which part of the steps a fault is offered
    shares: Mapping[str, float]  # by kind, from 0 to 1: how often one that comes up is let through

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {share:g}" for kind, share in self.shares.items())
        return f"fault mix {self.number}: {self.rate:g} of the steps; {kinds or 'nothing fails'}"

    def offers(self, step: int, injectable: Callable[[], Mapping[str, Move]]) -> Move | None:
        """Return the fault to offer before this step, out of the injectable ones."""
        draw = _mixed(self.number, step)
        if draw >= self.rate * _BIG:
            return None
        by_kind: dict[str, list[Move]] = {}
        for strand, move in injectable().items():
            if self.shares.get(kind := kind_of(strand)):
                by_kind.setdefault(kind, []).append(move)
        if not by_kind:
            return None
        kind = list(by_kind)[_mixed(draw, step) % len(by_kind)]
        points, share = by_kind[kind], self.shares[kind]
        if kind in _ENDING:
            share *= _ENDING_SHARE
        return points[_mixed(step, draw) % len(points)] if _mixed(draw, draw ^ step) < share * _BIG else None


class Faults(msgspec.Struct, frozen=True, metaclass=NamedFields):
    """The faults that may occur. kinds: of these faults. most: the maximum number in one run.

    fault_mixes: how many there are to choose from; 0: every fault is offered all the time. seed: of these.
    """

    kinds: frozenset[str] = frozenset()
    most: int = 4
    fault_mixes: int = 31
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.kinds, Set):
            raise MisuseError(
                f"kinds={self.kinds!r:.80}: give a set of kinds, or use faults('crash', 'cancel')"
            )
        for name in ("most", "fault_mixes"):
            number = getattr(self, name)
            if not is_count(number):
                raise MisuseError(f"{name}={number!r:.80}: give a number, 0 or more")
        if unknown := sorted(self.kinds - KINDS):
            raise MisuseError(
                f"there is no fault {', '.join(map(repr, unknown))}; faults: {', '.join(sorted(KINDS))}"
            )

    def of(self, struck: str) -> list[str]:
        """Return the enabled kinds that strike something, in the order of `FAULTS`."""
        return [kind for kind in FAULTS.get(struck, ()) if kind in self.kinds]

    def fault_mix(self, number: int) -> FaultMix:
        """Return a fault mix: always the same for a seed and a number. Every eighth is calm."""
        if number % CALM_EVERY == 0:
            return FaultMix(number, 0.0, {})
        shares = {kind: _drawn(_SHARES, f"{self.seed}/{number}/{kind}") for kind in sorted(self.kinds)}
        is_on = {kind: share for kind, share in shares.items() if share}
        return FaultMix(number, _drawn(_RATES, f"{self.seed}/{number}"), is_on)


NO_FAULTS: Final = Faults()
"""Nothing fails."""


def faults(*kinds: str, most: int = 4, fault_mixes: int = 31, seed: int = 0) -> Faults:
    """Return faults of these kinds, or of every kind if none is named.
    Raises MisuseError for an unknown kind.
    """
    return Faults(frozenset(kinds) or KINDS, most, fault_mixes, seed)


def kind_of(strand: str) -> str:
    """Return the kind of a fault from the name of its strand."""
    return strand.split(" ", 2)[1]


def _drawn(options: Sequence[float], text: str) -> float:
    """Return one of the options, always the same for a text."""
    return options[int.from_bytes(blake2b(text.encode(), digest_size=4).digest()) % len(options)]


def _mixed(one: int, other: int) -> int:
    """Return a number below 2**32 that looks random: multiply and shift, as in Fibonacci hashing."""
    mixed = (one * 0x9E3779B1 ^ other * 0x85EBCA77) & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
    return mixed ^ mixed >> 13
