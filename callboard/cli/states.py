"""An actor's state in one line, in a few lines, and as JSON."""

import msgspec

from callboard.actors.agent.state import AgentState
from callboard.actors.session.step import ActorState
from callboard.actors.supervisor.state import SupervisorState
from callboard.cli.formats import counted, dollars, tokens
from callboard.cli.terminal_escape import safe_line
from callboard.replay.digests import to_jsonable


def summary(state: ActorState) -> str:
    """Return the state in one line."""
    if isinstance(state, SupervisorState):
        parts = [
            state.phase,
            counted(state.live, "agent") + " live",
            f"{counted(state.in_flight, 'model call')} in flight",
        ]
        parts += [f"{len(state.queue)} queued"] * bool(len(state.queue))
        parts += [f"{len(state.checks)} checking"] * bool(len(state.checks))
        return ", ".join(parts)
    parts = [state.phase]
    if state.prefix is not None:
        parts += [f"turn {state.turn}", counted(len(state.history), "message")]
        parts += [f"{counted(state.unanswered, 'call')} unanswered"] * bool(state.unanswered)
        parts += [f"{counted(state.tools_out, 'tool')} out"] * bool(state.tools_out)
    return ", ".join(parts)


def summary_fields(state: ActorState) -> dict[str, str]:
    """Return the state as labels and values."""
    return _supervisor(state) if isinstance(state, SupervisorState) else _agent(state)


def plain(state: ActorState) -> object:
    """Return the state as JSON. Maps by number become objects, conversations lists."""
    return msgspec.Raw(msgspec.json.encode(to_jsonable(state)))


def _supervisor(state: SupervisorState) -> dict[str, str]:
    timers = [f"{timer.purpose} {timer.address}".strip() for _, timer in state.timers.items()]
    found = {
        "phase": state.phase,
        "agents": f"{state.live} live, {state.agents} ever",
        "model calls": f"{state.in_flight} in flight, {len(state.queue)} queued",
        "checks": f"{len(state.checks)} out" if len(state.checks) else "",
        "timers": ", ".join(timers),
    }
    if (host := state.host) is not None:
        limit = f" of {host.budget.tokens:,}" if host.budget.tokens is not None else ""
        found["spent"] = f"{host.spent.tokens:,}{limit} tokens, {dollars(host.spent.cost)}"
        found["reserved"] = f"{host.reserved.tokens:,} tokens" if host.reserved.tokens else ""
    if state.ask is not None:
        found["ask"] = f"{safe_line(state.ask.request_id, 64)}, " + (
            state.ask.outcome.kind if state.ask.outcome else "running"
        )
    return found


def _agent(state: AgentState) -> dict[str, str]:
    if state.prefix is None:
        return {"phase": f"{state.phase}; its memory is dropped" if state.phase == "idle" else state.phase}
    used = f"{state.turns_used} of {state.limits.max_iterations}"
    said = counted(len(state.history), "message")
    return {
        "phase": state.phase,
        "agent": state.prefix.profile.name,
        "model": state.model.name,
        "turn": f"{state.turn}, attempt {state.attempt}; {used} used",
        "conversation": f"{said}, at most {tokens(state.context_tokens)} tokens",
        "calls": ", ".join(safe_line(use.name, 64) for use in state.uses),
        "unanswered": f"{state.unanswered}, {counted(state.tools_out, 'tool')} out"
        if state.unanswered
        else "",
        "last text": safe_line(state.text, 400),
    }
