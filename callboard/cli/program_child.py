"""The process in which `check-program` executes programs: no sockets, no subprocesses, no log.

It reads one line of JSON for each session from stdin and writes one line with the checks of its runs. The
first line that it writes is empty, or says why the programs cannot be loaded.
"""

import os
import sys
from typing import BinaryIO, Final

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.cli.errors import Failure
from callboard.cli.loading import load_agent
from callboard.runtime.agent import roster
from callboard.runtime.programs.checking import RunCheck, check_run
from callboard.runtime.programs.program import Program

_REFUSED: Final = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork")


class RecordedAgent(msgspec.Struct, frozen=True):
    """A program's agent of a session: its place, its program's name, and its conversation."""

    address: str
    program: str
    messages: tuple[Json, ...]


class Loaded(msgspec.Struct, frozen=True):
    """The result of loading the programs. error: the reason if they cannot be loaded."""

    error: str = ""
    exit_code: int = 0


def refuse_acts(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse an event of Python's audit that reaches outside of the process. Raises PermissionError."""
    if event.startswith(_REFUSED):
        raise PermissionError(
            f"{event}: check-program runs without network and subprocesses; a program and its module may use "
            "them in tools only"
        )


def main(spec: str) -> None:
    """Check the sessions on stdin with the programs that `module:agent` reaches."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of the user's module must not stand between the lines
    sys.addaudithook(refuse_acts)
    try:
        agents = roster(load_agent(spec))
    except Failure as failure:
        _write(out, Loaded(failure.message, failure.exit_code))
        return
    _write(out, Loaded())
    programs = {name: one for name, one in agents.items() if isinstance(one, Program)}
    for line in sys.stdin.buffer:
        recorded = msgspec.json.decode(line, type=tuple[RecordedAgent, ...])
        _write(out, [_checked(programs, one) for one in recorded])


def _checked(programs: "dict[str, Program[object]]", one: RecordedAgent) -> RunCheck:
    return check_run(programs.get(one.program), one.program, one.address, one.messages)


def _write(out: BinaryIO, value: object) -> None:
    out.write(msgspec.json.encode(value) + b"\n")
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
