"""A Python that lacks what Windows lacks: run by `test_without_posix.py` in a process of its own.

    python tests/without_posix.py FOLDER

The names are taken away after the standard library and other packages are imported, since these have a branch
of their own for Windows that cannot run elsewhere. It is no Windows: paths, line ends and processes are those
of the system.
"""

import asyncio
import ctypes
import fcntl
import importlib
import os
import pkgutil
import signal
import socket
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest

PACKAGES = (
    "click click.testing rich.console msgspec pykka anyio httpx2 hypothesis pytest pydantic_ai anthropic"
)
MORE = (
    "mcp.client.stdio boto3 google.genai jsonschema pydantic_ai.models.openai "
    "langchain.agents langgraph.prebuilt langsmith.run_helpers"
)
MODULES = frozenset({"fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "uvloop"})
LACKING: dict[Any, str] = {
    os: "O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_NOCTTY O_NONBLOCK O_PATH pread pwrite fork setsid killpg getpgid "
    "register_at_fork geteuid getuid fchmod fchdir chown mkfifo memfd_create set_blocking nice WNOHANG "
    "pidfd_open openpty sysconf",
    signal: "SIGKILL SIGSTOP SIGCONT SIGHUP SIGPIPE SIGUSR1 SIGALRM SIGQUIT SIGCHLD SIGTSTP SIGWINCH",
    socket: "AF_UNIX SO_PEERCRED",
    asyncio: "start_unix_server open_unix_connection",
}
OPTIONAL = "claude_agent_sdk"  # too large for the development group
NEED_MORE = frozenset(
    {"callboard.runtime.shell.guard", "callboard.runtime.shell.process", "callboard.tools.shell"}
)


class Hidden(MetaPathFinder):
    """Finds no module that Windows lacks."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for such a module."""
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def take_away() -> None:
    """Take the names away, and put a lock of bytes in the place of Windows' own."""
    for name in (*PACKAGES.split(), *MORE.split()):
        with suppress(ImportError):
            importlib.import_module(name)
    for module, names in LACKING.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    os.supports_dir_fd.clear()
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Hidden())
    lock = types.ModuleType("msvcrt")
    lock.LK_NBLCK = 2  # type: ignore[attr-defined]  # a module made here
    lock.locking = lambda file, mode, size: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[attr-defined]  # a module made here
    sys.modules["msvcrt"] = lock
    load = ctypes.CDLL

    def only_named(name: str | None, *arguments: Any, **options: Any) -> ctypes.CDLL:
        if name is None:
            raise TypeError("bad argument type for built-in operation")
        return load(name, *arguments, **options)

    ctypes.CDLL = only_named  # type: ignore[assignment, misc]  # in the place of a class
    sys.platform = "win32"


def broken_imports() -> Iterator[str]:
    """Yield the modules that cannot be imported, with the reason."""
    for package in ("actors", "runtime", "replay", "tools", "cli", "demo"):
        whole = importlib.import_module(f"callboard.{package}")
        for found in pkgutil.walk_packages(whole.__path__, f"callboard.{package}."):
            if found.name in NEED_MORE or found.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(found.name)
            except Exception as error:
                if isinstance(error, ModuleNotFoundError) and error.name == OPTIONAL:
                    continue
                yield f"{found.name}: {error!r}"


def refused(kind: type[Exception], words: str, action: Callable[[], object]) -> None:
    """Raise AssertionError for an action that is not refused in these words."""
    with pytest.raises(kind, match=words):
        action()


async def session(folder: Path) -> None:
    """Run a session on a log in a file, and see that it has one owner and replays."""
    from callboard import Agent, Files, Runtime, ScriptedModel, call, say
    from callboard.errors import MisuseError, StoreLocked
    from callboard.replay.recording import Recording
    from callboard.runtime.log.sqlite.owner import read_lock

    log = folder / "callboard.db"
    task = call("task", agent="reader", prompt="Read.")
    model = ScriptedModel({"host": [task, say("Done.")], "reader": [say("Read.")]})
    async with Runtime(log, model=model) as runtime:
        outcome = await runtime.run(Agent("host", agents=[Agent("reader")]), "Go.")
        assert (outcome.status, outcome.text) == ("ok", "Done.")
        assert read_lock(log)[0] == str(os.getpid())
        with pytest.raises(StoreLocked, match="is owned by this process"):
            async with Runtime(log, model=model):
                pass
    with Recording.open(log, session_id=outcome.session_id) as recording:
        recording.verify().check()
    refused(MisuseError, "Linux or macOS", lambda: Files(folder))
    refused(ImportError, "Linux or macOS", lambda: importlib.import_module("callboard.tools.shell"))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    with asyncio.Runner() as runner:
        runner.get_loop()  # its own sockets are of a kind that Windows has not
        take_away()
        if broken := list(broken_imports()):
            sys.exit("\n".join(broken))
        runner.run(session(Path(sys.argv[1])))
    print("one owner, one session, all modules")
