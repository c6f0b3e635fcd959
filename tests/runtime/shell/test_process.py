"""Commands and their guard, with real processes."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.runtime.shell import guard, process
from callboard.runtime.shell.process import Command, Finished, run
from tests.processes import running
from tests.waiting import block_until, until


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    file = os.open(tmp_path, os.O_RDONLY)
    yield file
    os.close(file)


def command(text: str, folder: int, timeout_s: float = 20.0, processes_max: int = 100) -> Command:
    env = {"PATH": os.environ["PATH"]}
    return Command(["/bin/sh", "-c", text], folder, env, timeout_s, 1_000, processes_max)


def done(text: str, folder: int, timeout_s: float = 20.0, processes_max: int = 100) -> Finished:
    return asyncio.run(run(command(text, folder, timeout_s, processes_max)))


def is_running(mark: str) -> bool:
    """Return True if a process has this text among its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes() and "State:\tZ" not in (path.parent / "status").read_text():
                return True
        except OSError:
            continue
    return False


def unique_seconds(tmp_path: Path) -> str:
    """Return a number of seconds to sleep that no other test uses."""
    return f"9{os.getpid()}{abs(hash(str(tmp_path))) % 10_000:04d}"


def test_a_command_gives_its_output_and_its_code(folder: int) -> None:
    assert done("echo out; echo err >&2; exit 3", folder) == Finished((b"out\nerr\n", b""), 0, "exited", 3)
    assert done("kill -9 $$", folder).code == -9


def test_it_starts_in_its_folder_without_input_and_with_its_own_environment(
    folder: int, tmp_path: Path
) -> None:
    os.environ["CALLBOARD_CANARY"] = "sing"
    try:
        (first, _), *_ = done("pwd; cat; env; cat /proc/$PPID/environ", folder)
    finally:
        del os.environ["CALLBOARD_CANARY"]
    assert first.startswith(f"{tmp_path}\n".encode())
    assert b"sing" not in first


def test_a_program_that_is_not_there_is_told(folder: int) -> None:
    found = asyncio.run(run(command("", folder)._replace(arguments=["/nope/program"])))
    assert found.code == 127
    assert b"cannot start /nope/program: No such file" in found.output[0]


def test_a_long_output_keeps_its_first_and_last_bytes(folder: int) -> None:
    found = done("echo begin; seq 10000; echo end", folder)
    assert found.output[0].startswith(b"begin\n1\n")
    assert found.output[1].endswith(b"10000\nend\n")
    assert sum(map(len, found.output)) == 1_000
    assert found.left_out == 6 + 48_894 + 4 - 1_000


def test_a_command_ends_after_its_time(folder: int, tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)
    found = done(f"echo begun; sleep {mark}", folder, timeout_s=0.2)
    assert (found.ended, found.output[0]) == ("timeout", b"begun\n")
    assert not is_running(mark)


def test_a_caller_that_is_cancelled_ends_the_command(folder: int, tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)

    async def main() -> None:
        task = asyncio.create_task(run(command(f"sleep {mark}", folder)))
        await until(lambda: is_running(mark))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not is_running(mark)

    asyncio.run(main())


def test_a_loop_that_ends_takes_the_command_with_it(folder: int, tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)

    async def main() -> None:
        waiting = run(command(f"sleep {mark}", folder))
        waiting.send(None)
        await until(lambda: is_running(mark))
        waiting.close()  # as a task that is thrown away

    asyncio.run(main())
    block_until(lambda: not is_running(mark))
    assert not is_running(mark)


SLEEPER = """
import asyncio, os, sys
from callboard.runtime.shell.process import Command, run
text = f"setsid sleep {sys.argv[1]} & {sys.argv[2]}; sleep {sys.argv[1]}"
asyncio.run(run(Command(["/bin/sh", "-c", text], os.open("/", 0), {"PATH": os.environ["PATH"]}, 60, 1000, 9)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_the_process_ends_its_commands(tmp_path: Path, number: int) -> None:
    mark = unique_seconds(tmp_path)
    with running([sys.executable, "-c", SLEEPER, mark, "true"]) as owner:
        block_until(lambda: is_running(f"sleep\0{mark}"))
        owner.send_signal(number)
        assert owner.wait() == -number
    block_until(lambda: not is_running(f"sleep\0{mark}"))


# The owner is the parent of the guard. Each begins when the mark sleeps in a session of its own.
_OWNER = "trap '' TERM; owner=$(cut -d' ' -f4 /proc/$PPID/stat); while ! pgrep -f 'slee[p] {0}'; do :; done"
# Some of them always run, also on a busy machine.
_EVER = "for _ in 1 2 3 4 5 6; do while :; do kill -STOP {0}; done & done; wait"
HOSTILE = {
    "in a tight loop": "kill -STOP $owner; " + _EVER.format("$PPID"),
    "which kills its owner": "kill -KILL $owner; " + _EVER.format("$PPID"),
    "with its owner": _EVER.format("$PPID $owner"),
    "in the background": "(kill -STOP $owner; " + _EVER.format("$PPID") + ") & sleep 300",
    "once": "kill -STOP $owner $PPID; sleep 300",
    "from another session": "export owner PPID; setsid sh -c 'sleep 0.5; kill -STOP $owner; "
    + _EVER.format("$PPID")
    + "' & sleep 300",
    "with all children of its owner": "while :; do kill -STOP $owner $(pgrep -P $owner); done",
}


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a guard that is stopped")


@pytest.mark.slow
@on_linux
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=list(HOSTILE))
def test_a_command_that_stops_its_guard_does_not_outlive_a_process_that_is_killed(
    tmp_path: Path, hostile: str
) -> None:
    mark = unique_seconds(tmp_path)
    with running([sys.executable, "-c", SLEEPER, mark, f"{_OWNER.format(mark)}; {hostile}"]) as owner:
        block_until(lambda: is_stopped(owner.pid) or owner.poll() is not None)
        time.sleep(0.1)  # for many rounds of the loop
        owner.kill()
        owner.wait()
    block_until(lambda: not is_running(mark))
    # 0: the guard saw that it was stopped, and ended the command before that had stopped its owner.
    assert owner.returncode in (-signal.SIGKILL, 0)


def is_stopped(pid: int) -> bool:
    return "State:\tT" in Path(f"/proc/{pid}/status").read_text()


@pytest.fixture
def caller() -> Iterator[tuple[guard._Cords, socket.socket]]:
    """Return the cords of a guard, and the socket that its caller holds."""
    ours, theirs = socket.socketpair()
    cords = guard._Cords(theirs.detach())
    with ours:
        yield cords, ours
    for each in (*cords._kept, *cords._free, *cords._held.values()):
        each.close()


@on_linux
def test_linux_kills_the_groups_of_a_caller_that_ended_without_the_help_of_the_guard(
    caller: tuple[guard._Cords, socket.socket],
) -> None:
    cords, ours = caller
    with contextlib.ExitStack() as stack:
        held, left, other = (stack.enter_context(running(GROUP, start_new_session=True)) for _ in range(3))
        cords.hold({held.pid, left.pid})
        cords.hold({held.pid})
        ours.close()
        assert held.wait() == -signal.SIGKILL
        assert (left.poll(), other.poll()) == (None, None)


@on_linux
def test_groups_for_which_there_is_no_cord_are_left_to_the_guard(
    caller: tuple[guard._Cords, socket.socket],
) -> None:
    cords, ours = caller
    cords.hold({2**22 - 1})  # a group that has ended takes none
    with contextlib.ExitStack() as stack:
        groups = [
            stack.enter_context(running(GROUP, start_new_session=True)) for _ in range(guard._CORDS + 1)
        ]
        cords.hold({group.pid for group in groups})
        ours.close()
        block_until(lambda: [group.poll() for group in groups].count(-signal.SIGKILL) == guard._CORDS)


GROUP = ["sleep", "600"]
STOPPED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import guard
cords = guard._Cords(int(sys.argv[2]))
os.kill(os.getpid(), signal.SIGSTOP)
print("goes on")
"""


@on_linux
def test_linux_continues_a_guard_whose_caller_has_ended() -> None:
    ours, theirs = socket.socketpair()
    given = [str(Path(guard.__file__).parent), str(theirs.fileno())]
    stopped = [sys.executable, "-c", STOPPED, *given]
    with theirs, running(stopped, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE) as process:
        block_until(lambda: is_stopped(process.pid))
        ours.close()
        assert process.communicate()[0] == b"goes on\n"


def test_without_its_guard_a_command_is_ended(folder: int, tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)
    assert done(f"kill -9 $PPID; sleep {mark}", folder).ended == "lost"
    block_until(lambda: not is_running(mark))


STOPS = ["kill -STOP $PPID", "(while :; do kill -STOP $PPID; done) & true"]


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system does not tell that a child is stopped")
@pytest.mark.parametrize("text", [*STOPS, "setsid sh -c 'while :; do kill -STOP '$PPID'; done' & true"])
def test_a_command_that_stops_its_guard_is_ended_at_once(folder: int, tmp_path: Path, text: str) -> None:
    mark = unique_seconds(tmp_path)
    found = done(f"echo begun; {text}; setsid sleep {mark} & sleep {mark}", folder, timeout_s=600)
    assert (found.ended, found.output[0], found.survivors) == ("lost", b"begun\n", 0)
    assert not is_running(mark)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give guards little time to be late, on a system that does not tell that they are stopped."""
    monkeypatch.setattr(process, "_LATE_S", 0.05)
    monkeypatch.setattr(process, "_has_stopped", lambda pid: False)


@pytest.mark.parametrize("text", STOPS)
def test_a_command_that_stops_its_guard_ends_after_its_time(
    folder: int, tmp_path: Path, hurry: None, text: str
) -> None:
    mark = unique_seconds(tmp_path)
    text = f"echo begun; {text}; : > {tmp_path}/stopped; setsid sleep {mark} & sleep {mark}"

    async def main() -> Finished:
        loop, now = asyncio.get_running_loop(), asyncio.get_running_loop().time
        work = asyncio.create_task(run(command(text, folder, timeout_s=600)))
        await until((tmp_path / "stopped").exists)
        loop.time = lambda: now() + 700  # type: ignore[method-assign]  # its time is over
        return await work

    found = asyncio.run(main())
    assert (found.ended, found.output[0], found.survivors) == ("timeout", b"begun\n", 0)
    assert not is_running(mark)


def test_a_caller_that_is_cancelled_ends_a_command_that_stopped_its_guard(
    folder: int, tmp_path: Path, hurry: None
) -> None:
    mark = unique_seconds(tmp_path)

    async def main() -> None:
        task = asyncio.create_task(run(command(f"kill -STOP $PPID; sleep {mark}", folder)))
        await until(lambda: is_running(mark))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not is_running(mark)


def test_a_flood_of_a_command_that_stopped_its_guard_ends(folder: int, hurry: None) -> None:
    assert done("kill -STOP $PPID; yes", folder).ended == "output"


FORGED = {
    "no JSON": "true",
    "an unknown end": '{"ended":"fine","code":0,"left":0}',
    "a code that is text": '{"ended":"exited","code":"0","left":0}',
    "a number of a million digits": '{"ended":"exited","code":' + "9" * 4_000 + ',"left":0}',
    "deep lists": "[" * 5_000,
    "another process": "1\n",
    "a good end": '{"ended":"exited","code":0,"left":0}',
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=list(FORGED))
def test_a_report_that_the_command_has_changed_is_foreign_input(
    folder: int, tmp_path: Path, hurry: None, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    ended: list[int] = []
    real = os.killpg

    def killpg(group: int, number: int) -> None:
        ended.append(group)
        real(group, number)

    monkeypatch.setattr(os, "killpg", killpg)
    (tmp_path / "forged").write_text(forged)
    mark = unique_seconds(tmp_path)
    write = (
        "for f in /proc/$PPID/fd/*; do case $(readlink $f) in pipe*) timeout 0.1 cp forged $f;; esac; done"
    )
    found = done(f"{write} 2>/dev/null; kill -9 $PPID; sleep {mark}", folder, timeout_s=0.9)
    assert found.ended in ("lost", "timeout")
    assert 1 not in ended, "the first line is the guard's own"
    assert os.getpgid(0) not in ended
    block_until(lambda: not is_running(mark))


def test_a_value_of_the_environment_is_on_no_command_line_and_in_no_file_of_the_guard(folder: int) -> None:
    value = f"canary-{os.getpid()}"

    async def main() -> Finished:
        asked = command("read x < /proc/$PPID/fd/5; ls -l /proc/$PPID/fd; sleep 0.2", folder)
        task = asyncio.create_task(run(asked._replace(env={**asked.env, "TOKEN": value})))
        seen: list[bool] = []
        while not task.done():
            seen.append(is_running(value))
            await asyncio.wait([task], timeout=0.01)
        assert len(seen) > 3
        assert not any(seen)
        return task.result()

    found = asyncio.run(main())
    assert b"memfd" not in found.output[0] + found.output[1]


def test_nothing_stays_open(folder: int) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    done("true", folder)
    before = count()
    done("echo x", folder)
    done("sleep 5", folder, timeout_s=0.05)
    assert count() == before


def test_a_guard_that_cannot_start_leaves_nothing(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(sys, "executable", "/nope/python")
    with pytest.raises(FileNotFoundError):
        done("true", folder)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_kept_has_a_limit() -> None:
    kept = process._Kept(10)
    for _ in range(3):
        kept.add(b"abcdefgh" * 20_000)
    (first, last), left_out = kept.parts()
    assert (first, last, left_out) == (b"abcde", b"defgh", 480_000 - 10)
    assert len(kept._last) < 300_000
