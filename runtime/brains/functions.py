"""A host as an async function, which agents of other frameworks take as a tool."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from typing_extensions import TypedDict

from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.runtime.agent import Agent
from callboard.runtime.runtime import Runtime


class HostAnswer(TypedDict):
    """The answer of a host, as JSON values.

    kind: of the end, as of an outcome. text: the answer, or the partial work; of a failed ask without any,
    the reason. report: the structured output, null without one. session_id: by which the log has it.
    """

    status: Literal["ok", "failed", "cancelled"]
    kind: str
    text: str
    report: Any
    session_id: str


def as_function(
    runtime: Runtime, host: Agent, *, name: str = "", description: str = ""
) -> Callable[[str], Awaitable[HostAnswer]]:
    """Return an async function of a prompt that asks the host in a session of its own.

    A framework takes it as a tool: `tools=[as_function(runtime, host)]` of Pydantic AI and LangChain,
    `function_tool(...)` of OpenAI Agents. name, description: instead of the host's. An end at a limit is an
    answer, whose `status` says so. A caller that is cancelled ends the ask, as of `Runtime.run`.
    Raises InvalidAgent, MisuseError for objects of another kind.

    >>> from callboard import ScriptedModel
    >>> oracle = as_function(Runtime(":memory:", model=ScriptedModel(["Forty-two."])), Agent("oracle"))
    >>> oracle.__name__
    'oracle'
    """
    if not isinstance(runtime, Runtime):
        raise MisuseError(f"{runtime!r:.80} is not a Runtime: `as_function(runtime, host)`")
    if not isinstance(host, Agent):
        raise InvalidAgent(f"{host!r:.80} is not an Agent: `as_function(runtime, host)`")
    if host.contract is not None:
        raise InvalidAgent(
            f"agent {host.name!r} takes a value of its contract, and a function gives it a prompt: wrap it, "
            "as in `agents=[...]` of a host that takes text"
        )

    async def ask(prompt: str) -> HostAnswer:
        outcome = await runtime.run(host, prompt)
        return HostAnswer(
            status=outcome.status,
            kind=outcome.kind,
            text=outcome.text or outcome.detail,
            report=outcome.report,
            session_id=outcome.session_id,
        )

    ask.__name__ = ask.__qualname__ = name or host.name
    ask.__doc__ = description or host.description or f"Ask {host.name}."
    return ask
