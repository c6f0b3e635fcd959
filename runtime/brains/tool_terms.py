"""The terms of a brain for its tools: their effects, their approvals, and those that run in the program."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.profiles import Approval
from callboard.runtime.tools.tool import Tool


class ToolTerms(NamedTuple):
    """The terms by the names of tools. in_program: tools that run in the program itself."""

    effects: Mapping[str, Effect]
    approvals: Mapping[str, Approval]
    in_program: Collection[str] = ()

    def check(self, known: Collection[str], owner: str) -> None:
        """Check that there are tools of these names. owner: as the error names it. Raises InvalidAgent."""
        for word, names in self._asdict().items():
            if wrong := sorted(set(names) - set(known)):
                there_are = ", ".join(known) or "none"
                raise InvalidAgent(f"{word} names {wrong[0]!r}, and {owner} the tools: {there_are}")

    def effect(self, name: str) -> Effect:
        """Return the effect of a tool; `write` for one that is not named."""
        return self.effects.get(name, "write")

    def approval(self, name: str, *, is_asked: bool = False) -> Approval:
        """Return the calls that a person approves. is_asked: the framework's own mark of the tool."""
        return self.approvals.get(name, "before" if is_asked else "never")

    def waits(self, name: str, *, is_asked: bool = False) -> bool:
        """Return True if each call of a tool waits for a person."""
        return self.approval(name, is_asked=is_asked) in ("before", "always")

    def permission(
        self, name: str, description: str, schema: Mapping[str, object], *, is_asked: bool = False
    ) -> Tool | None:
        """Return the tool by which a person permits a call in the program; None if none is asked.

        It returns the arguments that the person permits, since the call is made in each execution again.
        """
        if not self.waits(name, is_asked=is_asked):
            return None
        return Tool(name, description, schema, _permitted, "read", approval="before")


async def _permitted(arguments: dict[str, object]) -> dict[str, object]:
    return arguments
