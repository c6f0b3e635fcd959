"""The guard of one command: its parts in this process, and the whole of it as a process of its own.

What commands do under it, also those that resist, is tried in `test_process.py`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.runtime.shell import guard
from tests.waiting import block_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    made = subprocess.Popen(SLEEP)
    yield made
    made.kill()
    made.wait()


def test_the_processes_below_one_are_found_at_any_depth() -> None:
    script = f"import subprocess, sys; p = subprocess.Popen({SLEEP!r}); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as made:
        assert made.stdout is not None
        inner = int(made.stdout.readline())
        try:
            assert {made.pid, inner} <= guard.below(os.getpid())
            assert guard.below(made.pid) == {inner}
            assert guard.below(inner) == set()
            assert guard.kill_below(made.pid) == {inner}
            block_until(lambda: not guard.below(made.pid) or made.poll() is not None)
        finally:
            made.kill()


def test_nothing_is_below_a_process_that_is_not_there() -> None:
    assert guard.below(2**22 + 1) == set()
    assert guard.kill_below(2**22 + 1) == set()


def test_a_signal_to_a_process_that_has_ended_is_no_error(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, signal.SIGTERM)
    guard._signal(child.pid, signal.SIGTERM)
    guard._signal_group(child.pid, signal.SIGTERM)
    assert child.returncode == -signal.SIGKILL


def test_the_end_of_an_input_is_told_from_more_of_it() -> None:
    read, write = os.pipe()
    os.write(write, b"x")
    assert not guard._is_at_end(read)
    os.close(write)
    assert guard._is_at_end(read)
    os.close(read)


def test_a_report_that_nobody_reads_is_no_error() -> None:
    read, write = os.pipe()
    guard._tell(write, b"one")
    assert os.read(read, 10) == b"one"
    os.close(read)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    guard._tell(write, b"two")
    os.close(write)


def guarded(
    tmp_path: Path, command: list[str], *, ends: bool = False, **plan: Any
) -> tuple[int, dict[str, Any], str]:
    """Run a command under the guard. Return the id of its first process, the report and the output.

    ends: True closes the guard's standard input at once.
    """
    folder = os.open(tmp_path, os.O_RDONLY)
    report, told = os.pipe()
    ours, life = socket.socketpair()
    with ours, life, (tmp_path / "plan").open("w+b") as file:
        about = {"command": command, "env": {"PATH": os.environ["PATH"], "MARK": "sing"}, "folder": folder}
        limits = {
            "report": told,
            "life": life.fileno(),
            "timeout_s": 30.0,
            "processes_max": 20,
            "grace_s": 0.2,
            **plan,
        }
        file.write(json.dumps(about | limits).encode())
        file.seek(0)
        arguments = [sys.executable, "-I", "-S", guard.__file__, str(file.fileno())]
        with subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(file.fileno(), folder, told, life.fileno()),
        ) as made:
            os.close(told)
            life.close()
            assert made.stdin is not None
            assert made.stdout is not None
            if ends:
                made.stdin.close()
            output = made.stdout.read().decode()
            made.wait()
    first, said = os.read(report, 10_000).split(b"\n", 1)
    os.close(report)
    os.close(folder)
    return int(first), json.loads(said), output


def test_a_command_that_ends_is_reported_with_its_code_and_nothing_left(tmp_path: Path) -> None:
    first, said, output = guarded(tmp_path, ["/bin/sh", "-c", 'echo "$MARK"; pwd; echo err >&2; exit 3'])
    assert said == {"ended": "exited", "code": 3, "left": 0}
    assert output == f"sing\n{tmp_path}\nerr\n"
    assert first > 0
    assert not Path(f"/proc/{first}").exists()


def test_a_command_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    _, said, _ = guarded(tmp_path, ["/bin/sh", "-c", "sleep 60"], timeout_s=0.05)
    assert said == {"ended": "timeout", "code": -signal.SIGTERM, "left": 0}


def test_a_command_is_ended_with_its_caller(tmp_path: Path) -> None:
    _, said, _ = guarded(tmp_path, ["/bin/sh", "-c", "sleep 60"], ends=True)
    assert (said["ended"], said["left"]) == ("stopped", 0)
    assert said["code"] in (-signal.SIGTERM, -signal.SIGKILL)  # the request may come before it takes any


def test_a_command_that_takes_no_request_is_killed(tmp_path: Path) -> None:
    _, said, _ = guarded(
        tmp_path, ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 60; done"], timeout_s=0.05
    )
    assert said["ended"] == "timeout"
    assert said["left"] == 0


def test_too_many_processes_end_the_command(tmp_path: Path) -> None:
    _, said, _ = guarded(
        tmp_path, ["/bin/sh", "-c", "for i in 1 2 3 4 5; do sleep 60 & done; wait"], processes_max=3
    )
    assert said["ended"] == "processes"
    assert said["left"] == 0


def test_a_program_that_is_not_there_is_told_on_its_output(tmp_path: Path) -> None:
    _, said, output = guarded(tmp_path, ["/nope/program"])
    assert said == {"ended": "exited", "code": 127, "left": 0}
    assert output == "cannot start /nope/program: No such file or directory\n"
