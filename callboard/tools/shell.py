"""A tool that runs shell commands in the folder of a session. It is not a sandbox.

    from callboard.tools.shell import shell

    agent = Agent("coder", tools=[*FILE_TOOLS, shell])

A command may do all that the user of this process may: read other files, use the network, start services.
The page docs/shell.md has the line that runs it inside bubblewrap, which confines it.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from callboard.actors.protocol.errors import MisuseError, ToolError
from callboard.actors.protocol.profiles import Approval

if not hasattr(os, "killpg"):
    raise ImportError(
        "the shell tool needs process groups, which this system does not have: use Linux or macOS"
    )

from callboard.runtime.shell.process import FLOOD, Command, End, Finished, run
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.signature import typed_signature
from callboard.runtime.tools.tool import Tool

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUTPUT_BYTES_MAX: Final = 30_000
"""Bytes of a command's output that the model reads: the first and the last half."""

COMMAND_CHARS_MAX: Final = 100_000  # one argument of a process has at most 131,072 bytes on Linux
_SPARE_S: Final = 3.0  # seconds between the end of a command and the limit of its call
_DESCRIPTION: Final = (
    "Run a command with /bin/sh in the folder of the files, without input. Its output, with errors, comes "
    "back with the exit code. What it has started in the background ends with it."
)


class _How(NamedTuple):
    """The way in which commands run; the fields are parameters of `shell_tool`."""

    inside: tuple[str, ...]
    env: Mapping[str, str]
    processes_max: int


def shell_tool(
    *,
    inside: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120.0,
    processes_max: int = 256,
    approval: Approval = "never",
    name: str = "shell",
) -> Tool:
    """Return a tool that runs shell commands.

    inside: a program and its arguments that run the command, such as those of bubblewrap; `{root}` stands
        for the folder. env: added to the environment of commands, which has `PATH`, `HOME` and `LANG` only.
    timeout_s: seconds that a command may ask for. processes_max: that it may have at a time.
    approval: as of `tool`; "before" asks a person about each command.

    Raises MisuseError for a limit that is not positive.
    """
    if timeout_s <= 0 or processes_max < 1:
        raise MisuseError(f"timeout_s={timeout_s!r}, processes_max={processes_max!r}: use positive numbers")
    how = _How(tuple(inside), dict(env or {}), processes_max)

    async def shell(
        ctx: ToolContext,
        command: Annotated[str, Meta(max_length=COMMAND_CHARS_MAX)],
        seconds: Annotated[float, Meta(gt=0)] = 60.0,
    ) -> str:
        """Run a command.

        Args:
            command: The command, as in a terminal.
            seconds: The time that it may take; it is ended then.
        """
        return await _result(ctx, command, min(seconds, timeout_s), how)

    signature = typed_signature(shell, name)
    return Tool(
        name,
        _DESCRIPTION,
        signature.schema,
        shell,
        "write",
        timeout_s + 2 * _SPARE_S,
        approval=approval,
        capabilities=("shell",),
        signature=signature,
    )


async def _result(ctx: ToolContext, command: str, seconds: float, how: _How) -> str:
    root = str(ctx.files.root)
    if ctx.timeout_s is not None:
        seconds = max(min(seconds, ctx.timeout_s - _SPARE_S), 0.1)
    finished = await run(
        Command(
            [*(part.replace("{root}", root) for part in how.inside), "/bin/sh", "-c", command],
            ctx.files.fileno(),
            {"PATH": PATH, "HOME": root, "LANG": "C.UTF-8", **how.env},
            seconds,
            OUTPUT_BYTES_MAX,
            how.processes_max,
        )
    )
    return _told(finished, seconds, how.processes_max)


def _told(finished: Finished, seconds: float, processes_max: int) -> str:
    """Return the result of a command. Raises ToolError for one that was ended."""
    reasons: dict[End, str] = {
        "timeout": f"ended after {seconds:g} s, which is the limit of its time",
        "processes": f"ended, since it had more than {processes_max:,} processes",
        "output": f"ended, since it wrote more than {FLOOD * OUTPUT_BYTES_MAX:,} bytes",
        "stopped": "ended from outside",
        "lost": "ended, since the process that watches it was stopped or killed, or its report was changed",
    }
    text = _output(finished)
    left = f"; {finished.survivors} processes could not be ended" if finished.survivors else ""
    if finished.ended in reasons:
        # The reason first: of a long error the model reads the beginning.
        raise ToolError(f"[{reasons[finished.ended]}{left}]\n{text}".rstrip())
    return text + _exit(finished.code or 0) + (f"[{left[2:]}]" if left else "")


def _output(finished: Finished) -> str:
    first, last = (part.decode(errors="replace") for part in finished.output)
    middle = f"\n[{finished.left_out:,} bytes are left out here]\n" if finished.left_out else ""
    text = first + middle + last
    return text if not text or text.endswith("\n") else f"{text}\n"


def _exit(code: int) -> str:
    return f"[ended by signal {-code}]" if code < 0 else f"[exit code {code}]"


shell: Final = shell_tool()
