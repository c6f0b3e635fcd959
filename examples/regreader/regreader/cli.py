"""The command `regreader`: import, ask, chat, tool, mcp. Answers on stdout, words on stderr."""

import asyncio
import functools
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from callboard import OrchestratorResult
from regreader.importing import Skipped, files_of, read_files
from regreader.index import Index
from regreader.reader import Reader, UnknownAgent
from regreader.settings import Names, Settings, setting, take_file
from regreader.tools import TOOL_NAMES, ToolFailure, Tools

_Run = Callable[..., Any]
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _NotFound(click.ClickException):
    exit_code = 3


@click.group()
@setting("index", "--index", help="File of the index.")
@click.option(
    "--config", type=click.Path(path_type=Path), default="regreader.toml", envvar="REGREADER_CONFIG",
    is_eager=True, expose_value=False, callback=take_file, show_default=True, help="TOML file of settings.",
)  # fmt: skip
@click.pass_context
def main(context: click.Context, index: str) -> None:
    """Read regulations: pages, sections, tables, notes and references."""
    context.obj = index


@main.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.pass_obj
def import_folder(path: str, folder: Path) -> None:
    """Import the regulations of a folder.

    Each Markdown, text and HTML file is one regulation, and its id is the name of the file.
    """
    told: list[str] = []
    skipped: list[str] = []
    files, is_hidden = files_of(folder), not sys.stderr.isatty()
    shown = click.progressbar(read_files(folder, files), len(files), file=sys.stderr, hidden=is_hidden)
    with closing(_index(path)) as index, shown as bar:
        for one in bar:
            if isinstance(one, Skipped):
                skipped.append(f"skipped {one.path}: {one.reason}")
            else:
                index.put(one)
                sizes = f"pages {len(one.pages)}, sections {len(one.sections)}, tables {len(one.tables)}"
                told.append(f"{one.id}: {one.title} ({sizes})")
    for line in skipped:
        click.echo(line, err=True)
    if not told:
        raise _NotFound(f"{folder} has no regulation: give a folder with .md, .txt or .html files")
    click.echo("\n".join(told))


_ASKING: Final = (
    click.option("-r", "--reg", "regs", multiple=True, help="Id of a regulation; without it all are asked."),
    click.option("--agent", default="", help="Ask this specialist only."),
    setting("enable_orchestrator", "--orchestrate/--alone", "-o/-O", help="Ask specialists, or one agent."),
    setting("orchestrator_mode", "--mode", type=click.Choice(["sequential", "parallel"]), help="Of a route."),
    setting("enabled_subagents", "--subagents", type=Names(), help="The specialists of the orchestrator."),
    setting("subagent_max_iterations", "--max-iterations", type=click.IntRange(1), help="Model calls each."),
    setting("model", "--model", help='Such as "anthropic:claude-sonnet-5"; without one, offline policies.'),
)


def _asking(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the commands that ask."""
    return functools.reduce(lambda made, option: option(made), reversed(_ASKING), command)


@main.command()
@click.argument("question", required=False)
@click.option("--file", type=_FILE, help="Lines with id, question, and perhaps reg_id.")
@click.option("--json", "as_json", is_flag=True, help="Print each answer as a JSON line.")
@_asking
@click.pass_obj
def ask(
    index: str, /, question: str | None, file: Path | None, as_json: bool, regs: tuple[str, ...], agent: str,
    **settings: Any,
) -> None:  # fmt: skip
    """Ask a question, or each question of a file."""
    if (question is None) == (file is None):
        raise click.UsageError("give a question, or --file QUESTIONS.jsonl")
    asked = _lines(file, id=object, question=str) if file else [{"question": question or ""}]
    is_good = True
    with _opened(Settings(index, **settings), agent, regs) as (reader, run):
        for one in asked:
            result = run(reader.ask(one["question"], [one["reg_id"]] if one.get("reg_id") else regs))
            is_good = is_good and result.success
            line = msgspec.to_builtins(result)
            if as_json and "id" in one:
                _print({"id": one["id"], **{name: line[name] for name in ("success", "content", "sources")}})
            elif as_json:
                _print(line)
            else:
                _show(result)
    sys.exit(0 if is_good or file else 1)


@main.command()
@_asking
@click.pass_obj
def chat(index: str, /, regs: tuple[str, ...], agent: str, **settings: Any) -> None:
    """Ask questions one after the other.

    An empty line or the end of input ends the chat.
    """
    with _opened(Settings(index, **settings), agent, regs) as (reader, run):
        session = run(reader.open())
        while question := _prompted().strip():
            _show(run(reader.ask(question, regs, session)))
        run(session.close())


@main.command()
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1)
@click.option("--file", type=_FILE, help="Lines with tool, arguments.")
@click.option("--json", "as_json", is_flag=True, help="Print the result on one line.")
@click.pass_obj
def tool(path: str, name: str | None, arguments: tuple[str, ...], file: Path | None, as_json: bool) -> None:
    """Call one tool, or each of a file.

    Example: regreader tool get_table_by_id reg_id=grid-code table_id=6-2 --json
    """
    if (name is None) == (file is None):
        raise click.UsageError(f"give a tool or --file CALLS.jsonl; tools are {', '.join(TOOL_NAMES)}")
    if wrong := next((one for one in arguments if "=" not in one), None):
        raise click.UsageError(f"{wrong!r}: write arguments as key=value")
    with closing(_index(path)) as index:
        tools = Tools(index)
        for line in _lines(file, tool=str) if file else ():
            _print({**line, **_called(tools, line["tool"], line.get("arguments") or {})})
        done = _called(tools, name, dict(one.split("=", 1) for one in arguments)) if name else {}
    if name:
        _print(done.get("result", done), None if as_json else 2)
    if "error" in done:
        sys.exit(3 if done["error"]["code"] == "not_found" else 2)


@main.command()
@click.pass_obj
def mcp(path: str) -> None:
    """Serve the tools over MCP, on stdin and stdout."""
    try:
        from regreader.mcp_server import server_of
    except ModuleNotFoundError:
        raise click.UsageError("this needs the SDK of MCP: pip install 'callboard[mcp]'") from None
    with closing(_index(path)) as index:
        server_of(Tools(index)).run("stdio")


# --- helpers ----------------------------------------------------------------------------


def _called(tools: Tools, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return {"result": ...} or {"error": {"code", "message"}} of a call."""
    try:
        return {"result": tools.call(name, given)}
    except ToolFailure as error:
        return {"error": {"code": error.code, "message": str(error)}}


def _lines(file: Path, **needed: type) -> list[dict[str, Any]]:
    """Read a file of JSON objects, a line each. needed: the keys that each has, with their types."""
    found = []
    for number, text in enumerate(file.read_bytes().split(b"\n"), 1):
        if text.strip():
            try:
                found.append(msgspec.json.decode(text, type=dict[str, Any]))
            except msgspec.DecodeError as error:
                raise click.UsageError(f"{file}:{number}: {error}") from None
            if lacks := [name for name, kind in needed.items() if not isinstance(found[-1].get(name), kind)]:
                raise click.UsageError(f"{file}:{number}: it needs {lacks[0]} as {needed[lacks[0]].__name__}")
    return found


def _print(value: object, indent: int | None = None) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=indent))


def _show(result: OrchestratorResult) -> None:
    click.echo(result.content if result.success else f"I do not know: {result.error}")
    for source in result.sources:
        click.echo(f"  [{source}]")


def _prompted() -> str:
    if sys.stdin.isatty():
        click.echo("> ", nl=False, err=True)
    return sys.stdin.readline()


def _index(path: str) -> Index:
    try:
        return Index(path)
    except sqlite3.Error as error:
        raise click.UsageError(f"{path} is no index: {error}; name another file by --index") from None


def _known(path: str) -> list[str]:
    """Return the ids of the imported regulations."""
    with closing(_index(path)) as index:
        return [one["reg_id"] for one in Tools(index).list_regulations()["regulations"]]


@contextmanager
def _opened(
    settings: Settings, agent: str, regs: Sequence[str]
) -> Iterator[tuple[Reader, Callable[..., Any]]]:
    """Open a reader of an index that has these regulations, and give what runs its coroutines."""
    known = _known(settings.index)
    if not known:
        raise _NotFound("nothing is imported yet: regreader import FOLDER")
    if unknown := next((reg for reg in regs if reg not in known), None):
        raise _NotFound(f"no regulation {unknown!r}; there are {', '.join(known)}")
    try:
        reader = Reader(settings, agent)
    except UnknownAgent as error:
        raise click.UsageError(str(error)) from None
    with asyncio.Runner() as runner:  # the loop stands while a person types, so that Ctrl-C ends the chat
        runner.run(reader.__aenter__())
        try:
            yield reader, runner.run
        finally:
            runner.run(reader.aclose())
