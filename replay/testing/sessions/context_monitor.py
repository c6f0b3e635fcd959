"""The rule of contexts that a log alone cannot show: each is a pure function of the log."""

from collections.abc import Mapping
from typing import Final

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DeciderFailed, Delegate
from callboard.actors.protocol.port_messages import ContextMade, MakeContext
from callboard.actors.session.contexts import ContextRequest, view_of
from callboard.actors.session.core import SessionCore
from callboard.replay.testing.sessions.ports import context_of, has_context
from callboard.replay.testing.sessions.scenario import Scenario

FROM_LOG: Final = "A context is made from the parent's state at its `Delegate`, whenever the port acts."


def other_context(scenario: Scenario, log: list[Event]) -> str:
    """Return the first context that its function would not make of the log, or an empty text."""
    made = [event for event in log if isinstance(event.body, ContextMade) and event.body.status == "ok"]
    parents = _parents(log) if made else {}
    for event in made:
        wanted = log[event.cause - 1].body
        assert isinstance(wanted, MakeContext)
        if not has_context(scenario, wanted.profile):
            continue  # a factory made an instance, of which the log holds nothing
        if event.body != context_of(wanted, scenario.context(_view(log, parents, wanted))):
            return f"event {event.seq} is not made of the state at event {wanted.request}"
    return ""


def _view(
    log: list[Event], parents: Mapping[tuple[str, int], AgentState], wanted: MakeContext
) -> ContextRequest:
    asked = log[wanted.request - 1]
    assert isinstance(asked.body, Delegate)
    view = view_of(parents[wanted.parent, asked.cause], asked.body, wanted)
    assert view is not None
    return view


def _parents(log: list[Event]) -> dict[tuple[str, int], AgentState]:
    """Return the state of each agent that delegates, after the decision that did, by its cause."""
    core, found = SessionCore(), {}
    failures = {event.cause: event.body.error for event in log if isinstance(event.body, DeciderFailed)}
    for event in log:
        if not is_decider(event.recipient):
            continue
        posts = core.decide(event, failures.get(event.seq, ""))
        state = core.states[event.recipient]
        if isinstance(state, AgentState) and any(isinstance(post.body, Delegate) for post in posts):
            found[event.recipient, event.seq] = state
    return found
