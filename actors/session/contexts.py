"""The material of a delegation's context: the parent's view as of its `Delegate`.

It is a pure function of the log. The parent's conversation does not change while the call waits for the
context: its turn waits for the start of each delegation, and no compaction comes between. So its
first `Delegate.messages` messages are those of that event, whenever the context port looks.
"""

from functools import cached_property
from itertools import islice

import msgspec

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.conversation import decoded
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.labels import NO_LABELS, Labels
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.makers import NO_ORIGINS, Origins
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.port_messages import MakeContext
from callboard.actors.session.step import ActorState
from callboard.actors.supervisor.state import SupervisorState
from callboard.actors.supervisor.unit_of_work import UnitOfWork


class ContextRequest:
    """The view of an agent that delegates, for the function that builds the context of its sub-agent.

    parent: its address. parent_profile: its profile's name. profile: the name of the sub-agent's profile.
    system: its system prompt, as JSON. messages: its conversation up to the reply that delegates, as JSON.
    labels, rights: of the parent when it delegated. origins: the makers of its assistant messages, in runs.
    is_program: True if it is a program, whose conversation no model can continue.
    """

    def __init__(
        self,
        *,
        parent: str,
        parent_profile: str,
        profile: str,
        system: Json,
        messages: tuple[Json, ...],
        prompt: Json,
        labels: Labels = NO_LABELS,
        rights: Layers = (),
        origins: Origins = NO_ORIGINS,
        is_program: bool = False,
    ) -> None:
        self.parent = parent
        self.parent_profile = parent_profile
        self.profile = profile
        self.system = system
        self.messages = messages
        self.labels = labels
        self.rights = rights
        self.origins = origins
        self.is_program = is_program
        self._prompt = prompt

    @property
    def prompt(self) -> str | list[dict[str, object]]:
        """Return the prompt of the delegation: a text, or new content blocks."""
        return msgspec.json.decode(self._prompt, type=str | list[dict[str, object]])

    @property
    def plain(self) -> "ContextRequest":
        """Return the view with parts that msgspec encodes: itself, but for one whose parts print."""
        return self

    @cached_property
    def conversation(self) -> list[dict[str, object]]:
        """Decode the conversation into Python values, which belong to the caller."""
        return decoded(self.messages)


def view_of(
    parent: ActorState | None, request: Delegate | None, wanted: MakeContext
) -> ContextRequest | None:
    """Return the view of a parent as of its `Delegate`; None if the delegation has ended.

    parent: its state at that event, or later while the delegation is open.
    """
    if not isinstance(parent, AgentState) or parent.prefix is None or request is None:
        return None
    messages = tuple(islice(parent.history.values(), request.messages))
    if len(messages) < request.messages:  # its decider has failed, and it forgot its conversation
        return None
    return ContextRequest(
        parent=wanted.parent,
        parent_profile=parent.prefix.profile.name,
        profile=wanted.profile,
        system=parent.prefix.system,
        messages=messages,
        prompt=request.prompt,
        labels=request.labels,
        rights=parent.permissions,
        origins=parent.origins,
        is_program=parent.prefix.profile.is_eager,
    )


def delegate_of(supervisor: SupervisorState, wanted: MakeContext) -> Delegate | None:
    """Return the `Delegate` that a context is wanted for; None if the delegation has ended."""
    delegation = UnitOfWork(supervisor).delegation(wanted.parent, wanted.delegation)
    return delegation.request if delegation else None
