"""Ready tools for long-term memory: remember, recall and forget.

from callboard.tools.memory import MEMORY_TOOLS

agent = Agent("helper", tools=MEMORY_TOOLS)
runtime = Runtime(model=model, memory="memory.db")
"""

from typing import Annotated, Final

from msgspec import Meta

from callboard.runtime.memory.access import HITS_MAX, SHARED
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import tool
from callboard.tools.listing import listed


@tool(effect="idempotent", capabilities=("memory",))
def remember(ctx: ToolContext, text: str, memory: str = SHARED) -> str:
    """Keep a text for later conversations: one fact, in words that a search would use.

    Args:
        text: The text, at most 4,000 characters.
        memory: `shared` for all agents, `own` for yourself only.
    """
    return f"remembered as {ctx.memory.remember(text, memory=memory)}"


@tool(effect="read", capabilities=("memory",))
def recall(
    ctx: ToolContext,
    query: str = "",
    memory: str = SHARED,
    limit: Annotated[int, Meta(ge=1, le=HITS_MAX)] = 10,
) -> str:
    """Look for remembered texts by their words, best first. Each stands behind its id.

    Args:
        query: Words of the text. Without any, the newest texts.
        memory: `shared` for all agents, `own` for yourself only.
        limit: The number of texts, at most.
    """
    found = ctx.memory.recall(query, memory=memory, limit=limit)
    return listed([f"[{one.id}] {one.text}" for one in found], False, "ask for fewer with limit")


@tool(effect="idempotent", capabilities=("memory",))
def forget(ctx: ToolContext, id: str, memory: str = SHARED) -> str:
    """Remove a remembered text.

    Args:
        id: As `remember` or `recall` gave it.
        memory: The memory that has it.
    """
    return f"forgot {id}" if ctx.memory.forget(id, memory=memory) else f"there is no text {id!r}"


MEMORY_TOOLS: Final = (remember, recall, forget)
RECALL_ONLY: Final = (recall,)
