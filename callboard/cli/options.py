"""Options and arguments that several commands share, with the amounts among them.

Amounts are limits of a session, budgets above sessions, and the capacity of models.
"""

import functools
import re
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.limits import TABLE, WHOLE, Limits
from callboard.actors.session.budget_limits import Budget, checked_patterns
from callboard.actors.session.capacity import Capacity
from callboard.cli.errors import misused, refuse_if
from callboard.runtime.log.reading import file_of, is_server, shown_address
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


def _memory_place(context: click.Context, parameter: click.Parameter, address: str) -> str:
    """Return the address of a memory. Raises Failure for a file that no tool could make."""
    if address and not is_server(address):
        path = file_of(address)
        refuse_if(path.is_dir(), f"--memory {path} is a folder; name a file in it")
        refuse_if(
            not path.parent.is_dir(), f"--memory: the folder {path.parent} does not exist; make it first"
        )
    return address


memory_option = click.option(
    "--memory",
    metavar="FILE",
    default="",
    callback=_memory_place,
    help="Let tools remember in this file through ctx.memory; or the URL of a PostgreSQL server.",
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
        **others: object,
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


_FACTORS: Final = {"k": 1_000, "m": 1_000_000}
_AMOUNT: Final = re.compile(r"(?P<number>[\d_.]+[km]?)\s*(?P<unit>usd|tokens)(/(?P<per>day|month))?")


def parse_limits(pairs: Sequence[str]) -> Limits:
    """Parse `name=value` pairs; whole numbers may be written `200_000`, `200k` or `2m`."""
    stated: dict[str, float] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        is_known = equals and name in TABLE
        refuse_if(not is_known, f"--limit {pair!r}: write NAME=VALUE; names: {', '.join(TABLE)}")
        stated[name] = _number(f"--limit {pair!r}", text.strip().lower(), is_whole=name in WHOLE)
    try:
        return msgspec.convert(stated, Limits)
    except (ValueError, msgspec.ValidationError) as error:
        raise misused(f"--limit: {error}") from None


def parse_budgets(pairs: Sequence[str]) -> dict[str, Budget] | None:
    """Parse `pattern=amount` pairs, such as `tenant:*=20usd/day`; None without any.

    A pattern may be stated once in each unit, for one kind of period.
    """
    stated: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        pattern, _, text = pair.rpartition("=")  # a tag may contain this sign, and an amount does not
        place, found = f"--budget {pair!r}", _AMOUNT.fullmatch(text.strip().lower())
        if not found or not pattern:
            raise misused(
                f"{place}: write PATTERN=AMOUNT, where the amount is in usd or tokens, for all time, /day or "
                "/month, such as '*=20usd/day'"
            )
        is_money = found["unit"] == "usd"
        name = "cost_usd" if is_money else "tokens"
        fields = stated.setdefault(pattern, {"per": found["per"]})
        refuse_if(name in fields, f"{place}: {pattern!r} has a budget in this unit already")
        is_other = fields["per"] != found["per"]
        refuse_if(is_other, f"{place}: the budgets of {pattern!r} have different periods; use one")
        fields[name] = _number(place, found["number"], is_whole=not is_money)
    try:
        return checked_patterns({one: Budget(**fields) for one, fields in stated.items()}) or None
    except MisuseError as error:
        raise misused(f"--budget: {error}") from None


def parse_capacity(pairs: Sequence[str], fair_by: str = "") -> dict[str, Capacity]:
    """Parse `model=calls` pairs, perhaps with tokens a minute: `claude=8`, `claude=8,400k`.

    fair_by: the pattern of the tags that have equal parts; empty for none.
    """
    stated: dict[str, Capacity] = {}
    try:
        pattern = Capacity(fair_by=fair_by or None).fair_by
    except MisuseError as error:
        raise misused(f"--fair-by {fair_by!r:.80}: {str(error).partition('; ')[2]}") from None
    for pair in pairs:
        model, _, text = pair.rpartition("=")
        place = f"--capacity {pair!r}"
        parts = [one.strip().lower() for one in text.split(",")]
        is_unclear = not model or len(parts) > 2 or not any(parts)
        refuse_if(is_unclear, f"{place}: write MODEL=CALLS or MODEL=CALLS,TOKENS_PER_MINUTE")
        refuse_if(model in stated, f"{place}: {model!r} has a capacity already")
        calls, tokens = [int(_number(place, one, is_whole=True)) if one else None for one in (*parts, "")[:2]]
        try:
            stated[model] = Capacity(calls, tokens, pattern)
        except MisuseError as error:
            raise misused(f"{place}: {error}") from None
    return stated


def _number(place: str, text: str, *, is_whole: bool) -> float:
    parse, kind = _WHOLE if is_whole else _FRACTION
    try:
        return parse(text)
    except ValueError:
        raise misused(f"{place}: the value must be {kind}") from None


def _whole(text: str) -> int:
    factor = _FACTORS.get(text[-1:], 1)
    return int(text[:-1] if factor > 1 else text) * factor


_WHOLE: Final = (_whole, "a whole number, such as 200000 or 200k")
_FRACTION: Final = (float, "a number")
