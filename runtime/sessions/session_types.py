"""The output types that a session can find by name: of its agents, of `Runtime(types=)`, and of its asks."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from callboard.actors.protocol.errors import MissingType
from callboard.actors.protocol.immutable import NULL, Json
from callboard.runtime.agent import Agent, prompt_for
from callboard.runtime.schemas.output_types import NO_TYPE, OutputType, output_type


class TypeName(NamedTuple):
    """A type as the log has it: its name, empty for a plain JSON schema, and its schema, null for text."""

    name: str = ""
    schema: Json = NULL


class SessionTypes:
    """The types of one session.

    agents: by name; host: the name of the session's. given: further types.
    """

    def __init__(self, agents: Mapping[str, Agent], host: str, given: Iterable[OutputType]) -> None:
        self._agents = agents
        self._host = host
        self._named: dict[str, OutputType] = {}
        # Two classes may share a name, for example in a notebook whose cell was run again.
        self._exact: dict[tuple[str, bytes], OutputType] = {}
        inputs = (agent.contract.type for agent in agents.values() if agent.contract)
        for kind in (*given, *(agent.output_type for agent in agents.values()), *inputs):
            self.learn(kind)

    def find(self, name: str, schema: Json) -> OutputType | None:
        """Return the type with this name, and if there is one, with this schema."""
        return self._exact.get((name, bytes(schema))) or self._named.get(name)

    def of(self, recorded: TypeName) -> OutputType:
        """Return a recorded type. Raises MissingType."""
        found = self.find(*recorded) if recorded.name else OutputType(recorded.schema)
        if found is None:
            raise _missing((recorded.name,))
        return found

    def of_profile(self, name: str) -> OutputType:
        """Return the type of an agent's reports."""
        agent = self._agents.get(name)
        return agent.output_type if agent else NO_TYPE

    def prompt_of_ask(self, prompt: object) -> Json:
        """Return the prompt of an ask: of a value of the host's contract, the text. Raises InvalidPrompt."""
        return prompt_for(self._agents[self._host], prompt)

    def of_ask(self, given: OutputType) -> TypeName:
        """Return the type of an ask's report: the given one, else the host's own."""
        kind = given if given.schema != NULL else self.of_profile(self._host)
        return TypeName(kind.name, kind.schema)

    def refuse_missing(self, needed: Iterable[TypeName], accept_changes: bool) -> None:
        """Refuse a session whose unfinished work needs a type that is not here. Raises MissingType.

        accept_changes: accept a type whose schema is another than the recorded one.
        """
        named = [one for one in needed if one.name]
        if missing := tuple(sorted({one.name for one in named if one.name not in self._named})):
            raise _missing(missing)
        changed = {one.name for one in named if (one.name, bytes(one.schema)) not in self._exact}
        if changed and not accept_changes:
            listed = ", ".join(sorted(changed))
            raise MissingType(
                f"the running ask was recorded with another {listed}: its JSON schema has changed. Resume "
                "with the type as it was, or pass accept_changes=True to build the value with the new one",
                tuple(sorted(changed)),
            )

    def learn(self, kind: OutputType) -> None:
        """Remember the type of an ask."""
        if kind.name:
            self._named[kind.name] = self._exact[kind.name, bytes(kind.schema)] = kind


def schema_of_ask(host: object, given: object) -> Json:
    """Return the schema of an ask's report: the given one, else the host's own. Raises InvalidSchema."""
    kind = output_type(given)
    return host.output_type.schema if kind.schema == NULL and isinstance(host, Agent) else kind.schema


def _missing(names: tuple[str, ...]) -> MissingType:
    listed = ", ".join(names)
    return MissingType(
        f"the recorded ask gives a value of type {listed}, which this program does not name: pass "
        f"Runtime(types=[{', '.join(name.rpartition('.')[2] for name in names)}])",
        names,
    )
