"""Agents of other frameworks as agents of a session: durable, budgeted, recorded."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.brains.frameworks": ("UntestedFramework", "pydantic_ai_agent"),
    "runtime.brains.functions": ("HostAnswer", "as_function"),
    "runtime.brains.langgraph": ("langgraph_agent",),
    "runtime.brains.langgraph_chat": ("LangChainModel", "SessionChatModel"),
    "runtime.brains.pydantic_model": ("PydanticAIModel",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
