"""Whole conversations, with those of sub-agents, as sessions.

A reader of a format makes a `Conversation`; `enact` makes a session of it in a log.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from callboard.actors.protocol.client_messages import RULES, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec
from callboard.runtime.imports.enactment import NO_LIMITS, Enactment
from callboard.runtime.imports.pieces import text_in
from callboard.runtime.imports.thread import Thread
from callboard.runtime.imports.traffic import Block, Part, Returned, Said, Words
from callboard.runtime.imports.writing import Writing
from callboard.runtime.sanitize import to_json
from callboard.runtime.secrets.registry import Secrets

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ANY_OBJECT: Final = Json(b'{"type":"object"}')


class Conversation(msgspec.Struct, gc=False):
    """The conversation of one agent.

    parts: in their order. agents: the conversations of sub-agents, by the ids of the calls that began them.
    instructions: a text or content blocks, None for none. tools: those that its requests listed, by name.
    """

    name: str
    parts: list[Part] = []
    agents: dict[str, "Conversation"] = {}
    instructions: object = None
    model: str = ""
    tools: dict[str, ToolSpec] = {}

    def family(self) -> Iterator["Conversation"]:
        """Yield this conversation and those of all sub-agents below it."""
        yield self
        for one in self.agents.values():
            yield from one.family()


def name_of(text: object, otherwise: str) -> str:
    """Return a name for an agent. otherwise: where the text has no letter of one."""
    found = _ODD.sub("_", text)[:64].strip("_") if isinstance(text, str) else ""
    return found or otherwise


def tool_of(name: str, description: object = "", schema: object = None) -> ToolSpec:
    """Return a tool of the traffic. It may have an effect: nothing says that it has none."""
    text = description if isinstance(description, str) else ""
    return ToolSpec(name, text, to_json(schema) if isinstance(schema, dict) else _ANY_OBJECT)


async def enact(
    writing: Writing,
    session: str,
    at: int,
    host: Conversation,
    kind: str,
    about: Mapping[str, object],
    secrets: Secrets,
) -> None:
    """Make a session of a conversation. at: its beginning. Raises Changed for a known one that differs."""
    opened = SessionOpened(
        RULES,
        host.name,
        _profiles(host),
        ModelSpec(host.model or "unknown"),
        NO_LIMITS,
        tags=("imported",),
        metadata=to_json({"format": kind, **about}),
        imported=kind,
    )
    await writing.begin(session, at)
    enacted = Enactment(opened, at, secrets)
    thread = Thread(enacted, "host")
    for part in _fed(host, thread, enacted, host.model):
        thread.take(part)
        await writing.add(session, enacted.take())
    thread.finish()
    await writing.add(session, enacted.take())
    await writing.flush()


def _profiles(host: Conversation) -> tuple[Json, ...]:
    found: dict[str, Profile] = {}
    for one in host.family():
        tools = {**one.tools, **_called(one)}
        agents = tuple(dict.fromkeys(child.name for child in one.agents.values()))
        model = None if one.model in ("", host.model) else ModelSpec(one.model)
        instructions = NULL if one.instructions is None else to_json(one.instructions)
        made = Profile(one.name, "", instructions, tuple(tools.values()), agents=agents, model=model)
        found[one.name] = _both(found[one.name], made) if one.name in found else made
    return tuple(Json(encode(one)) for one in found.values())


def _both(first: Profile, second: Profile) -> Profile:
    """Return the profile of two agents of one name."""
    tools = {tool.name: tool for tool in (*second.tools, *first.tools)}
    agents = tuple(dict.fromkeys((*first.agents, *second.agents)))
    return msgspec.structs.replace(first, tools=tuple(tools.values()), agents=agents)


def _called(one: Conversation) -> dict[str, ToolSpec]:
    """Return the tools that an agent called and no request listed."""
    said = (block for part in one.parts if isinstance(part, Said) for block in part.blocks)
    uses = (block for block in said if block.get("type") == "tool_use" and block["id"] not in one.agents)
    return {use["name"]: tool_of(use["name"]) for use in uses if use["name"] not in one.tools}


def _fed(one: Conversation, thread: Thread, enacted: Enactment, model: str) -> Iterator[Part]:
    """Yield the parts of a conversation, and feed those of its sub-agents where their calls are answered."""
    open_tasks: list[str] = []
    for part in one.parts:
        if isinstance(part, Said):
            _feed_all(one, thread, enacted, model, open_tasks)
            open_tasks = _as_tasks(one, part)
            part.model = "" if part.model == model else part.model
        elif isinstance(part, Returned) and part.call in open_tasks:
            open_tasks.remove(part.call)
            _feed_all(one, thread, enacted, model, [part.call])
        yield part
    _feed_all(one, thread, enacted, model, open_tasks)


def _feed_all(one: Conversation, thread: Thread, enacted: Enactment, model: str, calls: list[str]) -> None:
    for call in calls:
        child = thread.children.setdefault(call, Thread(enacted))
        own = one.agents[call]
        for part in _fed(own, child, enacted, own.model or model):
            child.take(part)


def _as_tasks(one: Conversation, said: Said) -> list[str]:
    """Write the calls of sub-agents as those of `task`, and return their ids."""
    found: list[str] = []
    for place, block in enumerate(said.blocks):
        if block.get("type") == "tool_use" and block["id"] in one.agents:
            found.append(block["id"])
            said.blocks[place] = _task(block, one.agents[block["id"]], said)
    return found


def _task(block: Block, agent: Conversation, said: Said) -> Block:
    first = next((part for part in agent.parts if isinstance(part, Words)), None)
    given = block["input"].get("prompt")
    prompt = given if isinstance(given, str) and given.strip() else text_in(first.blocks) if first else ""
    task = {"agent": agent.name, "prompt": (prompt.strip() and prompt) or "(nothing)"}
    if block["name"] != "task" or block["input"] != task:
        said.differs += (f"the call {block['id']} was {block['name']}({encode(block['input']).decode()})",)
    return {"type": "tool_use", "id": block["id"], "name": "task", "input": task}
