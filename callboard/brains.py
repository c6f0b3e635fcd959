"""Agents of other frameworks as agents of a session: durable, budgeted, recorded."""

from callboard.lazy_names import lazy_names

_EXTRAS = {"LangChainModel": "langgraph", "SessionChatModel": "langgraph", "PydanticAIModel": "pydantic-ai"}
"""The extra of each class that is one of a framework, too."""

_HOMES = {
    "runtime.brains.claude_agents": ("claude_agent",),
    "runtime.brains.frameworks": ("UntestedFramework", "pydantic_ai_agent"),
    "runtime.brains.openai_agents": ("openai_agent",),
    "runtime.brains.openai_model": ("OpenAIAgentsModel",),
    "runtime.brains.functions": ("HostAnswer", "as_function"),
    "runtime.brains.langgraph": ("langgraph_agent",),
    "runtime.brains.langgraph_chat": ("LangChainModel", "SessionChatModel"),
    "runtime.brains.pydantic_model": ("PydanticAIModel",),
}

__all__, _load, __dir__ = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> object:
    """Load a name on its first use. Raises MissingExtra for one of a framework that is not installed."""
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        from callboard.actors.protocol.errors import MissingExtra

        told = f"{name} needs {error.name}: pip install 'callboard[{_EXTRAS[name]}]'"
        raise MissingExtra(told) from None
