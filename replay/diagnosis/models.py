"""A check of model calls: another model answered than the agent was to ask."""

from collections.abc import Iterator
from typing import ClassVar

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import Finding


class OtherModels:
    """Agents with replies of another model than their first one: of a fallback, or as the service says.

    A service may have another name for a model, with a date or a version. Its first name for one counts as
    the same model, unless the session knows that name as another model.
    """

    kinds: ClassVar = frozenset({"Begin", "TurnRequested", "ModelReplied"})

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._known: set[str] = set()
        self._usual: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._found: dict[tuple[str, str], tuple[int, int, int, str]] = {}

    def take(self, event: Event) -> None:
        """Take in the model of an agent, a request or a reply."""
        body = event.body
        if type(body) is TurnRequested:
            self._asked[event.sender] = body.model or self._first.get(event.sender, "")
        elif type(body) is ModelReplied:
            if body.status != "ok":
                self._failed[event.recipient] = body.failure.code if body.failure is not None else body.status
            else:
                self._reply(event, body)
        elif isinstance(body, Begin):
            self._first[event.recipient] = body.model.name
            self._known |= {body.model.name, *(one.name for one in body.model.fallback)}

    def _reply(self, event: Event, body: ModelReplied) -> None:
        agent = event.recipient
        asked, first = self._asked.get(agent, ""), self._first.get(agent, "")
        name = body.model or asked
        if not first or (asked == first and self._is_same(asked, name)):
            return
        new = event.seq, body.turn, 0, self._failed.get(agent, "")
        seq, turn, count, why = self._found.get((agent, name), new)
        self._found[agent, name] = seq, turn, count + 1, why

    def _is_same(self, asked: str, name: str) -> bool:
        if name == asked or name.startswith(asked) or asked.startswith(name):
            return True
        return name not in self._known and self._usual.setdefault(asked, name) == name

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and model."""
        for (agent, name), (seq, turn, count, why) in self._found.items():
            turns = f"{count:,} turns from {turn} on" if count > 1 else f"turn {turn}"
            after = f", after {why}" if why else ""
            says = f"{agent} was to ask {self._first[agent]}, and {name} answered {turns}{after}"
            yield Finding("other_model", seq, agent, says, "request {at}")
