"""The reader's specialists as agents of other frameworks, by the name of the framework.

Each module has `host_of(parts)`, which returns the host that asks them. They share one MCP server with the
seven tools, the words of the registry, the rules of the route, and one report, `SpecialistResult`.
"""

from importlib import import_module

from callboard import Agent
from callboard.errors import MissingExtra
from callboard.orchestrator import Orchestrator
from regreader.tools import Tools

_MODULES = {"claude": "claude_clients", "pydantic": "pydantic_agents", "langgraph": "langgraph_graphs"}
FRAMEWORKS = tuple(_MODULES)


def host_of(framework: str, rules: Orchestrator, tools: Tools) -> Agent:
    """Return the host of a framework.

    rules: the orchestrator whose specialists and rules it takes over. Raises MissingExtra.
    """
    try:
        parts = import_module("regreader.frameworks.parts")
        module = import_module(f"regreader.frameworks.{_MODULES[framework]}")
    except ModuleNotFoundError as error:
        told = f"{framework} needs {error.name}: pip install 'regreader[{framework}]'"
        raise MissingExtra(told) from error
    host: Agent = module.host_of(parts.Parts(rules, tools))
    return host
