"""A host that gives each task to a worker with a fresh context, on a real folder.

    python examples/fresh_context.py FOLDER ["TASK" ...]

Without ANTHROPIC_API_KEY a policy plays the models. New files go into FOLDER/scratch.
"""

import asyncio
import os
import re
import sys

from callboard import (
    Agent,
    AnthropicModel,
    Files,
    ModelRequest,
    Reply,
    Runtime,
    ScriptedModel,
    call,
    calls,
    say,
)
from callboard.tools.files import FILE_TOOLS
from callboard.tools.shell import shell_tool

TASKS = [
    "Find the testing framework of this project.",
    "Summarise all .py files.",
    "Create a module scratch/slug.py with a function slug(text), and verify it.",
]
MODULE = '''"""Names for files."""

import re


def slug(text: str) -> str:
    """Return a text as lower-case words with dashes."""
    return "-".join(re.findall("[a-z0-9]+", text.lower()))
'''
CHECK = "python3 -B -c \"from scratch.slug import slug; print(slug('Hello, World'))\""

shell = shell_tool(env={"PATH": os.environ["PATH"]})
worker = Agent(
    "worker",
    description="Does one task with a fresh context, and returns a summary of what it found or did.",
    instructions="Do the task with your tools. Your caller sees your last message only: make it a summary.",
    tools=[*FILE_TOOLS, shell],
)
host = Agent("host", instructions="Give each task to a worker, then answer.", agents=[worker])


def policy(request: ModelRequest) -> Reply:
    """Play the host and the worker."""
    task, results = words_of(request.conversation[0])[0], words_of(request.conversation[-1])
    if request.profile == "host":
        return calls(call("task", prompt=task)) if request.turn == 1 else say("\n".join(results))
    play = {"Find": find_framework, "Summ": summarise}.get(task[:4], create)
    return play(request, results)


def find_framework(request: ModelRequest, results: list[str]) -> Reply:
    """Look for imports in the tests."""
    if request.turn == 1:
        pattern = r"^\s*(import|from) (pytest|unittest|nose|hypothesis)\b"
        return calls(call("grep", pattern=pattern, files="*.py"))
    found = re.findall(r"^(.+?):(\d+):\s*(?:import|from) (\w+)", results[0], re.MULTILINE)
    if not found:
        return say("No test framework is imported.")
    names = [name for *_, name in found if name != "hypothesis"] or ["hypothesis"]
    best = max(set(names), key=names.count)
    place = next(f"{path}:{line}" for path, line, name in found if name == best)
    return say(f"The tests use {best}: it is imported in {names.count(best)} places, such as {place}.")


def summarise(request: ModelRequest, results: list[str]) -> Reply:
    """Read the beginning of each file."""
    if request.turn == 1:
        return calls(call("glob", pattern="*.py"))
    paths = words_of(request.conversation[2])[0].split()[:50]
    if request.turn == 2:
        return calls(*(call("read_file", path=path, limit=5) for path in paths))
    first = (re.search(r'^\s*1\t[rR]?"""(.+?)(?:""")?$', result, re.MULTILINE) for result in results)
    said = (match[1] if match else "no docstring" for match in first)
    return say("\n".join(f"{path}: {one}" for path, one in zip(paths, said, strict=True)))


def create(request: ModelRequest, results: list[str]) -> Reply:
    """Write a module and run it."""
    if request.turn == 1:
        return calls(call("write_file", path="scratch/slug.py", content=MODULE))
    if request.turn == 2:
        return calls(call("shell", command=CHECK))
    is_right = results[0].startswith("hello-world\n")
    return say(f"scratch/slug.py is written; verified: {is_right}.")


def words_of(message: dict[str, object]) -> list[str]:
    """Return the texts and the results of tools in a message."""
    content = message["content"]
    blocks = content if isinstance(content, list) else [{"text": content}]
    return [str(block.get("content", block.get("text", ""))) for block in blocks]


async def main(folder: str, *tasks: str) -> None:
    """Do the tasks, each in a session of its own."""
    model = AnthropicModel("claude-sonnet-5") if "ANTHROPIC_API_KEY" in os.environ else ScriptedModel(policy)
    files = Files(folder, write=["scratch"])
    async with Runtime("fresh_context.db", model=model, files=files) as runtime:
        for task in tasks or TASKS:
            outcome = await runtime.run(host, task)
            print(f"{task}\n{outcome.text}")
            print(f"  {', '.join(f'{one.address} {one.kind}' for one in outcome.delegations)}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["."]))
