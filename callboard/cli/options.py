"""Options and arguments that several commands share."""

import functools
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from callboard.actors.protocol.errors import MisuseError
from callboard.cli.errors import misused, refuse_if
from callboard.runtime.log.reading import shown_address
from callboard.runtime.sanitize import clean_text

if TYPE_CHECKING:
    from callboard.runtime.files.files import Files

_OF_FILES: Final = ("FILE", "FOLDER", "PATH")


class _Words(click.ParamType[str]):
    """Text of a command line, cleaned: a shell passes on bytes that are not UTF-8."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return clean_text(value)


_WORDS: Final = _Words()


def take_clean_words(command: click.Command) -> None:
    """Let a command clean its text parameters, except names of files: these keep the bytes that they have."""
    for one in command.params:
        if one.type is click.STRING and not _names_a_file(one):
            one.type = _WORDS


def _names_a_file(param: click.Parameter) -> bool:
    shown = str(param.metavar or param.name).upper()
    return any(word in shown for word in _OF_FILES)


log_option = click.option(
    "--log",
    metavar="FILE",
    default="callboard.db",
    envvar="CALLBOARD_LOG",
    show_default=True,
    show_envvar=True,
    help="The log file.",
)
all_option = click.option("--all", "is_all", is_flag=True, help="Every session of the log.")
check_option = click.option("--check", is_flag=True, help="Check the digests of the whole session first.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Show no tree, and a summary only of a failure."
)
agent_argument = click.argument("agent", metavar="MODULE:AGENT")
event_argument = click.argument("words", nargs=-1, required=True, metavar="[SESSION#]PLACE")
session_argument = click.argument("session", default="", required=False, metavar="[SESSION[#PLACE]]")
beside_option = click.option(
    "--beside", metavar="OTHER", default="", help="Show this session beside it, such as the origin of a fork."
)
full_option = click.option("--full", is_flag=True, help="Show long texts and lists in full.")
model_option = click.option(
    "--model",
    metavar="PROVIDER:NAME",
    default="",
    help="Ask this model instead of the agent's own: anthropic:NAME (or just claude-...), openai:NAME, "
    "ollama:NAME, scripted:MODULE:POLICY, or the name of another installed provider. Sub-agents without "
    "a model inherit it.",
)


def log_flag() -> str:
    """Return the `--log` option for a command in a hint; empty if the command finds the log without it."""
    context = click.get_current_context(silent=True)
    if context is None or context.get_parameter_source("log") is not click.core.ParameterSource.COMMANDLINE:
        return ""
    return f" --log {shlex.quote(shown_address(context.params['log']))}"


def files_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add `--files` and its companions, which the function gets as one `files`; None without a folder."""

    @functools.wraps(function)
    def call(
        folder: str,
        may_read: tuple[str, ...],
        may_write: tuple[str, ...],
        label: str,
        has_history: bool,
        **others: Any,
    ) -> int:
        found = _files(folder, may_read, may_write, label, has_history=has_history)
        return function(files=found, **others)

    for add in (_history_option, _label_option, _write_option, _read_option, _folder_option):
        call = add(call)
    return call


def _files(
    folder: str, may_read: tuple[str, ...], may_write: tuple[str, ...], label: str, *, has_history: bool
) -> "Files | None":
    if not folder:
        given = may_read or may_write or label or has_history
        refuse_if(given, "--files-read, --files-write, --files-label and --files-history need --files FOLDER")
        return None
    from callboard.runtime.files.files import Files  # here: most commands reach no files

    try:
        reads = may_read or ["."]
        return Files(folder, read=reads, write=may_write, files_label=label, history=has_history)
    except MisuseError as error:
        raise misused(str(error)) from None


_folder_option = click.option(
    "--files",
    "folder",
    metavar="FOLDER",
    default="",
    help="Let tools use this folder through ctx.files: read all of it and write nothing, by default.",
)
_read_option = click.option(
    "--files-read",
    "may_read",
    metavar="PATH",
    multiple=True,
    help="Let them read only this file or folder below FOLDER. May be repeated.",
)
_write_option = click.option(
    "--files-write",
    "may_write",
    metavar="PATH",
    multiple=True,
    help="Let them write this file or folder below FOLDER; `.` is all of it. May be repeated.",
)
_history_option = click.option(
    "--files-history",
    "has_history",
    is_flag=True,
    help="Keep the versions of files in the log, for `callboard files` and for forks.",
)
_label_option = click.option(
    "--files-label",
    "label",
    metavar="LABEL",
    default="",
    help="The label for all files that no tool has written, such as untrusted.",
)
