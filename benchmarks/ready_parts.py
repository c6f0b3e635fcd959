"""The time of a ready context, and of a long-term memory.

    python benchmarks/ready_parts.py FOLDER [--rounds 30]

Prints one row of JSON, in milliseconds of processor time, the least of all rounds. brief, transcript,
history: the contexts of a parent with 500 turns, with the view of its state; the bound of each is 5. history
has its check for the log, too; all is a history of all 1,001 messages; begin is the sub-agent's first
decision with a history. remember, recall: in a memory of 10,000 texts of 30 words; a query has three.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from callboard import Agent, Brief, History, Transcript, WholeHistory, tool
from callboard.actors.agent.decider import decide_agent
from callboard.actors.agent.request_prefix import prefix_for
from callboard.actors.agent.state import AgentState, initial_agent
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Delegate
from callboard.actors.protocol.port_messages import MakeContext
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.session.contexts import ContextRequest, view_of
from callboard.memory import MemoryEntry, SQLiteMemory
from callboard.runtime.contexts import made_context

TURNS = 500
TEXTS = 10_000


def _message(role: str, content: object) -> Json:
    return Json(msgspec.json.encode({"role": role, "content": content}))


def parent() -> AgentState:
    """Return the state of an agent that has called a tool in each of its turns."""
    history = IntMap[Json]().append(_message("user", "Read it all."))
    for turn in range(TURNS):
        given = {"path": f"src/module_{turn}.py"}
        said = {"type": "text", "text": f"Now I read module {turn}. " * 5}
        use = {"type": "tool_use", "id": f"t{turn}", "name": "read_file", "input": given}
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": "A line of text.\n" * 60}
        for role, content in (("assistant", [said, use]), ("user", [result])):
            history = history.append(_message(role, content))
    history = history.append(_message("assistant", "I delegate."))
    begin = Begin(Json(encode(Agent("host").profile())), text_json("go"), ModelSpec("m"), Limits())
    return AgentState("host", prefix=prefix_for(begin), history=history)


def view(state: AgentState) -> ContextRequest:
    """Return the view of a parent that delegates now."""
    asked = Delegate(1, 0, ("kid",), text_json("Read it."), messages=len(state.history))
    found = view_of(state, asked, MakeContext("host", 1, "kid", 9))
    assert found is not None
    return found


def handed(state: AgentState, tokens: int = 50_000) -> History:
    """Return the history of a parent, checked for the log."""
    return made_context(WholeHistory(tokens)(view(state)))


def beginning(history: History) -> Callable[[], object]:
    """Return the first decision of a sub-agent that is handed a history."""
    raw = Json(encode(Agent("kid", tools=[look]).profile()))
    begin = Begin(raw, text_json("go"), ModelSpec("m"), Limits(), history=history.messages)
    begin = replace(begin, makers=history.makers, context=history.note)
    return lambda: decide_agent(initial_agent("host.1"), 1, begin)


@tool(effect="read")
def look(path: str) -> str:
    """Look at a file."""
    return path


def least_ms(work: Callable[[], object], rounds: int) -> float:
    """Return the milliseconds of processor time of one call, the least of all rounds."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return round(min(found) * 1_000, 3)


def filled(path: Path) -> SQLiteMemory:
    """Return a memory with texts of chance words."""
    memory, chance = SQLiteMemory(path), random.Random(1)
    for number in range(TEXTS - 100):
        words = " ".join(f"word{chance.randrange(2_000)}" for _ in range(30))
        memory.remember("shared", MemoryEntry(f"id{number}", words))
    return memory


def main() -> None:
    """Measure all, and print a row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    state, memory = parent(), filled(args.folder / "memory.db")
    new = iter(range(args.rounds))
    row = {
        "brief_ms": least_ms(lambda: Brief()(view(state)), args.rounds),
        "transcript_ms": least_ms(lambda: Transcript()(view(state)), args.rounds),
        "history_ms": least_ms(lambda: handed(state), args.rounds),
        "history_all_ms": least_ms(lambda: handed(state, 2_000_000), args.rounds),
        "begin_ms": least_ms(beginning(handed(state)), args.rounds),
        "remember_ms": least_ms(
            lambda: memory.remember("shared", MemoryEntry(f"new{next(new)}", "word7 is new")), args.rounds
        ),
        "recall_ms": least_ms(lambda: memory.recall("shared", "word7 word8 word9", 10), args.rounds),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
