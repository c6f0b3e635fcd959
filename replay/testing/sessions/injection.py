"""Faults as moves: the faults that can be injected now, and their effect."""

from typing import Final

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.limits import DEFAULTS, millis
from callboard.actors.protocol.messages import (
    CallModel,
    CallTool,
    Cancel,
    CheckSchema,
    Close,
    RequestApproval,
)
from callboard.replay.testing.sessions.board import Request
from callboard.replay.testing.sessions.crash import crash, fence, lose, refuse
from callboard.replay.testing.sessions.faults import (
    ABORTED,
    ACTOR_FAULTS,
    APPROVAL_FAULTS,
    CLIENT_FAULTS,
    CLOCK_FAULTS,
    MODEL_FAULTS,
    PROCESS_FAULTS,
    SCHEMA_FAULTS,
    STORE_FAULTS,
    TOOL_FAULTS,
)
from callboard.replay.testing.sessions.scenario import ask
from callboard.replay.testing.sessions.scripted_session import ScriptedSession
from callboard.replay.testing.world import Move

_MENUS: Final[dict[type, tuple[str, ...]]] = {
    CallModel: MODEL_FAULTS,
    CallTool: TOOL_FAULTS,
    CheckSchema: SCHEMA_FAULTS,
    RequestApproval: APPROVAL_FAULTS,
}

FAULTY_DECIDER = "Fault"
"""The class of what a decider raises by a fault."""


def fault_mixes(world: ScriptedSession) -> list[Move]:
    """Return the moves that choose a fault mix, before the first step."""
    faults = world.scenario.faults
    found = []
    for number in range(faults.fault_mixes):
        strand = f"fault mix {number}"
        found.append(world.names.other(strand, "mix", "fault", f"fault mix {number}"))
    return found


def injectable(world: ScriptedSession) -> dict[str, Move]:
    """Return every fault that can be injected now, by strand."""
    found: dict[str, Move] = {}

    def add(kind: str, where: str, actor: str) -> None:
        strand = f"fault {kind} {where}".rstrip()
        found[strand] = world.names.other(strand, actor, "fault", f"fault: {kind}")

    of = world.scenario.faults.of
    for request in list(world.requests.values()):
        for kind in _kinds_for(world, request):
            add(kind, request.strand, world.actor_of(request.strand))
    for address, inbox in world.inboxes.items():
        if inbox and address != SUPERVISOR:
            for kind in of(ACTOR_FAULTS):
                add(kind, address, address)
    if not world.is_closed:
        for kind in of(CLIENT_FAULTS):
            if world.running or kind == "close":
                add(kind, "", "client")
        for kind in of(STORE_FAULTS + PROCESS_FAULTS):
            add(kind, "", kind)
    if world.later:
        for kind in of(CLOCK_FAULTS):
            add(kind, "", "clock")
    return found


def _kinds_for(world: ScriptedSession, request: Request) -> list[str]:
    """Return the faults for a request: those for calls that were given up, or all others."""
    body = request.event.body
    kinds = world.scenario.faults.of(_MENUS[type(body)])
    if request.event.seq in world.aborted:
        return [kind for kind in kinds if kind in ABORTED and not request.fault_mode]
    return [] if request.fault_mode else [kind for kind in kinds if kind not in ABORTED]


def inject(world: ScriptedSession, strand: str) -> None:
    """Let a fault strike."""
    _, kind, where = (*strand.split(" ", 2), "")[:3]
    if kind == "mix":
        world.fault_mix = world.scenario.faults.fault_mix(int(where))
        return
    if kind == "lose":
        lose(world, where)
        return
    world.injected.append(strand)
    request = world.requests.get(where)
    if request is not None:
        _inject_into(world, request, kind)
    elif kind == "crashes":
        world.deliver(where, FAULTY_DECIDER)
    elif kind == "cancel":
        world.say(Cancel("a fault"))
    elif kind == "close":
        world.say(Close())
    elif kind == "ask":
        world.say(ask("again", request_id=f"busy {len(world.injected)}"))
    elif kind == "jump":
        world.jump()
    elif kind == "refuse":
        refuse(world)
    elif kind == "fence":
        fence(world)
    elif kind == "crash":
        crash(world)


def _inject_into(world: ScriptedSession, request: Request, kind: str) -> None:
    """Change or delay the answer of a port."""
    body = request.event.body
    if kind == "ignored":
        world.ignore(request)
        return
    if kind not in ("slow", "never", "timeout"):
        world.reply(request.strand, kind)
        return
    agent = body.agent if isinstance(body, CallModel) else request.event.sender
    limits = world.agent(agent).limits
    if isinstance(body, CallModel):
        wait = millis(limits.model_timeout_s or DEFAULTS.model_timeout_s)
    else:
        wait = millis(limits.tool_timeout_s or DEFAULTS.tool_timeout_s)
    world.delay(request, kind, wait if kind != "slow" else wait // 2)
