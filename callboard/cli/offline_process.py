"""A process that loads a user's agents and cannot reach out, as the commands use it that call no model.

The process in which a user's agents are loaded and executed: no sockets, no subprocesses, no log.

It reads one task of JSON a line from stdin and writes one line with its result. The first line that it writes
is empty, or says why the agents cannot be loaded.
"""

import os
import subprocess
import sys
import threading
from types import TracebackType
from typing import BinaryIO, Final, Self, TypeAlias, TypeVar

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import CallboardError, InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey
from callboard.cli.errors import FAILED, Failure, failure_of
from callboard.cli.loading import load_agent
from callboard.runtime.agent import Agent, roster
from callboard.runtime.programs.checking import RecordedAgent, RunCheck, check_run
from callboard.runtime.programs.program import Program
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.shared_state import declared

T = TypeVar("T")
_START_S: Final = 60.0  # seconds to load the user's modules
_REFUSED: Final = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork")


class CheckRuns(msgspec.Struct, frozen=True, tag=True):
    """A task: execute the last run of each program again. The result is a list of `RunCheck`."""

    agents: tuple[RecordedAgent, ...]


class Describe(msgspec.Struct, frozen=True, tag=True):
    """A task: describe the agents. The result is a `Described`."""


class Bind(msgspec.Struct, frozen=True, tag=True):
    """A task: bind arguments to a tool of an agent. The result is the text of the refusal, or ''."""

    agent: str
    tool: str
    arguments: Json


Task: TypeAlias = CheckRuns | Describe | Bind


class Loaded(msgspec.Struct, frozen=True):
    """The result of loading the agents. error: the reason if they cannot be loaded."""

    error: str = ""
    exit_code: int = 0


class Described(msgspec.Struct, frozen=True):
    """The agents as a log describes them. model: of the host; None if it has none, or is a program.

    listed: the names of the agents with tools that MCP servers list, which are not known here.
    """

    host: str
    profiles: tuple[Json, ...]
    model: ModelSpec | None
    state: tuple[StateKey, ...]
    listed: tuple[str, ...]
    error: str = ""


def refuse_acts(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse an event of Python's audit that reaches outside of the process. Raises PermissionError."""
    if event.startswith(_REFUSED):
        raise PermissionError(
            f"{event}: agents are loaded and executed here without network and subprocesses; a program and "
            "its module may use them in tools only"
        )


def main(spec: str) -> None:
    """Do the tasks on stdin with the agents that `module:agent` reaches."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of the user's module must not stand between the lines
    # A module that is changed twice in a second, with the same length, would be taken from its old bytecode.
    sys.dont_write_bytecode = True
    sys.addaudithook(refuse_acts)
    try:
        host = load_agent(spec)
        agents = roster(host)
    except (Failure, CallboardError) as error:
        failure = error if isinstance(error, Failure) else failure_of(error)
        _write(out, Loaded(failure.message, failure.exit_code))
        return
    _write(out, Loaded())
    for line in sys.stdin.buffer:
        _write(out, _done(host, agents, msgspec.json.decode(line, type=Task)))


def _done(host: Agent, agents: dict[str, Agent], task: Task) -> object:
    if isinstance(task, CheckRuns):
        return [_checked(agents, one) for one in task.agents]
    if isinstance(task, Bind):
        return _refusal(agents, task)
    return _described(host, agents)


def _checked(agents: dict[str, Agent], one: RecordedAgent) -> RunCheck:
    found = agents.get(one.program)
    program = found if isinstance(found, Program) else None
    return check_run(program, one.program, one.address, one.messages)


def _refusal(agents: dict[str, Agent], task: Bind) -> str:
    tool = agents[task.agent].tools.get(task.tool) if task.agent in agents else None
    if tool is None:
        return ""
    try:
        tool.bind(task.arguments, ToolContext(address="", tool=task.tool, call_id="", idempotency_key=""))
    except InvalidPrompt as error:
        return str(error)
    return ""


def _described(host: Agent, agents: dict[str, Agent]) -> Described:
    profiles = tuple(Json(encode(one.profile())) for one in agents.values())
    listed = tuple(name for name, one in agents.items() if one.sources)
    state, error = _state(agents)
    return Described(host.name, profiles, _model(host), state, listed, error)


def _model(host: Agent) -> ModelSpec | None:
    own = host.model.spec if host.model is not None else None
    return None if own is None or own.is_program else own


def _state(agents: dict[str, Agent]) -> tuple[tuple[StateKey, ...], str]:
    """Return the keys of the shared state, and why they do not go together; '' if they do."""
    try:
        return declared({name: one.state for name, one in agents.items()}), ""
    except CallboardError as refused:
        return (), str(refused)


def _write(out: BinaryIO, value: object) -> None:
    out.write(msgspec.json.encode(value) + b"\n")
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1])


class OfflineProcess:
    """The process that executes tasks with the agents of `module:agent`. One over its time is replaced.

    folder: in which it runs, where modules are looked for first; None for the current one. Entering it raises
    Failure if the agents cannot be loaded.
    """

    def __init__(self, spec: str, folder: str | None = None) -> None:
        self._spec = spec
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def ask(self, task: Task, kind: type[T], timeout_s: float) -> T | None:
        """Let the process do a task; None if that takes longer than `timeout_s` seconds, or ends it.

        kind: of the result.
        """
        process = self._process or self._start()
        line = self._answer(process, msgspec.json.encode(task) + b"\n", timeout_s)
        if line:
            return msgspec.json.decode(line, type=kind)
        self._end()
        return None

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "callboard.cli.offline_process", self._spec]
        process = self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self._folder
        )
        line = self._answer(process, b"", _START_S)
        loaded = msgspec.json.decode(line, type=Loaded) if line else Loaded("its process ended", FAILED)
        if loaded.error:
            self._end()
            raise Failure(loaded.error, loaded.exit_code)
        return process

    def _answer(self, process: "subprocess.Popen[bytes]", line: bytes, limit_s: float) -> bytes:
        """Send a line and return the next one of the process; nothing if it was killed at the limit."""
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return b""
        finally:
            timer.cancel()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
