"""A check of model calls: another model answered than the agent was to ask."""

from collections.abc import Iterator
from typing import ClassVar

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import Finding


class OtherModels:
    """Agents with replies of another model than their first one: of a fallback, or as the service says.

    A service may add a date or a version to a name. Such a name is that of the same model.
    """

    kinds: ClassVar = frozenset({"Begin", "TurnRequested", "ModelReplied"})

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._found: dict[tuple[str, str], tuple[int, int, int, str]] = {}

    def take(self, event: Event) -> None:
        """Take in the model of an agent, a request or a reply."""
        body = event.body
        if isinstance(body, Begin):
            self._first[event.recipient] = body.model.name
        elif isinstance(body, TurnRequested):
            self._asked[event.sender] = body.model or self._first.get(event.sender, "")
        elif isinstance(body, ModelReplied):
            agent = event.recipient
            if body.status != "ok":
                self._failed[agent] = body.failure.code if body.failure is not None else body.status
                return
            name, first = body.model or self._asked.get(agent, ""), self._first.get(agent, "")
            if name and first and not (name.startswith(first) or first.startswith(name)):
                seq, turn, count, why = self._found.get(
                    (agent, name), (event.seq, body.turn, 0, self._failed.get(agent, ""))
                )
                self._found[agent, name] = seq, turn, count + 1, why

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and model."""
        for (agent, name), (seq, turn, count, why) in self._found.items():
            turns = f"{count:,} turns from {turn} on" if count > 1 else f"turn {turn}"
            after = f", after {why}" if why else ""
            says = f"{agent} was to ask {self._first[agent]}, and {name} answered {turns}{after}"
            yield Finding("other_model", seq, agent, says, "request {at}")
