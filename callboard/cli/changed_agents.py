"""The agents of a session as `module:agent` has them now, from a process that cannot reach out."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.cli.errors import FAILED, Failure, misused
from callboard.cli.offline_process import Bind, CheckRuns, Describe, Described, OfflineProcess
from callboard.replay.changed.compared import profile_name
from callboard.replay.changed.result import AgentsNow, ChangedReplay
from callboard.replay.recording import Recording
from callboard.runtime.programs.checking import RecordedAgent, RunCheck
from callboard.runtime.programs.history import read_step
from callboard.runtime.schemas.engine import Engine

TIMEOUT_S: Final = 30.0
"""Seconds that a task of the agents' process may take, such as the steps of all programs of a session."""

_profile: Final = msgspec.json.Decoder(JsonObject).decode


def replay_with(
    recording: Recording, spec: str, timeout_s: float = TIMEOUT_S, folder: str | None = None
) -> ChangedReplay:
    """Replay a recording with the agents of `module:agent`. Nothing is called, and nothing is written.

    timeout_s: seconds that each task of the process may take. folder: where the module is looked for first;
    None for the current one. Raises Failure if the agents cannot be loaded.
    """
    with OfflineProcess(spec, folder) as child:
        return recording.against(_agents_now(recording, child, timeout_s))


def _agents_now(recording: Recording, child: OfflineProcess, timeout_s: float) -> AgentsNow:
    found = child.ask(Describe(), Described, timeout_s) or _late(timeout_s)
    if found.error:
        raise misused(found.error)
    opened = recording.event(1).body
    assert isinstance(opened, SessionOpened)

    def accepts(agent: str, tool: str, arguments: Json) -> str:
        why = child.ask(Bind(agent, tool, arguments), str, timeout_s)
        return _late(timeout_s) if why is None else why

    return AgentsNow(
        found.host,
        tuple(with_listed(found, opened)),
        found.model,
        found.state,
        accepts,
        Engine().check,
        _differing_steps(recording, child, timeout_s),
    )


def _late(timeout_s: float) -> Any:
    raise Failure(
        f"the process of the agents ended, or did not finish within {timeout_s:g} s (--timeout)", FAILED
    )


def with_listed(found: Described, opened: SessionOpened) -> Iterator[Json]:
    """Yield the profiles; the tools that MCP servers list are taken as they were recorded."""
    recorded = {one["name"]: one.get("tools", ()) for one in map(_profile, opened.profiles)}
    for raw in found.profiles:
        mine = _profile(raw)
        if mine["name"] in found.listed and mine["name"] in recorded:
            yield Json(msgspec.json.encode({**mine, "tools": _joined(mine, recorded[mine["name"]])}))
        else:
            yield raw


def _joined(mine: JsonObject, recorded: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the tools of a profile, and those of the recorded ones that were listed elsewhere."""
    own = mine.get("tools", ())
    known = {tool["name"] for tool in own}
    return [*own, *(tool for tool in recorded if tool.get("origin") and tool["name"] not in known)]


# --- programs ---------------------------------------------------------------------------


@dataclass
class _Run:
    """A recorded run of a program. seqs: of the replies, by the numbers of their steps. last: the latest."""

    address: str
    program: str
    seqs: dict[int, int] = field(default_factory=dict)
    last: Event | None = None


def _differing_steps(
    recording: Recording, child: OfflineProcess, timeout_s: float
) -> Mapping[int, tuple[str, str]]:
    """Execute each recorded run of a program again. Return the steps that differ, by their replies' seqs."""
    runs = _runs(recording)
    if not runs:
        return {}
    agents = tuple(_recorded(recording, run) for run in runs)
    checks = child.ask(CheckRuns(agents), tuple[RunCheck, ...], timeout_s) or _late(timeout_s)
    pairs = zip(runs, checks, strict=True)
    return {
        run.seqs[check.step]: (check.recorded, check.now)
        for run, check in pairs
        if check.result == "diverged"
    }


def _runs(recording: Recording) -> list[_Run]:
    programs: dict[str, str] = {}
    found: defaultdict[tuple[str, str], _Run] = defaultdict(lambda: _Run("", ""))
    for event in recording.events:
        body, agent = event.body, event.recipient
        if isinstance(body, Begin):
            programs.pop(agent, None)
            if body.model.is_program:
                programs[agent] = profile_name(body)
        elif isinstance(body, ModelReplied) and body.status == "ok" and agent in programs:
            head = read_step(body.content).head
            run = found[agent, head.run]
            run.address, run.program, run.last = agent, programs[agent], event
            run.seqs[head.step] = event.seq
    return [*found.values()]


def _recorded(recording: Recording, run: _Run) -> RecordedAgent:
    assert run.last is not None
    body = run.last.body
    assert isinstance(body, ModelReplied)
    said = Json(b'{"role":"assistant","content":' + bytes(body.content) + b"}")
    messages = recording.request(run.last.seq).messages
    return RecordedAgent(run.address, run.program, (*messages, said))
