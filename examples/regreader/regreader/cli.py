"""The command `regreader`: import, ask, chat, tool, mcp. Answers on stdout, words on stderr."""

import asyncio
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import click

from callboard import OrchestratorResult
from regreader.importing import Skipped, read_folder
from regreader.index import Index
from regreader.reader import Reader, UnknownAgent
from regreader.settings import Settings, SettingsError, load
from regreader.tools import TOOL_NAMES, ToolFailure, Tools

_FAILED, _USAGE, _NOT_FOUND = 1, 2, 3


@click.group()
@click.option("--index", help="File of the index (regreader.db).")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with settings (regreader.toml).")
@click.pass_context
def main(context: click.Context, index: str | None, config: Path | None) -> None:
    """Read regulations: pages, sections, tables, notes and references."""
    context.obj = {"index": index, "config": config}


@main.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON line for each file.")
@click.pass_context
def import_folder(context: click.Context, folder: Path, as_json: bool) -> None:
    """Import each Markdown, text and HTML file of a folder as one regulation, named as its file."""
    index = Index(_settings(context).index)
    count = 0
    line: dict[str, object]
    for one in read_folder(folder):
        if isinstance(one, Skipped):
            words, line = f"skipped {one.path}: {one.reason}", {"file": one.path, "skipped": one.reason}
        else:
            index.put(one)
            count += 1
            sizes: dict[str, object] = {
                "pages": len(one.pages),
                "sections": len(one.sections),
                "tables": len(one.tables),
            }
            line = {"reg_id": one.id, "title": one.title, **sizes}
            words = f"{one.id}: {one.title} ({', '.join(f'{size} {name}' for name, size in sizes.items())})"
        is_word = isinstance(one, Skipped) and not as_json
        click.echo(json.dumps(line, ensure_ascii=False) if as_json else words, err=is_word)
    index.close()
    if not count:
        _fail(f"{folder} has no regulation: give a folder with .md, .txt or .html files", _NOT_FOUND)


@main.command()
@click.argument("question", required=False)
@click.option("-r", "--reg", "regs", multiple=True, help="Id of a regulation; without it all are asked.")
@click.option("-o", "--orchestrate", is_flag=True, default=None, help="Ask specialists instead of one agent.")
@click.option("--agent", default="", help="Ask one specialist only.")
@click.option("--mode", type=click.Choice(["sequential", "parallel"]), help="Of the orchestrator.")
@click.option("--model", help='A model, such as "anthropic:claude-sonnet-5"; without one, offline policies.')
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Lines with id, question, reg_id.",
)
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def ask(
    context: click.Context, question: str | None, regs: tuple[str, ...], orchestrate: bool | None, agent: str,
    mode: str | None, model: str | None, file: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Ask a question, or each question of a file."""
    if (question is None) == (file is None):
        raise click.UsageError("give a question, or --file QUESTIONS.jsonl")
    settings = _settings(context, enable_orchestrator=orchestrate, orchestrator_mode=mode, model=model)
    is_good = asyncio.run(
        _ask_all(_reader(settings, agent), _questions(question, file), regs, file is not None, as_json)
    )
    sys.exit(0 if is_good else _FAILED)


async def _ask_all(
    reader: Reader, questions: Iterator[dict[str, Any]], regs: tuple[str, ...], is_file: bool, as_json: bool
) -> bool:
    is_good = True
    async with reader:
        _check_regulations(reader, regs)
        for one in questions:
            scope = [one["reg_id"]] if one.get("reg_id") else list(regs)
            result = await reader.ask(one["question"], scope)
            is_good = is_good and (result.success or is_file)
            if as_json:
                click.echo(json.dumps(_line(one, result) if is_file else _full(result), ensure_ascii=False))
            else:
                _show(result)
    return is_good


@main.command()
@click.option("-r", "--reg", "regs", multiple=True, help="Id of a regulation; without it all are asked.")
@click.option("-o", "--orchestrate", is_flag=True, default=None, help="Ask specialists instead of one agent.")
@click.option("--model", help="A model; without one, offline policies.")
@click.pass_context
def chat(context: click.Context, regs: tuple[str, ...], orchestrate: bool | None, model: str | None) -> None:
    """Ask questions one after the other; an empty line or the end of input ends the chat."""
    settings = _settings(context, enable_orchestrator=orchestrate, model=model)
    asyncio.run(_chat(_reader(settings, ""), regs))


async def _chat(reader: Reader, regs: tuple[str, ...]) -> None:
    async with reader:
        _check_regulations(reader, regs)
        session = await reader.open()
        while question := (await asyncio.to_thread(_prompted)).strip():
            _show(await reader.ask_in(session, question, regs))
        await session.close()


@main.command()
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1)
@click.option(
    "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Lines with tool, arguments."
)
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def tool(
    context: click.Context, name: str | None, arguments: tuple[str, ...], file: Path | None, as_json: bool
) -> None:
    """Call a tool: regreader tool get_table_by_id reg_id=grid-code table_id=6-2 --json."""
    if (name is None) == (file is None):
        raise click.UsageError(f"give a tool or --file CALLS.jsonl; tools are {', '.join(TOOL_NAMES)}")
    tools = Tools(Index(_settings(context).index))
    if file is not None:
        for line in _lines(file, ("tool",)):
            click.echo(
                json.dumps(
                    {**line, **_called(tools, line["tool"], line.get("arguments") or {})}, ensure_ascii=False
                )
            )
        return
    done = _called(tools, name or "", dict(_pair(one) for one in arguments))
    click.echo(json.dumps(done.get("result", done), ensure_ascii=False, indent=None if as_json else 2))
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
    serve(Tools(Index(_settings(context).index)))


# --- helpers ----------------------------------------------------------------------------


def _called(tools: Tools, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return {"result": ...} or {"error": {"code", "message"}} of a call."""
    found = tools.by_name().get(name)
    if found is None:
        return _error("not_found", f"no tool {name!r}; tools are {', '.join(TOOL_NAMES)}")
    signature = inspect.signature(found)
    try:
        values = {key: _typed(signature.parameters, key, value) for key, value in given.items()}
        signature.bind(**values)
        return {"result": found(**values)}
    except ToolFailure as error:
        return _error(error.code, str(error))
    except (TypeError, ValueError) as error:
        return _error("bad_argument", f"{name}: {error}; it takes {', '.join(signature.parameters)}")


def _typed(parameters: Any, key: str, value: Any) -> Any:
    if key not in parameters:
        raise TypeError(f"no argument {key!r}")
    if parameters[key].annotation is int:
        return int(value)
    return value if isinstance(value, str) else str(value)


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"{text!r}: write arguments as key=value")
    return key, value


def _questions(question: str | None, file: Path | None) -> Iterator[dict[str, Any]]:
    return iter([{"question": question}]) if file is None else _lines(file, ("id", "question"))


def _lines(file: Path, needed: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError:
            _fail(f"{file}:{number}: no JSON", _USAGE)
        if not isinstance(line, dict) or any(name not in line for name in needed):
            _fail(f"{file}:{number}: a line is an object with {', '.join(needed)}", _USAGE)
        yield line


def _line(one: dict[str, Any], result: OrchestratorResult) -> dict[str, Any]:
    return {
        "id": one["id"],
        "success": result.success,
        "content": result.content,
        "sources": list(result.sources),
    }


def _full(result: OrchestratorResult) -> dict[str, Any]:
    calls = [{"tool": one.tool, "arguments": one.arguments} for one in result.tool_calls]
    return {
        "success": result.success, "content": result.content, "sources": list(result.sources),
        "tool_calls": calls, "error": result.error, "confidence": result.confidence,
        "route": result.data.get("route", []),
    }  # fmt: skip


def _show(result: OrchestratorResult) -> None:
    click.echo(result.content if result.success else f"I do not know: {result.error}")
    for source in result.sources:
        click.echo(f"  [{source}]")


def _prompted() -> str:
    click.echo("> ", nl=False, err=True)
    return sys.stdin.readline()


def _settings(context: click.Context, **arguments: object) -> Settings:
    try:
        return load({"index": context.obj["index"], **arguments}, file=context.obj["config"])
    except SettingsError as error:
        _fail(str(error), _USAGE)


def _reader(settings: Settings, agent: str) -> Reader:
    try:
        return Reader(settings, agent=agent)
    except UnknownAgent as error:
        _fail(str(error), _USAGE)


def _check_regulations(reader: Reader, regs: tuple[str, ...]) -> None:
    known = [one["reg_id"] for one in reader.tools.list_regulations()["regulations"]]
    for reg in regs:
        if reg not in known:
            _fail(f"no regulation {reg!r}; there are {', '.join(known) or 'none'}", _NOT_FOUND)
    if not known:
        _fail("nothing is imported yet: regreader import FOLDER", _NOT_FOUND)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(code)
