"""The guard of one command: a process of its own, which ends the command with all that it has started.

    python -I -S guard.py PLAN

It imports nothing of callboard, so that it starts in a few milliseconds. PLAN is the descriptor of a file
with a JSON object: `command`, `env`, `folder` (a descriptor), `report` (a descriptor), `timeout_s`,
`processes_max`, `grace_s`. A command line would show the values of `env` to every user of the machine.

The command runs in a session of its own. It ends when its first process ends, when `timeout_s` is over, when
there are too many processes, or when standard input ends: the caller closes it, or has ended. Linux makes the
guard the parent of processes whose own parent has ended, also of those in another session, so it finds them
all. Elsewhere only the process group is ended.

The command has the rights of the guard, so it can stop it by SIGSTOP, and write into its report. The caller
has a limit of its own for that reason, and Linux continues the guard when the caller ends.

The report has two lines: the id of the first process, written before that runs the command, and a JSON object
with `ended`, `code` and `left`.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # of prctl
_STEP_S = 0.02
_KILL_S = 5.0  # after which a process that cannot be killed is left, and reported
_PASSES_MAX = 1_000


def main() -> None:
    """Run the command of the plan, end it, and report."""
    with open(int(sys.argv[1]), "rb") as file:  # noqa: PTH123  # closed before the command could read it
        plan: Mapping[str, Any] = json.loads(file.read())
    os.set_inheritable(plan["report"], False)
    os.set_inheritable(plan["folder"], False)
    _prctl(_SUBREAPER, 1)
    _prctl(_DEATH_SIGNAL, signal.SIGCONT)  # SIGTERM would wait for a guard that is stopped
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGCONT):
        signal.signal(number, lambda *_: stopped.append(1))
    first = _started(plan)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # so that the output ends with the command
    watch = _Watch(first, plan, stopped)
    ended = "stopped"
    try:
        ended = watch.wait()
    finally:  # also after a fault of the guard itself
        _end(first, ended, plan["grace_s"], watch)
    said = {"ended": ended, "code": watch.code, "left": len(below(os.getpid()))}
    _tell(plan["report"], json.dumps(said).encode())


def _tell(report: int, said: bytes) -> None:
    with contextlib.suppress(OSError):  # the caller has ended, and the command must end too
        os.write(report, said)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _started(plan: Mapping[str, Any]) -> int:
    guard = os.getpid()
    waits, go = os.pipe()
    first = os.fork()
    if first:
        # The command runs after that, so that no report of its own comes first.
        _tell(plan["report"], b"%d\n" % first)
        os.close(waits)
        os.close(go)
        return first
    try:
        os.close(go)
        os.read(waits, 1)
        os.setsid()
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != guard:  # it ended before the line above
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.fchdir(plan["folder"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(plan["command"][0], plan["command"], plan["env"])
    except OSError as error:
        os.write(2, f"cannot start {plan['command'][0]}: {os.strerror(error.errno or 0)}\n".encode())
    finally:
        os._exit(127)


class _Watch:
    """Waits for the end of a command. code: of its first process, negative for a signal; None before."""

    def __init__(self, first: int, plan: Mapping[str, Any], stopped: list[int]) -> None:
        self.code: int | None = None
        self._first = first
        self._stopped = stopped
        self._ends_at = time.monotonic() + plan["timeout_s"]
        self._processes_max = plan["processes_max"]

    def wait(self) -> str:
        """Return the reason of the end."""
        while not (reason := self._reason()):
            pass
        return reason

    def _reason(self) -> str:
        """Wait for a moment. Return the reason of the end; empty if the command goes on."""
        readable, _, _ = select.select([0], [], [], _STEP_S)
        self.reap()
        if self.code is not None:
            return "exited"
        if self._stopped or (readable and _is_at_end(0)):
            return "stopped"
        if time.monotonic() > self._ends_at:
            return "timeout"
        return "processes" if len(below(os.getpid())) > self._processes_max else ""

    def reap(self) -> bool:
        """Take in the processes that have ended. Return True if there are no others."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return False
                if pid == self._first:
                    self.code = os.waitstatus_to_exitcode(status)
        return True


def _end(first: int, ended: str, grace_s: float, watch: _Watch) -> None:
    """End all processes of the command: with a request first, unless it has ended by itself."""
    if ended in ("stopped", "timeout"):
        _ask(first, grace_s, watch)
    _signal_group(first, signal.SIGKILL)
    until = time.monotonic() + _KILL_S
    while not watch.reap() and time.monotonic() < until:
        kill_below(os.getpid())
        time.sleep(_STEP_S / 10)


def _is_at_end(file: int) -> bool:
    return not os.read(file, 1)


def _ask(first: int, grace_s: float, watch: _Watch) -> None:
    """Ask the processes to end, and wait for that."""
    _signal_group(first, signal.SIGTERM)
    until = time.monotonic() + grace_s
    while time.monotonic() < until and not watch.reap():
        time.sleep(_STEP_S / 4)


def _signal_group(first: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(first, number)


def kill_below(parent: int) -> set[int]:
    """Kill all processes below this one. Return them."""
    # All are held before one is killed: those that fork faster than they die would go on.
    held: set[int] = set()
    for _ in range(_PASSES_MAX):
        new = below(parent) - held
        if not new:
            break
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        held |= new
    for pid in held:
        _signal(pid, signal.SIGKILL)
    return held


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def below(pid: int) -> set[int]:
    """Return the processes below this one; none where the system does not tell."""
    found: set[int] = set()
    ahead = [pid]
    while ahead:
        new = _children(ahead.pop()) - found
        found |= new
        ahead += new
    return found


def _children(pid: int) -> set[int]:
    children: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # pathlib takes long to import
            with open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123  # the same
                children.update(map(int, file.read().split()))
    return children


if __name__ == "__main__":
    main()
