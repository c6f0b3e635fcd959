"""callboard: an event-sourced actor runtime for LLM agents.

A host agent and its sub-agents are actors that exchange immutable messages; every message is posted on an
append-only log, and the log alone is enough to replay a session to the byte.

The names below are loaded when they are first used, so that `import callboard` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callboard.actors.protocol.errors import AgentsChanged as AgentsChanged
    from callboard.actors.protocol.errors import CallboardError as CallboardError
    from callboard.actors.protocol.errors import MisuseError as MisuseError
    from callboard.actors.protocol.errors import OutcomeError as OutcomeError
    from callboard.actors.protocol.errors import SessionBusy as SessionBusy
    from callboard.actors.protocol.errors import SessionEnded as SessionEnded
    from callboard.actors.protocol.errors import SessionFailed as SessionFailed
    from callboard.actors.protocol.errors import ToolError as ToolError
    from callboard.actors.protocol.limits import Limits as Limits
    from callboard.actors.protocol.profiles import Prices as Prices
    from callboard.actors.protocol.usage import Usage as Usage
    from callboard.runtime.agent import Agent as Agent
    from callboard.runtime.approvals import Approval as Approval
    from callboard.runtime.models.anthropic.model import AnthropicModel as AnthropicModel
    from callboard.runtime.models.scripted import Reply as Reply
    from callboard.runtime.models.scripted import ScriptedModel as ScriptedModel
    from callboard.runtime.models.scripted import call as call
    from callboard.runtime.models.scripted import calls as calls
    from callboard.runtime.models.scripted import fail as fail
    from callboard.runtime.models.scripted import say as say
    from callboard.runtime.runtime import Runtime as Runtime
    from callboard.runtime.secrets.refs import SecretPattern as SecretPattern
    from callboard.runtime.secrets.refs import SecretRef as SecretRef
    from callboard.runtime.sessions.outcome import Outcome as Outcome
    from callboard.runtime.sessions.session import Session as Session
    from callboard.runtime.tools.context import ToolContext as ToolContext
    from callboard.runtime.tools.output import Blocks as Blocks
    from callboard.runtime.tools.tool import Tool as Tool
    from callboard.runtime.tools.tool import tool as tool

__version__ = "0.1.0"

_HOMES = {
    "Agent": "runtime.agent",
    "AgentsChanged": "actors.protocol.errors",
    "AnthropicModel": "runtime.models.anthropic.model",
    "Approval": "runtime.approvals",
    "Blocks": "runtime.tools.output",
    "CallboardError": "actors.protocol.errors",
    "Limits": "actors.protocol.limits",
    "MisuseError": "actors.protocol.errors",
    "Outcome": "runtime.sessions.outcome",
    "OutcomeError": "actors.protocol.errors",
    "Prices": "actors.protocol.profiles",
    "Reply": "runtime.models.scripted",
    "Runtime": "runtime.runtime",
    "ScriptedModel": "runtime.models.scripted",
    "SecretPattern": "runtime.secrets.refs",
    "SecretRef": "runtime.secrets.refs",
    "Session": "runtime.sessions.session",
    "SessionBusy": "actors.protocol.errors",
    "SessionEnded": "actors.protocol.errors",
    "SessionFailed": "actors.protocol.errors",
    "Tool": "runtime.tools.tool",
    "ToolContext": "runtime.tools.context",
    "ToolError": "actors.protocol.errors",
    "Usage": "actors.protocol.usage",
    "call": "runtime.models.scripted",
    "calls": "runtime.models.scripted",
    "fail": "runtime.models.scripted",
    "say": "runtime.models.scripted",
    "tool": "runtime.tools.tool",
}

__all__ = [
    "Agent",
    "AgentsChanged",
    "AnthropicModel",
    "Approval",
    "Blocks",
    "CallboardError",
    "Limits",
    "MisuseError",
    "Outcome",
    "OutcomeError",
    "Prices",
    "Reply",
    "Runtime",
    "ScriptedModel",
    "SecretPattern",
    "SecretRef",
    "Session",
    "SessionBusy",
    "SessionEnded",
    "SessionFailed",
    "Tool",
    "ToolContext",
    "ToolError",
    "Usage",
    "call",
    "calls",
    "fail",
    "say",
    "tool",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'callboard' has no attribute {name!r}")
    value: object = getattr(import_module(f"callboard.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
