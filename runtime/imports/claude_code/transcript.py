"""The sessions in the transcripts of one Claude Code session, line by line.

    the main conversation             the host's
    a call that begins a sub-agent    a delegation; the sub-agent's lines are in the same file, as a side
                                      chain, or in `agent-ID.jsonl`, tied to it by its id or the prompt
    a compaction                      a session of its own that names the one that it continues
    a rewind                          a fork, at the last moment without a running ask before its parent
    a sub-agent without its call      a session of its own: one in the background, or a compaction's

Rules
  - Lines with an id that has been read are left out: programs copy lines when they resume.
  - A prompt whose parent has been answered already is a rewind. Results and replies are never one: lines of
    parallel calls have parents of their own.
"""

from collections.abc import Mapping
from typing import Final

from callboard.actors.protocol.client_messages import RULES, Forked, Resumed, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.runtime.imports.claude_code.lines import (
    Line,
    agent_of,
    blocks_of,
    is_message,
    is_prompt,
    is_side,
    parts_of,
    time_of,
)
from callboard.runtime.imports.claude_code.scan import HOST, Scan, agent_name
from callboard.runtime.imports.enactment import NO_LIMITS, Enactment
from callboard.runtime.imports.pieces import text_in
from callboard.runtime.imports.thread import Thread
from callboard.runtime.imports.traffic import Block, Part, Said
from callboard.runtime.imports.writing import Writing
from callboard.runtime.sanitize import to_json
from callboard.runtime.secrets.registry import Secrets

FORMAT: Final = "claude-code"
_MAIN: Final = ""


class NewNames(Exception):
    """A call of a tool or a sub-agent that the first event does not state."""


class _Segment:
    """One session that the transcript makes. host: its main conversation. threads: those of sub-agents."""

    def __init__(self, session: str, enacted: Enactment, at: str) -> None:
        self.session, self.enacted = session, enacted
        self.host = Thread(enacted, "host", at)
        self.tasks: dict[str, tuple[Thread, str]] = {}  # calls that wait for a transcript: caller, prompt
        self.bound: dict[str, Thread] = {}


class Transcript:
    """The sessions of one Claude Code session.

    session: its id. name: of its file. scan: the names in it. start: its time if its lines have none.
    left_out: the numbers of lines, by the reason.
    """

    def __init__(
        self, writing: Writing, scan: Scan, session: str, name: str, secrets: Secrets, start: int
    ) -> None:
        self._writing, self._scan, self._session, self._name = writing, scan, session, name
        self._secrets, self._start = secrets, start
        self._segments: list[_Segment] = []
        self._others: dict[str, _Segment] = {}
        self._threads: dict[str, tuple[_Segment, Thread]] = {}
        self._parents: dict[str, str] = {}
        self._places: dict[str, tuple[_Segment, int]] = {}
        self._roots: dict[str, str] = {}
        self._is_compacted = False
        self.left_out: dict[str, int] = {}

    # --- lines ------------------------------------------------------------------------

    async def take(self, line: Line, agent: str = "") -> None:
        """Take the next line. agent: the id of the sub-agent whose file it is of; empty for the main file."""
        uuid = line.uuid if isinstance(line.uuid, str) else ""
        if uuid and uuid in self._parents:
            self._leave_out("lines with an id that came before")
            return
        self._parents[uuid] = line.parentUuid if isinstance(line.parentUuid, str) else ""
        if not is_message(line):
            self._is_compacted |= line.subtype == "compact_boundary" and not is_side(line) and not agent
            return
        if is_side(line) or agent:
            await self._take_side(line, uuid, agent)
        else:
            await self._take_main(line, uuid)

    async def _take_main(self, line: Line, uuid: str) -> None:
        segment = await self._segment_for(line)
        parts = [self._known(segment, segment.host, part) for part in parts_of(line)]
        for part in parts:
            segment.host.take(part)
        self._places[uuid] = segment, segment.host.rounds
        await self._store(segment)

    async def _segment_for(self, line: Line) -> _Segment:
        """Return the session that a line of the main conversation belongs to."""
        at, last = time_of(line) or self._start, self._segments[-1] if self._segments else None
        if last is None:
            return await self._open(self._session, at, {})
        if line.isCompactSummary is True or self._is_compacted:
            self._is_compacted = False
            await self._end(last)
            name = f"{self._session}.{len(self._segments) + 1}"
            return await self._open(name, at, {"continues": last.session, "because": "compaction"})
        found = self._place_of(line) if is_prompt(line) else None
        if found is not None and (found[0] is not last or found[1] < last.host.rounds):
            await self._end(last)
            return await self._rewind(at, *found)
        return last

    def _place_of(self, line: Line) -> tuple[_Segment, int] | None:
        """Return the place of the nearest message above a line; None for none."""
        parent = line.parentUuid if isinstance(line.parentUuid, str) else ""
        seen = 0
        while parent and parent not in self._places and seen < len(self._parents):
            parent, seen = self._parents.get(parent, ""), seen + 1
        return self._places.get(parent)

    # --- sub-agents -------------------------------------------------------------------

    async def _take_side(self, line: Line, uuid: str, agent: str) -> None:
        key = agent or agent_of(line) or self._root_of(line, uuid)
        if key not in self._threads:
            self._threads[key] = self._bound(line, key) or await self._alone(line, key)
        segment, thread = self._threads[key]
        for part in parts_of(line):
            thread.take(self._known(segment, thread, part))
        await self._store(segment)

    def _root_of(self, line: Line, uuid: str) -> str:
        """Return the first line of a side chain, by which its sub-agent is known."""
        parent = line.parentUuid if isinstance(line.parentUuid, str) else ""
        root = self._roots.get(parent, uuid or "side chain")
        self._roots[uuid] = root
        return root

    def _bound(self, line: Line, key: str) -> tuple[_Segment, Thread] | None:
        """Tie a sub-agent to the call that began it; None for one whose call is not here."""
        call, prompt = self._scan.calls.get(key, ""), text_in(blocks_of(line)).strip()
        for segment in reversed(self._segments):
            if call and call in segment.bound:
                return segment, segment.bound[call]
            by_prompt = [one for one, (_, given) in segment.tasks.items() if given.strip() == prompt]
            likely = by_prompt or ([*segment.tasks] if len(segment.tasks) == 1 else [])
            found = call if call in segment.tasks else "" if call or not likely else likely[0]
            if found:
                caller, _ = segment.tasks.pop(found)
                thread = caller.children.get(found)
                if thread is None:
                    thread = caller.children[found] = Thread(segment.enacted)
                segment.bound[found] = thread
                return segment, thread
        return None

    async def _alone(self, line: Line, key: str) -> tuple[_Segment, Thread]:
        about = {"part_of": self._session, "because": "a sub-agent whose call is not in the transcript"}
        segment = await self._begin(f"{self._session}.agent-{key}", time_of(line) or self._start, about)
        self._others[key] = segment
        return segment, segment.host

    # --- sessions -----------------------------------------------------------------------

    async def _open(self, session: str, at: int, about: Mapping[str, object]) -> _Segment:
        segment = await self._begin(session, at, about)
        self._segments.append(segment)
        return segment

    async def _begin(self, session: str, at: int, about: Mapping[str, object]) -> _Segment:
        source = {"format": FORMAT, "session": self._session, "file": self._name, **self._scan.about, **about}
        opened = SessionOpened(
            RULES,
            HOST,
            self._scan.profiles(),
            self._scan.spec,
            NO_LIMITS,
            tags=("imported",),
            metadata=to_json(source),
            imported=FORMAT,
        )
        await self._writing.begin(session, at)
        return _Segment(session, Enactment(opened, at, self._secrets), "")

    async def _rewind(self, at: int, origin: _Segment, rounds: int) -> _Segment:
        """Begin a fork. rounds: the number of the origin's replies that come before it."""
        marks = [(1, True), *origin.host.marks[:rounds]]
        base = max(seq for seq, is_idle in marks if is_idle)
        name = f"{self._session}.{len(self._segments) + 1}"
        shared = await self._writing.shared(origin.session, base)
        digest = await self._writing.digest(origin.session, base)
        forked = Forked(origin.session, base, digest, Resumed(RULES), host=HOST, imported=FORMAT)
        enacted = Enactment(forked, at, self._secrets, shared)
        segment = _Segment(name, enacted, f"{len(self._segments) + 1}-")
        segment.host.marks = [one for one in origin.host.marks[:rounds] if one[0] <= base]
        segment.host.rounds = len(segment.host.marks)
        await self._writing.begin_fork(name, at, origin.session, base, enacted.take())
        self._segments.append(segment)
        return segment

    async def _end(self, segment: _Segment) -> None:
        segment.host.finish()
        await self._store(segment)

    async def _store(self, segment: _Segment) -> None:
        if events := segment.enacted.take():
            await self._writing.add(segment.session, events)

    async def settle(self) -> None:
        """Enact the messages that seem whole: those with an end, or with a result."""
        for segment in (*self._segments, *self._others.values()):
            for thread in (segment.host, *segment.host.family()):
                thread.settle()
            await self._store(segment)

    async def finish(self) -> None:
        """Enact all that was taken, and store it."""
        for segment in (*self._segments, *self._others.values()):
            await self._end(segment)
            for thread in (segment.host, *segment.host.family()):
                if thread.left_out:
                    self._leave_out("messages of a sub-agent after its end", thread.left_out)
                    thread.left_out = 0
        await self._writing.flush()

    # --- calls ----------------------------------------------------------------------------

    def _known(self, segment: _Segment, thread: Thread, part: Part) -> Part:
        """Return a part whose calls the session's agents have. Raises NewNames."""
        if not isinstance(part, Said):
            return part
        blocks, differs = [], []
        for block in part.blocks:
            if block.get("type") == "tool_use":
                if not self._scan.knows(block):
                    raise NewNames
                if self._scan.is_task(block):
                    segment.tasks[block["id"]] = thread, block["input"]["prompt"]
                    differs.append(
                        f"the call {block['id']} was {block['name']}({encode(block['input']).decode()})"
                    )
                    block = _as_task(block)
            blocks.append(block)
        part.blocks, part.differs = blocks, tuple(differs)
        part.model = "" if part.model == self._scan.model else part.model
        return part

    def _leave_out(self, why: str, count: int = 1) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + count


def _as_task(block: Block) -> Block:
    """Return the call of a sub-agent as one of `task`."""
    given = block["input"]
    arguments = {"agent": agent_name(given.get("subagent_type")), "prompt": given["prompt"]}
    if isinstance(given.get("description"), str):
        arguments["description"] = given["description"]
    return {"type": "tool_use", "id": block["id"], "name": "task", "input": arguments}
