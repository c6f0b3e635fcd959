"""The process of a Claude client: its environment, its folder, and its end.

Rules
  - It gets a folder of its own for its configuration and its work, and none of this process's environment
    but the search path, the language and the time zone: no keys, no proxies, no settings of another client.
  - It leads a process group, so that it ends with all that it has started.
  - On Linux the system kills it when this process dies, also by `kill -9`.
"""

import os
import shlex
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import claude_agent_sdk

_PASSED: Final = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    # Set by the SDK for its own client.
    "CLAUDE_AGENT_SDK_VERSION",
)
_FOREVER_MS: Final = "2147483647"

_WITHOUT: Final = ("silent_turn_reminder", "elapsed_time_reminder", "total_tokens_reminder")
"""Messages that the client adds by its clock and its counters: a restart would find them elsewhere."""

_LAUNCHER: Final = """\
import ctypes, os, signal, sys
os.setsid()
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != {parent}:
    sys.exit("the process that wanted this client has ended")
with open({pid!r}, "w") as file:
    file.write(str(os.getpid()))
env = {{name: os.environ[name] for name in {passed!r} if name in os.environ}}
os.execve({client!r}, [{client!r}, *sys.argv[1:]], {{**env, **{own!r}}})
"""


class ClientHome:
    """The folder of one client. url: of its gateway. token: that its requests carry."""

    def __init__(self, url: str, token: str, max_tokens: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="callboard-claude-"))
        self.work = self.folder / "work"
        self.work.mkdir()
        self._pid = self.folder / "pid"
        own = {
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "PWD": str(self.work),
            "CLAUDE_CONFIG_DIR": str(self.folder),
            "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
            "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": token,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_ENABLE_TELEMETRY": "0",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_AUTO_COMPACT": "1",
            "CLAUDE_CODE_MODEL_CAPABILITIES": ",".join(f"-{name}" for name in _WITHOUT),
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max_tokens),
            # The session waits, retries and gives up, by its own limits.
            "API_TIMEOUT_MS": _FOREVER_MS,
            "MCP_TOOL_TIMEOUT": _FOREVER_MS,
            "CLAUDE_CODE_MAX_RETRIES": "0",
        }
        launcher = self.folder / "launcher.py"
        launcher.write_text(
            _LAUNCHER.format(
                parent=os.getpid(), pid=str(self._pid), passed=_PASSED, client=str(_client()), own=own
            )
        )
        self.command = self.folder / "claude"
        words = " ".join(map(shlex.quote, (sys.executable, "-IS", str(launcher))))
        self.command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        self.command.chmod(0o700)

    def kill(self) -> None:
        """End the client, and all that it has started, at once."""
        with suppress(OSError, ValueError):  # it has not started, or has ended
            os.killpg(int(self._pid.read_text()), signal.SIGKILL)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _client() -> Path:
    """Return the client that comes with the SDK."""
    return Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
