"""Options and arguments that several commands share, and the command class that adds `--debug`."""

import shlex
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from callboard.cli.errors import DEBUG

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_LOG: Final = "callboard.db"

_log = click.option(
    "--log",
    metavar="FILE",
    default=DEFAULT_LOG,
    envvar="CALLBOARD_LOG",
    show_default=True,
    show_envvar=True,
    help="The log file.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_session = click.argument("session", default="", required=False, metavar="[SESSION]")


def log_option(function: F) -> F:
    """Add `--log FILE`."""
    return _log(function)


def json_option(function: F) -> F:
    """Add `--json`."""
    return _json(function)


def check_option(function: F) -> F:
    """`--check`: check the digest of every event before anything is shown."""
    return click.option("--check", is_flag=True, help="Check the digests of the whole session first.")(
        function
    )


def session_argument(function: F) -> F:
    """Add `[SESSION]`: an id, the beginning of one, or nothing for the newest session."""
    return _session(function)


def log_flag() -> str:
    """Return the `--log` option for a command in a hint; empty if the command finds the log without it."""
    context = click.get_current_context(silent=True)
    if context is None or context.get_parameter_source("log") is not click.core.ParameterSource.COMMANDLINE:
        return ""
    return f" --log {shlex.quote(context.params['log'])}"


def agent_argument(function: F) -> F:
    """Add `MODULE:AGENT`."""
    return click.argument("agent", metavar="MODULE:AGENT")(function)


def model_option(function: F) -> F:
    """Add `--model PROVIDER:NAME`."""
    return click.option(
        "--model",
        metavar="PROVIDER:NAME",
        default="",
        help="Ask this model instead of the agent's own: anthropic:NAME (or just claude-...), "
        "scripted:MODULE:POLICY, or the name of another installed provider. Sub-agents without a model "
        "inherit it.",
    )(function)


def limit_option(function: F) -> F:
    """Add `--limit NAME=VALUE`, which may be repeated."""
    return click.option(
        "--limit",
        "limits",
        metavar="NAME=VALUE",
        multiple=True,
        help="Limit the session: tokens=200k, cost=0.50, deadline_s=60, max_depth=2, ... May be repeated.",
    )(function)


def secret_option(function: F) -> F:
    """Add `--secret NAME`, which may be repeated."""
    return click.option(
        "--secret",
        "secrets",
        metavar="NAME",
        multiple=True,
        help="Keep the value of the environment variable NAME out of logs and output; tools get it by "
        "ctx.secret(NAME). May be repeated.",
    )(function)


class Command(click.Command):
    """A command that accepts `--debug` anywhere on its line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(debug_option())


def debug_option() -> click.Option:
    """Return the option `--debug`."""
    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_remember,
        help="Show the traceback of an error.",
    )


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.meta[DEBUG] = True
