# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.brains.claude_agents import claude_agent as claude_agent
from callboard.runtime.brains.frameworks import UntestedFramework as UntestedFramework
from callboard.runtime.brains.frameworks import pydantic_ai_agent as pydantic_ai_agent
from callboard.runtime.brains.functions import HostAnswer as HostAnswer
from callboard.runtime.brains.functions import as_function as as_function
from callboard.runtime.brains.langgraph import langgraph_agent as langgraph_agent
from callboard.runtime.brains.langgraph_chat import LangChainModel as LangChainModel
from callboard.runtime.brains.langgraph_chat import SessionChatModel as SessionChatModel
from callboard.runtime.brains.openai_agents import openai_agent as openai_agent
from callboard.runtime.brains.openai_model import OpenAIAgentsModel as OpenAIAgentsModel
from callboard.runtime.brains.pydantic_model import PydanticAIModel as PydanticAIModel

__all__ = [
    "HostAnswer",
    "LangChainModel",
    "OpenAIAgentsModel",
    "PydanticAIModel",
    "SessionChatModel",
    "UntestedFramework",
    "as_function",
    "claude_agent",
    "langgraph_agent",
    "openai_agent",
    "pydantic_ai_agent",
]
