"""A client of the Claude Agent SDK as a program: it asks its model and calls its tools by the session."""

import dataclasses
import sys
from collections.abc import Coroutine, Mapping
from typing import Any, Final, Unpack

from claude_agent_sdk import ClaudeAgentOptions

from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.runtime.brains.claude_client import ClientHome
from callboard.runtime.brains.claude_model import ClientModel
from callboard.runtime.brains.claude_stand_in import StandIn
from callboard.runtime.brains.claude_tools import Call, Served, served_tools, servers_of, tools_of
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import BrainBounds, BrainOptions, Program

_TAKEN: Final = (
    "system_prompt",
    "mcp_servers",
    "allowed_tools",
    "disallowed_tools",
    "model",
    "max_turns",
    "output_format",
)
_HARMLESS: Final[dict[str, tuple[object, ...]]] = {
    "tools": (None, []),
    "strict_mcp_config": (False, True),
    "setting_sources": (None, []),
    "debug_stderr": (sys.stderr,),
}
"""Values that change nothing here, beside the default ones."""


class ClaudeBrain(Program[Any, Any]):
    """A client of the Claude Agent SDK as a program; `claude_agent` makes one."""

    def __init__(
        self,
        given: ClaudeAgentOptions,
        served: list[Served],
        name: str,
        max_tokens: int,
        **options: Unpack[BrainOptions],
    ) -> None:
        super().__init__(StandIn(given, served, max_tokens).run, name, **options)
        self._given, self._served, self._max_tokens = given, served, max_tokens
        self.model = ClientModel(name, self._options, max_tokens, self.model)

    def __repr__(self) -> str:
        return f"ClaudeBrain({self.name!r})"

    def __call__(self, ctx: ProgramContext, prompt: object) -> Coroutine[object, None, Any]:
        """Raise MisuseError: a client is not a function."""
        raise MisuseError("a Claude client cannot be called as a part of another program; delegate to it")

    def _options(self, home: ClientHome, call: Call) -> ClaudeAgentOptions:
        """Return the options of one client."""
        names = [f"mcp__{one.server}__{one.name}" for one in self._served]
        return dataclasses.replace(
            self._given,
            tools=[],
            mcp_servers=dict(servers_of(self._served, call)),
            allowed_tools=self._given.allowed_tools or names,
            strict_mcp_config=True,
            setting_sources=[],
            cwd=home.work,
            cli_path=home.command,
        )

    def _renamed(self, name: str) -> "ClaudeBrain":
        agent = super()._renamed(name)
        agent.model = ClientModel(name, agent._options, agent._max_tokens, agent.model)
        return agent


def claude_brain(
    given: object,
    name: str,
    terms: ToolTerms,
    max_tokens: int,
    *,
    description: str,
    model: ModelChoice | str | None,
    **options: Unpack[BrainBounds],
) -> ClaudeBrain:
    """Make the brain of a client. Raises InvalidAgent for one that cannot be recorded."""
    if not isinstance(given, ClaudeAgentOptions):
        raise InvalidAgent(f"{given!r:.80} is not a claude_agent_sdk.ClaudeAgentOptions")
    if type(max_tokens) is not int or max_tokens < 1:
        raise InvalidAgent(f"max_tokens={max_tokens!r:.40}: give the most tokens of a reply, at least 1")
    if sys.platform == "win32":
        raise InvalidAgent("a Claude client needs process groups, which this system does not have")
    _check(given)
    served = served_tools(given.mcp_servers)
    return ClaudeBrain(
        given,
        served,
        name,
        max_tokens,
        description=description,
        tools=tools_of(served, terms),
        model=model,
        schema=_schema(given),
        **options,
    )


def _check(given: ClaudeAgentOptions) -> None:
    plain = ClaudeAgentOptions()
    for field in dataclasses.fields(given):
        if field.name in _TAKEN:
            continue
        value = getattr(given, field.name)
        if value != getattr(plain, field.name) and value not in _HARMLESS.get(field.name, ()):
            raise InvalidAgent(
                f"ClaudeAgentOptions({field.name}=...) is not possible in a session, which could not record "
                f"or repeat what it does; leave it out. There are: {', '.join(_TAKEN)}"
            )
    if given.system_prompt is not None and not isinstance(given.system_prompt, str):
        raise InvalidAgent("system_prompt: give a text; presets belong to the client's built-in tools")


def _schema(given: ClaudeAgentOptions) -> Mapping[str, object] | None:
    form = given.output_format
    if form is None:
        return None
    if not isinstance(form, Mapping) or not isinstance(form.get("schema"), Mapping):
        raise InvalidAgent("output_format: give {'type': 'json_schema', 'schema': {...}}")
    return dict(form["schema"])
