"""Faults as moves: the faults that can be injected now, and their effect.

A crash keeps what must be durable: all up to where tools with effects were told to start, and what the client
was shown. How much of the rest it loses is chosen after it: "lose one" and "lose half" as often as one likes,
also in the middle of a decision. Then "resume".

A polite end ("detach") loses nothing. Ports may still answer, and no actor hears it, until the process ends:
then the model calls that are left are answered as `detached`. Then "resume". It may crash on the way.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import Cancel, Close
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.limits import fill, millis
from callboard.actors.protocol.port_messages import CallModel, CallTool, ModelReplied
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.sessions.board import Request
from callboard.replay.testing.sessions.faults import ABORTED
from callboard.replay.testing.sessions.scenario import ask
from callboard.replay.testing.sessions.scripted_session import ScriptedSession, is_closed
from callboard.replay.testing.world import Move
from callboard.runtime.log.protocol import Append, refusal

ENDS: Final = "process ends"
"""The move that completes a polite end."""


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
    is_up = not world.is_detaching
    for request in world.requests.values():
        yield from (
            (kind, request.strand, world.actor_of(request.strand)) for kind in _kinds_for(world, request)
        )
    for address, inbox in world.inboxes.items():  # empty once it detaches
        if inbox and address != SUPERVISOR:
            yield from ((kind, address, address) for kind in of("actor"))
    if not world.is_closed:
        asking = (kind for kind in of("client") if world.running or kind == "close")
        yield from ((kind, "", "client") for kind in asking if is_up)
        yield from ((kind, "", kind) for kind in of("process") if is_up or kind == "crash")
    if world.later and is_up:
        yield from ((kind, "", "clock") for kind in of("clock"))


def _kinds_for(world: ScriptedSession, request: Request) -> list[str]:
    """Return the faults for a request: those for calls that were given up, or all others."""
    if request.fault_mode or world.is_in_line(request):
        return []
    is_aborted = request.event.seq in world.aborted
    return [
        one for one in world.scenario.faults.of(request.event.recipient) if (one in ABORTED) is is_aborted
    ]


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
    "lose": lambda world, how_much: lose(world, how_much),
    "crashes": lambda world, address: world.deliver(address, error="Fault"),
    "cancel": lambda world, _: world.disturb(Cancel("a fault")),
    "close": lambda world, _: world.disturb(Close()),
    "ask": lambda world, _: world.disturb(ask("again", request_id=f"busy {len(world.injected)}")),
    "jump": lambda world, _: world.jump(),
    "refuse": lambda world, _: refuse(world),
    "fence": lambda world, _: fence(world),
    "crash": lambda world, _: crash(world),
    "detach": lambda world, _: detach(world),
}
"""Kinds that strike no port."""


def _inject_into(world: ScriptedSession, request: Request, kind: str) -> None:
    """Change or delay the answer of a port."""
    if kind == "ignored":
        world.ignore(request)
    elif kind in ("slow", "never", "timeout"):
        wait_ms = _timeout_ms(world, request)
        world.delay(request, kind, wait_ms // 2 if kind == "slow" else wait_ms)
    else:
        world.reply(request.strand, kind)


def _timeout_ms(world: ScriptedSession, request: Request) -> int:
    limits = fill(world.agent(owner_of(request.event)).limits)
    is_model = isinstance(request.event.body, CallModel | RunStep)
    return millis(limits.model_timeout_s if is_model else limits.tool_timeout_s)


# --- the process ------------------------------------------------------------------------


def crash(world: ScriptedSession) -> None:
    """End the process at this moment."""
    world.is_detaching = False
    world.down = tuple(
        request
        for request in world.requests.values()
        if isinstance(request.event.body, CallTool) and request.event.body.effect != "read"
    )
    world.withdraw_all()
    world.log = list(world.log)  # the trace of moves before the crash keeps the old one
    world.offer("resume", "process", "client", "a new process goes on")


def detach(world: ScriptedSession) -> None:
    """Begin the polite end of the process: from now on ports may answer, and nothing else happens."""
    world.is_detaching = True
    world.core.stand_still()
    answers = {strand: move for strand, move in world.offers.items() if strand in world.requests}
    for memory in (world.offers, world.later, world.inboxes, world.timers):
        memory.clear()
    world.offers.update(answers)
    world.offer(ENDS, "process", "client", "the process ends")


def end(world: ScriptedSession) -> None:
    """End a process that detaches: the model calls that are left get their answers."""
    for request, post in world.core.detached_answers():
        assert isinstance(post.body, ModelReplied)
        if request.seq % 2:  # the stream of every other call had told that much; the rest had not begun
            used = min(1, world.gate.wish_of(request).need.tokens)
            post = replace(post, body=replace(post.body, usage=Usage(input_tokens=used)))
        world.answer(request, post)
    world.durable = len(world.log)
    crash(world)


def losses(world: ScriptedSession) -> list[Move]:
    """Return the moves that lose more of the end of the log."""
    if len(world.log) <= world.durable:
        return []
    strands = ("fault lose one", "fault lose half")
    return [world.names.other(strand, "process", "fault", strand.replace(" ", ": ", 1)) for strand in strands]


def lose(world: ScriptedSession, how_much: str) -> None:
    """Drop the last event, or half of the events that need not be durable."""
    tail = len(world.log) - world.durable
    world.lose_after(len(world.log) - (1 if how_much == "one" else (tail + 1) // 2))


def reopen(world: ScriptedSession) -> None:
    """Start a new process that continues a closed session. The last one has written all of its log."""
    world.durable = len(world.log)
    crash(world)
    resume(world, reopens=True)


def resume(world: ScriptedSession, *, reopens: bool = False) -> None:
    """Start a new process that continues from the log. reopens: a closed session."""
    assert world.down is not None
    running, world.down = world.down, None
    # A tool that was under way has had its effect, if its start survives: the worst that can have happened.
    for request in running:
        if request.waits_for <= len(world.log):
            assert isinstance(request.event.body, CallTool)
            world.act(request.event, request.event.body)
    for memory in (world.offers, world.later, world.inboxes, world.timers):
        memory.clear()  # also where the session stays closed, since a reopening that is lost had left some
    world.durable = len(world.log)
    if is_closed(world.log) and not reopens:
        world.catch_up("")
    else:
        world.resume(world.log, reopens=reopens)


def refuse(world: ScriptedSession) -> None:
    """Make the store refuse to write: events that it does not hold are lost, and the session fail-stops."""
    world.lose_after(world.durable)
    world.fail(StoreFailed("a fault: the store refuses to write"))


def fence(world: ScriptedSession) -> None:
    """Let another process take over the session, so that this one can append no more."""
    staged = Append("simulated", world.durable, 1, world.log[world.durable :])
    # The rule is the store's own.
    assert refusal(staged, 2, world.durable) is not None, "a fenced writer may append"
    crash(world)
    world.lose_after(world.durable)
    resume(world)
