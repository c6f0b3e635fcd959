"""A schedule as text: the whole of a run, short enough for a command line, refused where it does not fit.

A run is the strands that moved, in order, and the step after which its faults were over: no seed and no
scheduler, so a schedule outlives every change of the explorer. The text is `1.FINGERPRINT.BODY`: the version
of the format; eight hex digits of the scenario; the strands, packed. No shell would change a character of it.
"""

import base64
import hashlib
import zlib
from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.world import Move

VERSION = "1"
STEPS_MAX = 200
"""Steps of a run before its faults are over, unless one says otherwise."""

UNPACKED_BYTES_MAX = 50_000_000
"""The most that a text may unpack to, since it may come from anywhere."""


_Body: TypeAlias = tuple[list[str], list[Annotated[int, msgspec.Meta(ge=0)]], int | None, int]
"""The names of the strands, the name of each step, and the rest of a `Schedule`."""


class BadSchedule(MisuseError, ValueError):
    """This text is not a schedule, or it is one of another scenario or version."""


class ScheduleMisfit(MisuseError):
    """The world does not offer what the schedule wants. at: the step, from 1."""

    def __init__(self, at: int, wanted: str, offered: Sequence[Move]) -> None:
        there = ", ".join(move.strand for move in offered) or "nothing"
        super().__init__(
            f"the schedule no longer fits at step {at}: wanted {wanted}, there is {there}. The code has "
            "changed since it was recorded: explore again, or go back to the code that it was recorded with"
        )
        self.at = at
        self.wanted = wanted
        self.offered = tuple(move.strand for move in offered)


class Schedule(msgspec.Struct, frozen=True):
    """The moves of a run."""

    strands: tuple[str, ...]  # who moved, step by step
    healed_at: int | None = None  # the steps after which the faults were over, if they were
    steps: int = STEPS_MAX  # those after which they would have been: the measure of rules that may be broken

    def text(self, scenario: str = "") -> str:
        """Return the schedule as text, for this scenario."""
        names = {name: index for index, name in enumerate(dict.fromkeys(self.strands))}
        body = (list(names), [names[strand] for strand in self.strands], self.healed_at, self.steps)
        packed = base64.urlsafe_b64encode(zlib.compress(msgspec.msgpack.encode(body), 9))
        return f"{VERSION}.{fingerprint(scenario)}.{packed.decode().rstrip('=')}"


def fingerprint(scenario: str) -> str:
    """Return eight hex digits for a scenario: a digest of its name and its parts."""
    return hashlib.sha256(scenario.encode()).hexdigest()[:8]


def parse(text: str, scenario: str = "") -> Schedule:
    """Return the schedule that `text` holds. Raises BadSchedule if it holds none for this scenario."""
    version, _, rest = text.strip().partition(".")
    mark, _, packed = rest.partition(".")
    if version != VERSION:
        raise BadSchedule(
            f"a schedule starts with {VERSION!r} and a dot, and this one starts with {version[:20]!r}; "
            "copy the whole line that the explorer printed"
        )
    if mark != fingerprint(scenario):
        raise BadSchedule(
            f"the schedule is of scenario {mark[:20]}, but this one is {fingerprint(scenario)} "
            f"({scenario or 'unnamed'}); replay it with the scenario and the options that it was found with"
        )
    return _unpack(packed)


def _unpack(packed: str) -> Schedule:
    try:
        raw = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(raw, UNPACKED_BYTES_MAX)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ValueError("too long, or cut off")
        names, moves, healed_at, steps = msgspec.msgpack.decode(plain, type=_Body)
        return Schedule(tuple(names[step] for step in moves), healed_at, steps)
    except (ValueError, IndexError, zlib.error, msgspec.MsgspecError) as error:
        raise BadSchedule(
            f"the schedule is damaged ({error}); copy the whole line that the explorer printed"
        ) from error
