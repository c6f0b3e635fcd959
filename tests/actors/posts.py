"""The recorded posts of the core: those of one run of each simulated session, in their order.

    python -m tests.actors.posts      rewrites tests/data/golden/posts.txt

A log replays to the byte only as long as every decision posts the same messages in the same order. No rule of
the testing kit sees an order in which both are right, such as a stop before or after a refusal, and golden
logs are few. So each session of the campaign has a line here: its name, the number of its events, and the
beginning of the digest of their bytes. The moves follow from SHA-256, as in `tests.determinism`.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from callboard.actors.protocol.codec import encode
from callboard.replay.testing.run import Bounds, perform
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Move
from tests.determinism import drawn
from tests.mutants.campaign import sessions
from tests.mutants.parts import PARTS

FILE: Final = Path(__file__).parents[1] / "data" / "golden" / "posts.txt"
BOUNDS: Final = Bounds(steps=200, steps_in_all=3_000)


def lines() -> list[str]:
    """Return a line for each session."""
    return [f"{name}: {_events_of(scenario)}" for name, scenario in _scenarios()]


def differences() -> list[str]:
    """Return the lines that differ from the file: those of the file with `-`, those of now with `+`."""
    known, now = FILE.read_text().splitlines(), lines()
    lost = [f"- {line}" for line in known if line not in now]
    return lost + [f"+ {line}" for line in now if line not in known]


def _scenarios() -> Iterator[tuple[str, Scenario]]:
    """Yield the sessions of all parts, each once. Worlds of several sessions have moves of their own."""
    seen: set[int] = set()
    for part in PARTS.values():
        for name, one in sessions(part).items():
            scenario = getattr(one, "scenario", one)
            if isinstance(scenario, Scenario) and id(scenario) not in seen:
                seen.add(id(scenario))
                yield f"{part.name} {name}", scenario


def _events_of(scenario: Scenario) -> str:
    world = SessionWorld(scenario)

    def choose(offered: Sequence[Move]) -> Move:
        return offered[drawn(len(world.made)) % len(offered)]

    perform(world, (), choose, choose, BOUNDS)
    found = sha256()
    for event in world.log:
        found.update(f"{event.seq} {event.sender} {event.recipient} ".encode() + encode(event.body))
    return f"{len(world.log)} {found.hexdigest()[:12]}"


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in lines()))
