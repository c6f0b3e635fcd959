"""The programs of a recorded session, also those of sub-agents that ended long ago."""

from collections.abc import Iterator

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.conversation import message
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.recording import Recording
from callboard.runtime.programs.checking import RecordedAgent, programs_of
from callboard.runtime.programs.history import read_step


def recorded_programs(recording: Recording, *, only_running: bool = False) -> list[RecordedAgent]:
    """Return the programs of a session: those that run at its end, or the last run of each if none runs.

    only_running: True for none if none runs. Raises CorruptLog, Diverged.
    """
    head = recording.head.seq
    if not head:
        return []
    running = programs_of(recording.states(head), only_running=True)
    return running if running or only_running else list(_last_runs(recording))


def step_event(recording: Recording, address: str, step: int) -> int:
    """Return the seq of the reply with a step of a program's last run; 0 if the log has no such step."""
    found = 0
    for event in recording.events_of(address, recording.head.seq):
        body = event.body
        if isinstance(body, ModelReplied) and body.status == "ok" and event.recipient == address:
            found = event.seq if read_step(body.content).head.step == step else found
    return found


def _last_runs(recording: Recording) -> Iterator[RecordedAgent]:
    """Yield the last run of each program. An agent that has ended keeps no conversation but in the log."""
    begun: set[str] = set()
    last: dict[str, Event] = {}
    for event in recording.events:
        if isinstance(event.body, Begin) and event.body.model.is_program:
            begun.add(event.recipient)
        elif isinstance(event.body, ModelReplied) and event.recipient in begun:
            last[event.recipient] = event
    for address, reply in last.items():
        state = recording.state(reply.seq - 1, address)
        if isinstance(state, AgentState) and state.prefix is not None:
            messages = (*state.history.values(), *_said(reply.body))
            yield RecordedAgent(address, state.prefix.profile.name, messages)


def _said(reply: object) -> tuple[Json, ...]:
    """Return the message of a reply; none for a call without an answer."""
    if isinstance(reply, ModelReplied) and reply.status == "ok":
        return (message("assistant", reply.content),)
    return ()
