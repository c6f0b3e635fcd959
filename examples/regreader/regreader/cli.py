"""The command `regreader`: import, ask, chat, tool. Answers on stdout, words on stderr."""

import asyncio
import codecs
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import click
import msgspec

from callboard.errors import CallboardError
from callboard.orchestrator import OrchestratorResult
from regreader.frameworks import FRAMEWORKS
from regreader.importing import files_of, read_files
from regreader.index import Index
from regreader.reader import SPECIALISTS, Reader, Settings
from regreader.tools import TOOL_NAMES, Found, ToolFailure, Tools

Answer = Callable[..., OrchestratorResult]  # of a question, and perhaps a regulation
_EXITS = {"bad_argument": 2, "not_found": 3}
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print each result as a line of JSON.")
_ASKING = (
    click.Option(["-r", "--reg", "regs"], multiple=True, help="Id of a regulation; without it, all."),
    click.Option(["--specialist"], type=click.Choice(SPECIALISTS), help="Ask this specialist only."),
    click.Option(["--framework"], type=click.Choice(FRAMEWORKS), help="Ask specialists of this framework."),
    click.Option(["-o", "--orchestrate/--no-orchestrate"], help="Ask specialists instead of one agent."),
    click.Option(["--mode"], type=click.Choice(["sequential", "parallel"]), help="sequential or parallel."),
    click.Option(["--max-iterations"], type=click.IntRange(1), help="Model calls of a specialist (6)."),
    click.Option(["--model"], help='Such as "anthropic:claude-sonnet-5"; without one, offline policies.'),
)


class _Question(msgspec.Struct):
    id: Any
    question: Annotated[str, msgspec.Meta(min_length=1)]
    reg_id: str | None = None


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Its failure is told on stderr, with an exit code."""
        try:
            return super().invoke(ctx)
        except sqlite3.Error as error:
            told = f"{ctx.obj} is not an index that works: {error}; name another file by --index"
            raise click.UsageError(told) from None
        except (CallboardError, ToolFailure, UnicodeEncodeError) as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(_EXITS[getattr(error, "code", "bad_argument")])


@click.group(cls=_Commands, context_settings={"auto_envvar_prefix": "REGREADER"})
@click.option("--index", default="regreader.db", help="File of the index (regreader.db).")
@click.pass_context
def main(context: click.Context, index: str) -> None:
    """Read regulations: sections, tables, notes and references."""
    context.obj = index


@main.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.pass_obj
def import_folder(index: str, folder: Path) -> None:
    """Import a folder: each Markdown, text and HTML file is a regulation, and its name is its id."""
    files, count = files_of(folder), 0
    shown = click.progressbar(
        read_files(folder, files), len(files), file=sys.stderr, hidden=not sys.stderr.isatty()
    )
    told: list[tuple[str, bool]] = []
    with closing(Index(index)) as opened, shown as bar:
        for one in bar:
            if isinstance(one, str):
                told.append((f"skipped {one}", True))
            else:
                opened.put(one)
                count += 1
                told.append((f"{one.id}: {one.title} ({one.summary})", False))
    for text, is_error in told:
        click.echo(text, err=is_error)
    if not count:
        raise ToolFailure("not_found", f"{folder} has no regulation: give .md, .txt or .html files")


@main.command(params=[*_ASKING])
@click.argument("question", required=False)
@click.option("--file", type=click.File("rb"), help="A file of JSON lines; - for stdin.")
@_AS_JSON
@click.pass_obj
def ask(index: str, /, question: str | None, file: IO[bytes] | None, as_json: bool, **asking: Any) -> None:
    """Ask a question, or each of a file: lines with id, question, and perhaps reg_id."""
    if (question is None) == (file is None):
        raise click.UsageError("give a question, or --file QUESTIONS.jsonl")
    with _answering(index, False, **asking) as answer:
        if file is None:
            result = answer(question or "")
            line = {"route": result.data.get("route", [])}
            _show(result, line if as_json else None, "tool_calls", "error", "confidence")
            sys.exit(not result.success)
        for line, one in _lines(file):
            result = (
                OrchestratorResult(False, error=one)
                if isinstance(one, str)
                else answer(one.question, one.reg_id)
            )
            _show(result, {"id": line.get("id")} if as_json else None, *([] if result.success else ["error"]))


@main.command(params=[*_ASKING])
@click.pass_obj
def chat(index: str, /, **asking: Any) -> None:
    """Ask questions that may go on from the last one. An empty line or the end of input ends the chat."""
    with _answering(index, True, **asking) as answer:
        while True:
            click.echo("> " * sys.stdin.isatty(), nl=False, err=True)
            question = sys.stdin.buffer.readline().decode(errors="replace").strip()
            if not question:
                break
            _show(answer(question))


@main.command()
@click.argument("name", metavar=f"[{'|'.join(TOOL_NAMES)}]")
@click.argument("arguments", nargs=-1)
@_AS_JSON
@click.pass_obj
def tool(index: str, name: str, arguments: Sequence[str], as_json: bool) -> None:
    """Call a tool. Example: regreader tool get_table_by_id reg_id=code table_id=6-2"""
    if wrong := next((one for one in arguments if "=" not in one), ""):
        raise click.UsageError(f"{wrong!r}: write arguments as key=value")
    with closing(Index(index)) as opened:
        try:
            found, code = Tools(opened).call(name, dict(one.split("=", 1) for one in arguments)), 0
        except ToolFailure as error:
            if not as_json:
                raise
            found, code = {"error": {"code": error.code, "message": str(error)}}, _EXITS[error.code]
    click.echo(json.dumps(found, ensure_ascii=False, indent=None if as_json else 2))
    sys.exit(code)


@contextmanager
def _answering(index: str, is_chat: bool, /, regs: Sequence[str], **given: Any) -> Iterator[Answer]:
    """Open a reader. Its loop runs only while it answers, so that Ctrl-C ends a wait for a question."""
    settings = Settings(index, **{name: value for name, value in given.items() if value is not None})
    with asyncio.Runner() as runner:
        reader = runner.run(Reader(settings).__aenter__())
        ask = reader.chat if is_chat else reader.ask
        try:
            reader.tools.check(regs)
            yield lambda question, reg=None: runner.run(ask(question, [reg] if reg else regs))
        finally:
            runner.run(reader.aclose())


def _lines(file: IO[bytes]) -> Iterator[tuple[Found, _Question | str]]:
    """Yield each line of JSON with its question, or the reason why it has none; then raise ToolFailure."""
    wrong: list[str] = []
    for number, text in enumerate(file, 1):
        line: Found = {}
        try:
            if text.strip():
                line = msgspec.json.decode(text.removeprefix(codecs.BOM_UTF8), type=Found)
                yield line, msgspec.convert(line, _Question)
        except (ValueError, RecursionError) as error:
            wrong.append(f"{file.name}:{number}: {error}")
            yield line, wrong[-1]
    if wrong:
        raise ToolFailure("bad_argument", "\n".join(wrong))


def _show(result: OrchestratorResult, line: Found | None = None, *more: str) -> None:
    """Print an answer, as text or as JSON. line: fields of the JSON. more: the names of further ones."""
    if line is None:
        said = result.content if result.success else f"I do not know: {result.error}"
        click.echo("\n".join([said, *(f"  [{source}]" for source in result.sources)]))
    else:
        names = ("success", "content", "sources", *more)
        found = line | {name: msgspec.to_builtins(getattr(result, name)) for name in names}
        click.echo(json.dumps(found, ensure_ascii=False))
