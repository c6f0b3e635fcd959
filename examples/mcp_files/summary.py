"""An agent with two MCP servers: the files of a folder in a process of its own, and a counter in this one.

    python examples/mcp_files/summary.py FOLDER

It reads each file, counts its words, and writes SUMMARY.txt after a person has agreed.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer as Server

from callboard import Agent, Approval, MCPServer, ModelRequest, Reply, Runtime, ScriptedModel, call, say

HERE = Path(__file__).parent
counter = Server("counter")


@counter.tool()
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def agent(folder: str) -> Agent:
    """Return the agent. A write happens at most once, and only if a person agrees; reads may be repeated."""
    files = MCPServer(
        [sys.executable, str(HERE / "server.py"), folder],
        effects={"list_files": "read", "read_file": "read"},
        approval={"write_file": "before"},
        prefix="files_",
    )
    return Agent("summariser", tools=[files, MCPServer(counter, effects={"*": "read"})])


def texts(request: ModelRequest) -> list[list[str]]:
    """Return the results of the tools, turn by turn."""
    found = []
    for message in request.conversation:
        blocks: Any = message["content"]
        results = [one for one in blocks if isinstance(one, dict) and one["type"] == "tool_result"]
        found += [[str(one["content"]) for one in results]] if results else []
    return found


def decide(request: ModelRequest) -> Reply:
    """Choose the next step, as a model would."""
    done = texts(request)
    names = done[0][0].splitlines() if done else []
    match len(done):
        case 0:
            return Reply(calls=[call("files_list_files")])
        case 1:
            return Reply(calls=[call("files_read_file", path=name) for name in names])
        case 2:
            return Reply(calls=[call("count_words", text=text) for text in done[1]])
        case 3:
            summary = "\n".join(f"{name}: {count} words" for name, count in zip(names, done[2], strict=True))
            return Reply(calls=[call("files_write_file", path="SUMMARY.txt", text=summary)])
        case _:
            return say(done[3][0])


def agree(question: Approval) -> bool:
    """Answer as a person who watches."""
    print(f"may I {question.tool} {question.arguments['path']}? yes")
    return True


async def main(folder: str) -> None:
    """Summarise a folder."""
    async with Runtime("summary.db", model=ScriptedModel(decide), approve=agree) as runtime:
        outcome = await runtime.run(agent(folder), "Count the words of my files.")
        print(outcome.unwrap())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
