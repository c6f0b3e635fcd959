"""The command `regreader`: import, ask, chat, tool, mcp. Answers on stdout, words on stderr."""

import asyncio
import codecs
import inspect
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import click
import msgspec

from callboard import CallboardError, OrchestratorResult
from regreader.importing import files_of, read_files
from regreader.index import Index
from regreader.reader import Reader
from regreader.settings import NAMES, Settings, SettingsError, load
from regreader.tools import TOOL_NAMES, Found, ToolFailure, Tools, on_loop

T = TypeVar("T")
Load = Callable[..., Settings]
File = IO[bytes] | None
Answer = Callable[..., OrchestratorResult]  # of a question, and perhaps a regulation
_EXITS = {"bad_argument": 2, "not_found": 3}
_FILE = click.option("--file", type=click.File("rb"), help="A file of JSON lines; - for stdin.")
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print each result as a line of JSON.")
_ASKING = (
    click.Option(["-r", "--reg", "regs"], multiple=True, help="Id of a regulation; without it, all."),
    click.Option(["--agent"], type=click.Choice(NAMES), help="Ask this specialist only, enabled or not."),
    click.Option(["-o", "--orchestrate/--no-orchestrate", "enable_orchestrator"], default=None,
                 help="Ask specialists instead of one agent."),
    click.Option(["--mode", "orchestrator_mode"], help="sequential or parallel."),
    click.Option(["--subagents", "enabled_subagents"], help="The specialists, such as table,discovery."),
    click.Option(["--max-iterations", "subagent_max_iterations"], help="Model calls of a specialist."),
    click.Option(["--model"], help='Such as "anthropic:claude-sonnet-5"; without one, offline policies.'),
)  # fmt: skip


class _Question(msgspec.Struct):
    id: Any
    question: Annotated[str, msgspec.Meta(min_length=1)]
    reg_id: str | None = None


class _Call(msgspec.Struct):
    tool: str
    arguments: dict[str, Any] | None = None


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Its failure is told on stderr, with an exit code."""
        try:
            return super().invoke(ctx)
        except sqlite3.Error as error:
            told = f"{ctx.obj().index} is no index that works: {error}; name another file by --index"
            raise click.UsageError(told) from None
        except (CallboardError, SettingsError, ToolFailure, UnicodeEncodeError) as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(_EXITS[getattr(error, "code", "bad_argument")])


@click.group(cls=_Commands)
@click.option("--index", help="File of the index (regreader.db).")
@click.option("--config", envvar="REGREADER_CONFIG", type=Path, help="A file of settings (regreader.toml).")
@click.pass_context
def main(context: click.Context, index: str | None, config: Path | None) -> None:
    """Read regulations: pages, sections, tables, notes and references."""
    context.obj = lambda **arguments: load({"index": index, **arguments}, file=config)


@main.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.pass_obj
def import_folder(settings: Load, folder: Path) -> None:
    """Import a folder: each Markdown, text and HTML file is a regulation, and its name is its id."""
    files, told = files_of(folder), {False: "", True: ""}
    reading, is_piped = read_files(folder, files), not sys.stderr.isatty()
    shown = click.progressbar(reading, len(files), file=sys.stderr, hidden=is_piped)
    with closing(Index(settings().index)) as index, shown as bar:
        for one in bar:
            if isinstance(one, str):
                told[True] += f"skipped {one}\n"
            else:
                index.put(one)
                sizes = f"pages {len(one.pages)}, sections {len(one.sections)}, tables {len(one.tables)}"
                told[False] += f"{one.id}: {one.title} ({sizes})\n"
    for is_error, text in told.items():
        click.echo(text, nl=False, err=is_error)
    if not told[False]:
        raise ToolFailure("not_found", f"{folder} has no regulation: give .md, .txt or .html files")


@main.command(params=[*_ASKING])
@click.argument("question", required=False)
@_FILE
@_AS_JSON
@click.pass_obj
def ask(settings: Load, /, question: str | None, file: File, as_json: bool, **asking: Any) -> None:
    """Ask a question, or each of a file: lines with id, question, and perhaps reg_id."""
    if (question is None) == (file is None):
        raise click.UsageError("give a question, or --file QUESTIONS.jsonl")
    with _answering(settings, **asking) as answer:
        if file is None:
            result = answer(question or "")
            line = {"route": result.data.get("route", [])}
            _show(result, line if as_json else None, "tool_calls", "error", "confidence")
            sys.exit(not result.success)
        for line, one in _lines(file, _Question):
            no_answer = OrchestratorResult(False, error=str(one))
            result = answer(one.question, one.reg_id) if isinstance(one, _Question) else no_answer
            _show(result, {"id": line.get("id")} if as_json else None, *([] if result.success else ["error"]))


@main.command(params=[*_ASKING])
@click.pass_obj
def chat(settings: Load, /, **asking: Any) -> None:
    """Ask questions one after the other. An empty line or the end of input ends the chat."""
    with _answering(settings, **asking) as answer:
        while True:
            if sys.stdin.isatty():
                click.echo("> ", nl=False, err=True)
            question = sys.stdin.buffer.readline().decode(errors="replace").strip()
            if not question:
                break
            _show(answer(question))


@main.command()
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1)
@_FILE
@_AS_JSON
@click.pass_obj
def tool(settings: Load, name: str | None, arguments: Sequence[str], file: File, as_json: bool) -> None:
    """Call a tool, or each of a file. Example: regreader tool get_table_by_id reg_id=code table_id=6-2"""
    if (name is None) == (file is None):
        raise click.UsageError(f"give a tool or --file CALLS.jsonl; tools are {', '.join(TOOL_NAMES)}")
    if wrong := next((one for one in arguments if "=" not in one), ""):
        raise click.UsageError(f"{wrong!r}: write arguments as key=value")
    with closing(Index(settings().index)) as index:
        tools = Tools(index)
        if file is None:
            done = _called(tools, _Call(name or "", dict(one.split("=", 1) for one in arguments)))
            _print(done.get("result", done), None if as_json else 2)
            sys.exit(_EXITS[done["error"]["code"]] if "error" in done else 0)
        for line, one in _lines(file, _Call):
            _print({**line, **_called(tools, one)})


@main.command()
@click.pass_obj
def mcp(settings: Load) -> None:
    """Serve the tools over MCP, on stdin and stdout."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ModuleNotFoundError:
        raise click.UsageError("this needs the SDK of MCP: pip install 'callboard[mcp]'") from None
    server = MCPServer("regreader", instructions=f"Begin with list_regulations. {inspect.getdoc(Tools)}")
    with closing(Index(settings().index)) as index:
        for function in Tools(index).by_name().values():
            server.add_tool(on_loop(function, ToolError))
        server.run("stdio")


@contextmanager
def _answering(settings: Load, /, regs: Sequence[str], agent: str | None, **given: Any) -> Iterator[Answer]:
    """Open a reader. Its loop runs only while it answers, so that Ctrl-C ends a wait for a question."""
    if agent:
        given |= {"enable_orchestrator": True, "enabled_subagents": agent}
    with asyncio.Runner() as runner:
        reader = runner.run(Reader(settings(**given)).__aenter__())
        try:
            reader.tools.check(regs)
            yield lambda question, reg=None: runner.run(reader.ask(question, [reg] if reg else regs))
        finally:
            runner.run(reader.aclose())


def _lines(file: IO[bytes], kind: type[T]) -> Iterator[tuple[Found, T | str]]:
    """Read lines of JSON: each as it is, and as a `kind`; or why it is none, told by a ToolFailure, too."""
    wrong: list[str] = []
    for number, text in enumerate(file, 1):
        line: Found = {}
        try:
            if text.strip():
                line = msgspec.json.decode(text.removeprefix(codecs.BOM_UTF8), type=Found)
                yield line, msgspec.convert(line, kind)
        except (ValueError, RecursionError) as error:
            wrong.append(f"{file.name}:{number}: {error}")
            yield line, wrong[-1]
    if wrong:
        raise ToolFailure("bad_argument", "\n".join(wrong))


def _called(tools: Tools, call: _Call | str) -> Found:
    """Return {"result": ...} or {"error": {"code", "message"}} of a call, or of a line that is none."""
    try:
        if isinstance(call, str):
            raise ToolFailure("bad_argument", call)
        return {"result": tools.call(call.tool, call.arguments or {})}
    except ToolFailure as error:
        return {"error": {"code": error.code, "message": str(error)}}


def _show(result: OrchestratorResult, line: Found | None = None, *more: str) -> None:
    """Print an answer, as text or as JSON. line: fields of the JSON. more: the names of further ones."""
    if line is None:
        said = result.content if result.success else f"I do not know: {result.error}"
        click.echo("\n".join([said, *(f"  [{source}]" for source in result.sources)]))
    else:
        names = ("success", "content", "sources", *more)
        _print(line | {name: msgspec.to_builtins(getattr(result, name)) for name in names})


def _print(value: object, indent: int | None = None) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=indent))
