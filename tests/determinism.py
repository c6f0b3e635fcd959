"""Everything that must be the same in every process and under every Python, as lines to compare.

    python -m tests.determinism [SESSIONS]

One line for each golden log and each simulated session: its name, the number of its events, the digest of
its events' bytes, and the digest of the states that its actors had after each of them. The events of a
simulated session, and their order, follow from SHA-256 of its number, since Python's own `random` may change
from version to version.
"""

import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TypeVar

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.actors.session.step import ActorState
from callboard.replay.states import state_digest
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.verify import Verifier
from tests import golden
from tests.replay.logs import steps_of

SESSIONS = 40
SCHEMA = {"type": "object", "required": ["n"]}
PRICES = Prices(input_usd=3, output_usd=15)

T = TypeVar("T")


def drawn(*about: object) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(sha256(repr(about).encode()).digest()[:8])


def pick(options: Sequence[T], *about: object) -> T:
    """Return one of the options."""
    return options[drawn(*about) % len(options)]


def _says(seed: int, request: ModelRequest) -> Reply:
    who = (seed, request.address, request.turn, request.attempt)
    if drawn("fails", *who) % 12 == 0:
        return Reply(failure=ModelFailure("overloaded", is_retryable=True, retry_after_ms=20))
    if request.turn > 3 or drawn("ends", *who) % 4 == 0:
        return pick(
            [Reply("done"), report({"n": 1}), report({"m": 1}), calls(("report_back", {"n": 2}))], *who
        )
    uses = [
        ("look", {"path": "x"}),
        ("save", {"text": "y"}),
        task("kid"),
        task("kid", output_schema=SCHEMA),
        task("sibling", copies=2, output_schema=SCHEMA),
        ("task", {"agents": ["kid", "sibling"], "prompt": "race"}),
        task("nobody"),
        ("unknown", {}),
    ]
    return calls(*(pick(uses, place, *who) for place in range(1 + drawn("many", *who) % 3)))


def world(seed: int) -> SessionWorld:
    """Run a simulated session to its end."""
    names = {"host": ["kid", "sibling"], "kid": ["kid", "sibling"], "sibling": []}
    limits = Limits(
        max_depth=2,
        max_agents=pick([4, 12], seed),
        max_parallel_calls=pick([1, 3, 64], seed),
        tokens=pick([None, 9_000, 30_000], "tokens", seed),
        deadline_s=pick([None, 60.0], "deadline", seed),
        max_iterations=6,
    )
    made = SessionWorld(
        Scenario(
            [
                profile(name, agents, ["look"], writes=["save"], prices=PRICES)
                for name, agents in names.items()
            ],
            lambda request: _says(seed, request),
            [ask(schema=pick([None, SCHEMA], "schema", seed)), ask("more", request_id="r2")],
            limits,
            closes=True,
        )
    )
    return made.run(lambda options: drawn("order", seed, len(made.log), options) % options)


class _Watched:
    """The digests of one session, event by event."""

    def __init__(self) -> None:
        self.events = sha256()
        self.states = sha256()

    def saw(self, event: Event, state: ActorState | None) -> None:
        envelope = f"{event.seq} {event.sender} {event.recipient} {event.cause} ".encode()
        self.events.update(envelope + encode(event.body) + b"\n")
        self.states.update((state_digest(state) if state is not None else "-").encode())


def line(name: str, events: list[Event]) -> str:
    """Return the line of one session. Raises AssertionError if the session does not replay."""
    found = Verifier(events).run()
    if found is not None:
        raise AssertionError(f"{name}: {found}")
    watched, steps = _Watched(), steps_of(events)
    for event in events:
        watched.saw(event, steps.at(event.seq).state)
    return f"{name} {len(events)} {watched.events.hexdigest()} {watched.states.hexdigest()}"


def lines(sessions: int = SESSIONS) -> Iterator[str]:
    """Yield all lines to compare."""
    for name in golden.SESSIONS:
        yield line(f"golden/{name}", golden.golden(name))
    for seed in range(sessions):
        yield line(f"simulated/{seed}", world(seed).log)


if __name__ == "__main__":
    for each in lines(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS):
        print(each, flush=True)
