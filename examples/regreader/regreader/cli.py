"""The command `regreader`: import, ask, chat, tool, mcp. Answers on stdout, words on stderr."""

import asyncio
import inspect
import json
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import click

from callboard import OrchestratorResult
from regreader.importing import Skipped, files_of, read_files
from regreader.index import Index
from regreader.reader import Reader, UnknownAgent
from regreader.settings import Settings, SettingsError, load
from regreader.tools import TOOL_NAMES, ToolFailure, Tools

_FAILED, _USAGE, _NOT_FOUND = 1, 2, 3
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_REGS = click.option(
    "-r", "--reg", "regs", multiple=True, help="Id of a regulation; without it all are asked."
)
_ORCHESTRATE = click.option(
    "-o", "--orchestrate", is_flag=True, default=None, help="Ask specialists instead of one agent."
)
_MODEL = click.option("--model", help='Such as "anthropic:claude-sonnet-5"; without one, offline policies.')


@click.group()
@click.option("--index", help="File of the index (regreader.db).")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with settings (regreader.toml).")
@click.pass_context
def main(context: click.Context, index: str | None, config: Path | None) -> None:
    """Read regulations: pages, sections, tables, notes and references."""
    context.obj = {"index": index, "config": config}


@main.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.pass_context
def import_folder(context: click.Context, folder: Path) -> None:
    """Import the regulations of a folder.

    Each Markdown, text and HTML file is one regulation, and its id is the name of the file.
    """
    told: list[str] = []
    skipped: list[str] = []
    files, is_hidden = files_of(folder), not sys.stderr.isatty()
    shown = click.progressbar(read_files(folder, files), len(files), file=sys.stderr, hidden=is_hidden)
    with closing(_index(_settings(context))) as index, shown as bar:
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
        _fail(f"{folder} has no regulation: give a folder with .md, .txt or .html files", _NOT_FOUND)
    click.echo("\n".join(told))


@main.command()
@click.argument("question", required=False)
@_REGS
@_ORCHESTRATE
@click.option("--agent", default="", help="Ask one specialist only.")
@click.option("--mode", type=click.Choice(["sequential", "parallel"]), help="Of the orchestrator.")
@_MODEL
@click.option("--file", type=_FILE, help="Lines with id, question, and perhaps reg_id.")
@click.option("--json", "as_json", is_flag=True, help="Print each answer as a JSON line.")
@click.pass_context
def ask(
    context: click.Context, question: str | None, regs: tuple[str, ...], orchestrate: bool | None, agent: str,
    mode: str | None, model: str | None, file: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Ask a question, or each question of a file."""
    if (question is None) == (file is None):
        raise click.UsageError("give a question, or --file QUESTIONS.jsonl")
    settings = _settings(context, enable_orchestrator=orchestrate, orchestrator_mode=mode, model=model)
    asked = _lines(file, "id", "question") if file else iter([{"question": question}])
    is_good = asyncio.run(_ask_all(_reader(settings, agent), asked, regs, as_json))
    sys.exit(0 if is_good or file else _FAILED)


async def _ask_all(
    reader: Reader, questions: Iterator[dict[str, Any]], regs: Sequence[str], as_json: bool
) -> bool:
    is_good = True
    async with reader:
        _check(reader, regs)
        for one in questions:
            result = await reader.ask(one["question"], [one["reg_id"]] if one.get("reg_id") else regs)
            is_good = is_good and result.success
            if as_json:
                _print(_answer(one, result))
            else:
                _show(result)
    return is_good


def _answer(one: dict[str, Any], result: OrchestratorResult) -> dict[str, Any]:
    """Return the line of an answer: four fields for a file's question, more for the only one."""
    line = {"success": result.success, "content": result.content, "sources": result.sources}
    if "id" in one:
        return {"id": one["id"], **line}
    calls = [{"tool": call.tool, "arguments": call.arguments} for call in result.tool_calls]
    line |= {"tool_calls": calls, "error": result.error, "confidence": result.confidence}
    return {**line, "route": result.data.get("route", [])}


@main.command()
@_REGS
@_ORCHESTRATE
@_MODEL
@click.pass_context
def chat(context: click.Context, regs: tuple[str, ...], orchestrate: bool | None, model: str | None) -> None:
    """Ask questions one after the other.

    An empty line or the end of input ends the chat.
    """
    settings = _settings(context, enable_orchestrator=orchestrate, model=model)
    asyncio.run(_chat(_reader(settings), regs))


async def _chat(reader: Reader, regs: Sequence[str]) -> None:
    async with reader:
        _check(reader, regs)
        session = await reader.open()
        while question := (await asyncio.to_thread(_prompted)).strip():
            _show(await reader.ask_in(session, question, regs))
        await session.close()


@main.command()
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1)
@click.option("--file", type=_FILE, help="Lines with tool, arguments.")
@click.option("--json", "as_json", is_flag=True, help="Print the result on one line.")
@click.pass_context
def tool(
    context: click.Context, name: str | None, arguments: tuple[str, ...], file: Path | None, as_json: bool
) -> None:
    """Call one tool, or each of a file.

    Example: regreader tool get_table_by_id reg_id=grid-code table_id=6-2 --json
    """
    if (name is None) == (file is None):
        raise click.UsageError(f"give a tool or --file CALLS.jsonl; tools are {', '.join(TOOL_NAMES)}")
    given = dict(_pair(one) for one in arguments)
    with closing(_index(_settings(context))) as index:
        tools = Tools(index)
        for line in _lines(file, "tool") if file else ():
            _print({**line, **_called(tools, line["tool"], line.get("arguments") or {})})
        done = _called(tools, name, given) if name else {}
    if name:
        _print(done.get("result", done), None if as_json else 2)
    if "error" in done:
        sys.exit(_NOT_FOUND if done["error"]["code"] == "not_found" else _USAGE)


@main.command()
@click.pass_context
def mcp(context: click.Context) -> None:
    """Serve the tools over MCP, on stdin and stdout."""
    try:
        from regreader.mcp_server import serve
    except ModuleNotFoundError:
        _fail("this needs the SDK of MCP: pip install 'callboard[mcp]'", _USAGE)
    with closing(_index(_settings(context))) as index:
        serve(Tools(index))


# --- helpers ----------------------------------------------------------------------------


def _called(tools: Tools, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return {"result": ...} or {"error": {"code", "message"}} of a call."""
    try:
        return {"result": _result(tools, name, given)}
    except ToolFailure as error:
        return {"error": {"code": error.code, "message": str(error)}}


def _result(tools: Tools, name: str, given: dict[str, Any]) -> dict[str, Any]:
    function = tools.by_name().get(name)
    if function is None:
        raise ToolFailure("not_found", f"no tool {name!r}; tools are {', '.join(TOOL_NAMES)}")
    known = inspect.signature(function)
    numbers = [key for key, one in known.parameters.items() if one.annotation is int]
    try:
        values = {key: int(value) if key in numbers else str(value) for key, value in given.items()}
        known.bind(**values)
    except (TypeError, ValueError) as error:
        told = f"{name}: {error}; it takes {', '.join(known.parameters)}"
        raise ToolFailure("bad_argument", told) from None
    return function(**values)


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"{text!r}: write arguments as key=value")
    return key, value


def _lines(file: Path, *needed: str) -> Iterator[dict[str, Any]]:
    """Read the lines of a file of JSON objects that have some keys."""
    for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if text.strip():
            try:
                line = json.loads(text)
            except ValueError:
                _fail(f"{file}:{number}: no JSON", _USAGE)
            if not isinstance(line, dict) or any(name not in line for name in needed):
                _fail(f"{file}:{number}: a line is an object with {', '.join(needed)}", _USAGE)
            yield line


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


def _settings(context: click.Context, **arguments: object) -> Settings:
    try:
        return load({"index": context.obj["index"], **arguments}, file=context.obj["config"])
    except SettingsError as error:
        _fail(str(error), _USAGE)


def _index(settings: Settings) -> Index:
    try:
        return Index(settings.index)
    except sqlite3.Error as error:
        _fail(f"{settings.index} is no index: {error}; name another file by --index", _USAGE)


def _reader(settings: Settings, agent: str = "") -> Reader:
    _index(settings).close()
    try:
        return Reader(settings, agent)
    except UnknownAgent as error:
        _fail(str(error), _USAGE)


def _check(reader: Reader, regs: Sequence[str]) -> None:
    known = [one["reg_id"] for one in reader.tools.list_regulations()["regulations"]]
    if not known:
        _fail("nothing is imported yet: regreader import FOLDER", _NOT_FOUND)
    for reg in regs:
        if reg not in known:
            _fail(f"no regulation {reg!r}; there are {', '.join(known)}", _NOT_FOUND)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(code)
