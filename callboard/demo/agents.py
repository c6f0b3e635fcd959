"""The demonstration's cast as real agents with real tools; only the models are scripted."""

from collections.abc import Mapping
from pathlib import Path

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.demo.policies import CAST
from callboard.demo.tools import FolderTools
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Reply, ScriptedModel
from callboard.runtime.tools.tool import Tool, tool

PROMPT = "Explain this project: how is it tested, what are its modules, where does it begin?"


def demo_host(root: str | Path) -> Agent:
    """The host, with everybody it delegates to, working on a folder. Raises OSError for one that is none."""
    functions = FolderTools(root).all()
    tools = {name: tool(effect="read")(function) for name, function in functions.items()}
    agents = {name: _agent(name, tools) for name in CAST}
    for name, role in CAST.items():
        agents[name].may_delegate_to(*(agents[other] for other in role.agents))
    return agents["host"]


def _agent(name: str, tools: Mapping[str, Tool]) -> Agent:
    role = CAST[name]
    return Agent(
        name,
        description=role.description,
        instructions=role.instructions,
        tools=[tools[one] for one in role.tools],
        output_schema=role.schema,
        limits=Limits(max_iterations=role.iterations or None),
    )


def _played(request: ModelRequest) -> Reply:
    return CAST[request.profile].policy(request)


def demo_model() -> ScriptedModel:
    """One model that plays every part: a pure function of what the tools really returned."""
    return ScriptedModel(_played, name="demo", max_tokens=4_096)
