"""docs/cli.md: the help of every command, as a terminal of 100 columns shows it."""

import click
from click.testing import CliRunner

from callboard.cli.doctor_command import VARIABLES
from callboard.cli.main import cli


def cli_page(notice: str) -> str:
    """Write docs/cli.md."""
    context = click.Context(cli, info_name="callboard")
    parts = [
        notice,
        "",
        "# The command line",
        "",
        "Results go to stdout, everything else to stderr.",
        "Every command that reads accepts `--json`.",
        "`NO_COLOR` turns colours off.",
        "[Outcomes and exit codes](outcomes.md#exit-codes) lists how commands end.",
        "",
        *_help([]),
        "## Environment variables",
        "",
        "| variable | use |",
        "|---|---|",
        *(f"| `{name}` | {use} |" for name, use in VARIABLES.items()),
        "",
    ]
    for name in cli.list_commands(context):
        parts += [f"## {name}", "", *_help([name])]
    return "\n".join(parts)


def _help(command: list[str]) -> list[str]:
    # A fixed width, or the page would change with the terminal that generates it.
    result = CliRunner().invoke(cli, [*command, "--help"], prog_name="callboard", terminal_width=100)
    return ["```text", result.output.rstrip(), "```", ""]
