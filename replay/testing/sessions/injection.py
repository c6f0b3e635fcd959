"""Faults as moves: the faults that can be injected now, and their effect."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.limits import DEFAULTS, millis
from callboard.actors.protocol.messages import CallModel, Cancel, Close
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.sessions.board import Request
from callboard.replay.testing.sessions.crash import crash, fence, lose, refuse
from callboard.replay.testing.sessions.faults import ABORTED
from callboard.replay.testing.sessions.scenario import ask
from callboard.replay.testing.sessions.scripted_session import ScriptedSession
from callboard.replay.testing.world import Move

FAULTY_DECIDER = "Fault"
"""The class of the exception that a decider raises by a fault."""


def fault_mixes(world: ScriptedSession) -> list[Move]:
    """Return the moves that choose a fault mix, before the first step."""
    strands = [f"fault mix {number}" for number in range(world.scenario.faults.fault_mixes)]
    return [world.names.other(strand, "mix", "fault") for strand in strands]


def injectable(world: ScriptedSession) -> dict[str, Move]:
    """Return every fault that can be injected now, by strand."""
    found: dict[str, Move] = {}
    for kind, where, actor in _targets(world):
        strand = f"fault {kind} {where}".rstrip()
        found[strand] = world.names.other(strand, actor, "fault", f"fault: {kind}")
    return found


def _targets(world: ScriptedSession) -> Iterator[tuple[str, str, str]]:
    """Yield every fault that is possible now: its kind, the strand or address it strikes, its actor."""
    of = world.scenario.faults.of
    for request in world.requests.values():
        if not request.fault_mode:
            # Faults are for calls that were given up, or for all others.
            is_aborted = request.event.seq in world.aborted
            kinds = [kind for kind in of(request.event.recipient) if (kind in ABORTED) is is_aborted]
            yield from ((kind, request.strand, world.actor_of(request.strand)) for kind in kinds)
    for address, inbox in world.inboxes.items():
        if inbox and address != SUPERVISOR:
            yield from ((kind, address, address) for kind in of("actor"))
    if not world.is_closed:
        yield from ((kind, "", "client") for kind in of("client") if world.running or kind == "close")
        yield from ((kind, "", kind) for kind in of("process"))
    if world.later:
        yield from ((kind, "", "clock") for kind in of("clock"))


def inject(world: ScriptedSession, strand: str) -> None:
    """Let a fault strike."""
    _, kind, where = (*strand.split(" ", 2), "")[:3]
    if kind not in ("mix", "lose"):  # these choose; they do not count as faults
        world.injected.append(strand)
    request = world.requests.get(where)
    if request is not None:
        _inject_into(world, request, kind)
    else:
        _STRIKES[kind](world, where)


def _choose_mix(world: ScriptedSession, number: str) -> None:
    world.fault_mix = world.scenario.faults.fault_mix(int(number))


_STRIKES: Final[Mapping[str, Callable[[ScriptedSession, str], None]]] = {
    "mix": _choose_mix,
    "lose": lose,
    "crashes": lambda world, address: world.deliver(address, FAULTY_DECIDER),
    "cancel": lambda world, _: world.say(Cancel("a fault")),
    "close": lambda world, _: world.say(Close()),
    "ask": lambda world, _: world.say(ask("again", request_id=f"busy {len(world.injected)}")),
    "jump": lambda world, _: world.jump(),
    "refuse": lambda world, _: refuse(world),
    "fence": lambda world, _: fence(world),
    "crash": lambda world, _: crash(world),
}
"""Kinds that strike no port."""


def _inject_into(world: ScriptedSession, request: Request, kind: str) -> None:
    """Change or delay the answer of a port."""
    if kind == "ignored":
        world.ignore(request)
    elif kind in ("slow", "never", "timeout"):
        own = world.agent(owner_of(request.event)).limits
        if isinstance(request.event.body, CallModel):
            wait = millis(own.model_timeout_s or DEFAULTS.model_timeout_s)
        else:
            wait = millis(own.tool_timeout_s or DEFAULTS.tool_timeout_s)
        world.delay(request, kind, wait // 2 if kind == "slow" else wait)
    else:
        world.reply(request.strand, kind)
