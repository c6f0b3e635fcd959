"""The command `callboard` and its sub-commands. A command returns its exit code; None means 0."""

import atexit
import gc
import importlib
import os
import sys
from typing import Final, NoReturn

import click

from callboard import __version__
from callboard.cli.errors import BROKEN_PIPE, INTERRUPTED, Failure, failure_of
from callboard.cli.options import take_clean_words

# Section -> command -> its function and its line in the help. The module of a command is loaded when it is
# used, so that `callboard --help` needs no event loop and no model.
_SECTIONS: Final = {
    "Run": {
        "demo": ("demo_command:demo", "Show the main job on a folder, offline, without a key."),
        "run": ("run_command:run", "Run an agent on one prompt and record everything."),
        "chat": ("chat_command:chat", "Talk with an agent, or send it prompts line by line."),
        "fork": ("fork_command:fork", "Continue a session from an event, with something changed."),
        "record": (
            "record_command:record",
            "Run a program, and record the model calls that it makes.",
        ),
        "resume": ("run_command:resume", "Finish a session whose process ended too early."),
        "approvals": ("approvals_command:approvals", "List the calls that wait for a person, or answer one."),
        "worker": (
            "worker_command:worker",
            "Run submitted sessions of a log on a server, with other workers.",
        ),
        "cluster": ("cluster_command:cluster", "List workers with their leases, and waiting sessions."),
        "submit": ("worker_command:submit", "Submit a prompt to the agent of any worker."),
        "mcp": ("mcp_command:mcp", "Serve an agent, or the recordings of a log, to an MCP client."),
        "tell": (
            "approvals_command:tell",
            "Send a message to a running agent of a session in another process.",
        ),
        "cancel": ("approvals_command:cancel", "Cancel the running ask of a session in another process."),
    },
    "Look back": {
        "sessions": ("sessions_command:sessions", "List the recorded sessions, newest first."),
        "usage": ("usage_command:usage", "Add up the usage and the cost of sessions."),
        "budgets": ("budgets_command:budgets", "List the amounts spent in budgets above sessions."),
        "show": ("show_command:show", "Summarize a session, or show states, budgets or tools."),
        "ui": ("ui_command:ui", "Open a session as a page in the browser."),
        "tree": ("tree_command:tree", "Draw the tree of delegations and how each ended."),
        "diagnose": (
            "diagnose_command:diagnose",
            "Find what went wrong, with the next command for each cause.",
        ),
        "search": ("search_command:search", "List the events that contain a text, or a value at a path."),
        "why": ("why_command:why", "Show why an event happened, and where a value came from."),
        "files": ("files_command:files", "List the files of a session as of an event, or put them back."),
        "diff": ("diff_command:diff", "Compare two sessions: agents, behaviour, cost."),
        "events": ("events_command:events", "List a session's events, follow them, or step through."),
        "request": ("request_command:request", "Show the exact request of a model call."),
    },
    "Check": {
        "verify": ("verify_command:verify", "Check digests, and whether the code does what the log says."),
        "check-program": (
            "check_program_command:check_program",
            "Check a changed program against recorded steps.",
        ),
        "replay": ("replay_command:replay", "Repeat the decisions of a session with changed agents."),
    },
    "Test": {
        "explore": ("explore_command:explore", "Try many orders and faults of a scenario, without a model."),
        "check": ("verify_command:check", "Check the rules of delegation on recorded sessions."),
    },
    "Keep": {
        "export": ("export_command:export_sessions", "Write sessions to a file, to keep or to send."),
        "import": (
            "import_command:import_file",
            "Put exported sessions, or transcripts of other programs, into a log.",
        ),
        "delete": ("removal_command:delete", "Delete a session, or all old ones, permanently."),
        "memory": (
            "memory_command:memory",
            "List the memories of a file, or the entries of one, or forget an entry.",
        ),
        "doctor": ("doctor_command:doctor", "Print the facts that a bug report needs."),
        "vacuum": ("removal_command:vacuum", "Return the space of deleted sessions to the file system."),
    },
}
_PLACES: Final = {name: place for commands in _SECTIONS.values() for name, (place, _) in commands.items()}
_DEBUG: Final = "callboard.debug"  # the key of `--debug` in click's context


def _debug_option() -> click.Option:
    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.meta[_DEBUG] = True

    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=remember,
        help="Show the traceback of an error.",
    )


class Commands(click.Group):
    """The group of all commands. It turns every end into an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the sections."""
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None for an unknown name."""
        place = _PLACES.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(importlib.import_module(f"callboard.cli.{module}"), name)
        assert isinstance(command, click.Command)
        if not gc.isenabled():  # since `callboard.__main__` began
            gc.freeze()
            gc.enable()
        take_clean_words(command)
        if not any(one.name == "debug" for one in command.params):
            command.params.append(_debug_option())  # so that it may stand anywhere on the line
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, without loading a command."""
        for section, commands in _SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run the command and exit with its result."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except Failure as failure:
            failure.has_traceback = bool(ctx.meta.get(_DEBUG))
            raise
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            # The interpreter flushes stdout once more at its end, which would fail: send it nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        except Exception as error:
            found = failure_of(error)
            found.has_traceback = bool(ctx.meta.get(_DEBUG))
            raise found from error
        if isinstance(code, int) and code:
            ctx.exit(code)
        return code


@click.group(
    cls=Commands,
    params=[_debug_option()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  callboard run survey:host "Which test framework is used here?"
  callboard tree                      the newest session
  callboard events 2026 --kind Delegate --json | jq .body
  callboard events --step             step through it
  callboard verify --all

SESSION is a session's id or the beginning of one; the default is the newest session. The log is
callboard.db, or the file that --log or CALLBOARD_LOG names. Data goes to stdout, everything else to stderr.
NO_COLOR turns colours off.

\b
Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 corrupt log, 5 diverged,
  130 interrupted.""",
)
# The group itself does nothing: click prints its docstring as help, and each command does its own work.
@click.version_option(__version__, "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Run LLM agents, record every message, and look back at each step.

    A session is a log of events, and the log alone is enough to replay, inspect and verify it.
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    # At its end Python looks for garbage among all that it holds: a quarter of the CPU of most commands.
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a narrow encoding must not end a command
    cli(prog_name="callboard")
    raise AssertionError("click ends the process")
