"""The guard of one command: a process of its own, which ends the command with all that it has started.

    python -I -S guard.py PLAN

It imports nothing of callboard, so that it starts in a few milliseconds. PLAN is the descriptor of a file
with a JSON object: `command`, `env`, `folder`, `report` and `life` (descriptors), `timeout_s`,
`processes_max`, `grace_s`. A command line would show the values of `env` to every user of the machine.

The command runs in a session of its own. It ends when its first process ends, when `timeout_s` is over, when
there are too many processes, or when standard input ends: the caller closes it, or has ended. Linux makes the
guard the parent of processes whose own parent has ended, also of those in another session, so it finds them
all. Elsewhere only the process group is ended.

The command has the rights of the guard, so it can stop it by SIGSTOP, and write into its report. The caller
ends a command whose guard is stopped. When the caller itself ends, Linux kills the process groups of the
command and continues the guard (`_Cords`), which ends what is left.

The report has two lines: the id of the first process, written before that runs the command, and a JSON object
with `ended`, `code` and `left`.
"""

import _socket  # without the module `socket`, which takes as long to import as all others together
import array
import contextlib
import ctypes
import fcntl
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
_CORDS = 16  # process groups at a time that Linux kills when the caller ends


def main() -> None:
    """Run the command of the plan, end it, and report."""
    with open(int(sys.argv[1]), "rb") as given:  # noqa: PTH123  # closed before the command could read it
        plan: Mapping[str, Any] = json.loads(given.read())
    for file in (plan["report"], plan["folder"], plan["life"]):
        os.set_inheritable(file, False)
    cords = _Cords(plan["life"])
    _prctl(_SUBREAPER, 1)
    _prctl(_DEATH_SIGNAL, signal.SIGCONT)  # SIGTERM would wait for a guard that is stopped
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGCONT):
        signal.signal(number, lambda *_: stopped.append(1))
    first = _started(plan, cords)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # so that the output ends with the command
    watch = _Watch(first, plan, stopped, cords)
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


class _Cords:
    """Sockets whose other ends belong to the caller: Linux sends a signal along each when they are closed.

    The command can stop the guard again and again, so that it never runs. Linux needs no process to send
    these signals. The other ends wait in the caller's socket `life`, unread, and close with it. A pipe would
    not do: the command could open it again through /proc, and keep it from ending.
    """

    def __init__(self, life: int) -> None:
        self._free: list[_socket.socket] = []
        self._held: dict[int, _socket.socket] = {}
        self._kept: list[_socket.socket] = [_socket.socket(fileno=life)]
        if sys.platform != "linux":
            return
        pairs = [_socket.socketpair() for _ in range(_CORDS + 2)]
        ends = array.array("i", [theirs.fileno() for _, theirs in pairs])
        self._kept[0].sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, ends)])
        for _, theirs in pairs:
            theirs.close()
        first, *self._free, last = [ours for ours, _ in pairs]
        # Whichever end is closed last, the guard goes on after the groups are dead.
        self._kept += [first, last]
        for ours in (first, last):
            _signalled(ours, os.getpid(), signal.SIGCONT)

    def hold(self, groups: set[int]) -> None:
        """Have these process groups killed when the caller ends, and no others."""
        for group in self._held.keys() - groups:
            self._free.append(self._held.pop(group))
            fcntl.fcntl(self._free[-1], fcntl.F_SETOWN, 0)
        for group in groups - self._held.keys():
            if self._free:
                with contextlib.suppress(OSError):  # the group has ended
                    _signalled(self._free[-1], -group, signal.SIGKILL)
                    self._held[group] = self._free.pop()


def _signalled(ours: _socket.socket, to: int, number: int) -> None:
    """Have Linux send a signal when the other end is closed. to: a process, or minus a process group."""
    file = ours.fileno()
    fcntl.fcntl(file, fcntl.F_SETSIG, number)
    fcntl.fcntl(file, fcntl.F_SETOWN, to)
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


def _started(plan: Mapping[str, Any], cords: _Cords) -> int:
    guard = os.getpid()
    waits, go = os.pipe()
    first = os.fork()
    if first:
        # The command runs after that, so that no report of its own comes first.
        _tell(plan["report"], b"%d\n" % first)
        cords.hold({first})  # which is no group yet
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

    def __init__(self, first: int, plan: Mapping[str, Any], stopped: list[int], cords: _Cords) -> None:
        self.code: int | None = None
        self._first = first
        self._stopped = stopped
        self._cords = cords
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
        there = below(os.getpid())
        self._cords.hold({self._first, *filter(None, map(_group_of, there))})
        return "processes" if len(there) > self._processes_max else ""

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


def _group_of(pid: int) -> int:
    """Return the process group of a process; 0 for one that has ended."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


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
