"""Approval questions on the terminal, one at a time: the tree makes room and is drawn again below."""

import asyncio
import contextlib
import getpass
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import click
import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.cli.live import LiveTree
from callboard.cli.output import talk
from callboard.cli.terminal_escape import indented, safe_line, safe_text
from callboard.cli.typing_ahead import InputEnded, TypingAhead, filled
from callboard.runtime.approvals import Approval, ApprovalAnswer, Said
from callboard.runtime.sanitize import check_json
from callboard.runtime.tools.input_forms import Form, forms_of

Mode = Literal["ask", "wait", "all", "none"]

SHOWN_CHARS_MAX: Final = 4_000
_YES: Final = frozenset({"y", "yes"})
_ALWAYS: Final = frozenset({"a", "always"})
_REUSE: Final = frozenset({"r", "reuse"})
_NO: Final = frozenset({"", "n", "no"})


class Approver:
    """The approver of a `Runtime`.

    view: the tree on the terminal, once there is one. typing: the reader of other lines, if there is one.
    """

    def __init__(self, mode: Mode) -> None:
        self.view: LiveTree | None = None
        self.typing: TypingAhead | None = None
        self._mode = mode
        self._turn = asyncio.Lock()

    async def __call__(self, question: Approval) -> Said:
        """Return True to let the call run, or the reason for the model why not.

        None: the answer comes, or has come, another way.
        """
        if self._mode == "wait":
            return None
        if self._mode == "all":
            return True
        if self._mode == "none":
            return "this run approves no calls (--approve none)"
        if not sys.stdin.isatty():
            return (
                "no person can be asked: stdin is not a terminal (--approve wait waits for `callboard "
                "approvals`, --approve all allows every call)"
            )
        async with self._turn:
            return await self._ask(question)

    async def _ask(self, question: Approval) -> Said:
        with contextlib.ExitStack() as stack:
            if self.view is not None and self.view.is_live:
                self.view.close()
                stack.callback(self.view.start)
            if self.typing is not None:  # the next line answers the question
                self.typing.stop()
                stack.callback(self.typing.start)
            for line in lines(question):
                talk(line)
            is_form = question.round > 0
            talk(_choices(question))
            while question.is_open:  # until the arguments fit
                with _told():
                    answer = verdict(await _typed("Let it run? [y/N, or why not] "), is_form=is_form)
                    _settled(question, await _with_values(question, answer))
        return None


async def _with_values(question: Approval, answer: ApprovalAnswer) -> ApprovalAnswer:
    """Return an answer with the values of the question's forms, asked for one by one if it has none."""
    forms = [form for form in forms_of(question.forms_json) if form.fields]
    if not answer.is_approved or answer.values is not None or not forms:
        return answer
    try:
        return answer._replace(values=await filled(forms, _typed))
    except InputEnded:
        return answer._replace(is_approved=False)


def _choices(question: Approval) -> str:
    """Return the words that answer a question."""
    if question.is_fork:
        return "y = yes, n = no" + (", r = reuse the recorded result" if question.same else "")
    if question.round > 0:
        return "y = yes, field by field, n = no, {...} = values for the form"
    always = "" if question.is_repeat else ", a = always"
    return f"y = yes, n = no{always}, {{...}} = yes with these arguments"


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Tell the person about an answer that cannot be given."""
    try:
        yield
    except MisuseError as error:
        talk(safe_text(str(error)))


def lines(question: Approval) -> list[str]:
    """Return the lines of a question."""
    who = f"{question.address} ({question.profile})" if question.profile else question.address
    arguments = safe_text(question.arguments_json)
    if len(arguments) > SHOWN_CHARS_MAX:
        left = len(arguments) - SHOWN_CHARS_MAX
        arguments = f"{arguments[:SHOWN_CHARS_MAX]} ... and {left} characters more"
    found = [f"{safe_line(who)} wants to call {safe_line(question.tool)}, effect {question.effect}, with"]
    found += indented(arguments).splitlines()
    if question.is_repeat:
        found.append("It was interrupted before and may have taken effect: check before you allow it.")
    return found + fork_lines(question.is_fork, question.same) + form_lines(question.forms_json)


def fork_lines(is_fork: bool, same: int) -> list[str]:
    """Return the lines about a call of a fork. same: the seq of the recorded result of the same call."""
    found = ["The recording has no result of this call, so that it would run now."] * is_fork
    return found + [f"Event {same} of the recording is the result of the same call in another turn."] * (
        same > 0
    )


def form_lines(forms: msgspec.Raw) -> list[str]:
    """Return the lines of the forms of a call that asks for input. The text is a stranger's."""
    found: list[str] = []
    for form in forms_of(Json(forms)):
        found.append(f"It asks for input: {safe_line(form.message, SHOWN_CHARS_MAX)}")
        if form.url:
            found.append(
                f"  Visit this address yourself, if you trust it: {safe_line(form.url, SHOWN_CHARS_MAX)}"
            )
        found += [_field_line(form, name, field) for name, field in form.fields.items()]
    return found


def _field_line(form: Form, name: str, field: Mapping[str, object]) -> str:
    marks = [str(field.get("type", "any"))]
    marks += [
        word for word, names in (("required", form.required), ("secret", form.secrets)) if name in names
    ]
    about = field.get("description") or field.get("title") or ""
    choices = f", one of {field['enum']}" if "enum" in field else ""
    return "  " + safe_line(f"{name} ({', '.join(marks)}){choices}: {about}".removesuffix(": "), 1_000)


def verdict(line: str, *, is_form: bool = False) -> ApprovalAnswer:
    """Read a typed line: yes, always, reuse, yes with other arguments, no, or the reason for a no.

    is_form: the object is the values of a form. Raises InvalidPrompt for one that is not a JSON object.
    """
    word, by = line.strip(), user_name()
    if word.lower() in _YES | _ALWAYS:
        return ApprovalAnswer(True, by=by, is_always=word.lower() in _ALWAYS)
    if word.lower() in _REUSE:
        return ApprovalAnswer(True, by=by, reuses=True)
    if word.startswith("{"):
        what = "The values" if is_form else "The arguments"
        given = msgspec.json.decode(check_json(word, what=what), type=dict[str, object])
        return (
            ApprovalAnswer(True, by=by, values=given)
            if is_form
            else ApprovalAnswer(True, by=by, arguments=given)
        )
    return ApprovalAnswer(False, "" if word.lower() in _NO else word, by)


def user_name() -> str:
    """Return the name of the person at this computer, as the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return f"user {os.getuid()}" if hasattr(os, "getuid") else ""


def _settled(question: Approval, answer: ApprovalAnswer) -> None:
    """Answer a question. Raises MisuseError for an answer that cannot be given."""
    if answer.reuses:
        question.reuse(by=answer.by)
    elif answer.is_approved:
        always, values = answer.is_always, answer.values
        question.approve(by=answer.by, arguments=answer.arguments, always=always, values=values)
    else:
        question.deny(answer.note, by=answer.by)


async def _typed(prompt: str, is_secret: bool = False) -> str:
    """Show a prompt and read one line from the terminal; empty at its end. A secret is not shown."""
    # Before the prompt: who sees it may type at once.
    with without_echo(sys.stdin.fileno()) if is_secret else contextlib.nullcontext():
        click.echo(prompt, nl=False, err=True)
        line = await _line()
    if is_secret:
        click.echo(err=True)  # the line break was not shown either
    return line


@contextlib.contextmanager
def without_echo(terminal: int) -> Iterator[None]:
    """Let a terminal show nothing that is typed. terminal: its file descriptor."""
    import termios  # not on every system; those without it have no terminal to ask on

    before = termios.tcgetattr(terminal)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def _line() -> str:
    """Read one line; empty at the end of input."""
    loop = asyncio.get_running_loop()  # a thread that waits for a line could not be cancelled
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        return await typed
    finally:
        loop.remove_reader(sys.stdin.fileno())
