"""A Claude client with two tools."""

from collections.abc import Callable
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

from callboard.brains import claude_agent
from tests.runtime.brains.kit import WORDS

Note = Callable[[str], None]


def options(note: Note, words: str = WORDS, **more: Any) -> ClaudeAgentOptions:
    """Return the options of a client with a tool that reads and one that writes."""

    @tool("add", "Add.", {"a": int, "b": int})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        note(f"add {given['a']}")
        if given["a"] == 9:
            raise ValueError("no nines")
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    @tool("save", "Save.", {"key": str})
    async def save(given: dict[str, Any]) -> dict[str, Any]:
        note(f"save {given['key']}")
        return {"content": [{"type": "text", "text": f"saved {given['key']}"}]}

    server = create_sdk_mcp_server("cb", tools=[add, save])
    return ClaudeAgentOptions(system_prompt=words, mcp_servers={"cb": server}, **more)


def brain(note: Note, words: str = WORDS, **more: Any) -> Any:
    """Return the brain of such a client."""
    return claude_agent(options(note, words), "expert", description="Knows.", effects={"add": "read"}, **more)
