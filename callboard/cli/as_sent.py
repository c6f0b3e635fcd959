"""`callboard request --as-sent`: a request as it was sent, and if it would be sent so again."""

import hashlib
import sys
from typing import NamedTuple

import click
from rich.text import Text

from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import Sent
from callboard.cli.errors import misused, not_found
from callboard.cli.loading import load_module
from callboard.cli.output import emit, emit_json, emit_lines, fields, talk
from callboard.replay.grants import SentRequest
from callboard.replay.recording import Recording
from callboard.runtime.models.protocol import Model, RepairsReplies, WritesBodies, is_model, model_named


class Compared(NamedTuple):
    """The body that was sent and the one that is made now. now: None if it cannot be made; why: then.

    level: at which replies are repaired. repairs: the changes in them, in words.
    """

    was: SentRequest
    now: Sent | None
    why: str = ""
    level: int = 0
    repairs: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Return `same` or `differs`; `unknown` if the body cannot be made again."""
        if self.now is None:
            return "unknown"
        return "same" if self.now.digest == self.was.sent.digest else "differs"

    @property
    def is_redacted(self) -> bool:
        """Return whether secrets were taken out of the body that was kept."""
        return hashlib.sha256(self.was.body).hexdigest() != self.was.sent.digest


def compare(recording: Recording, asked: ModelRequest, model: str, *, as_json: bool) -> None:
    """Show if the body that is made now is the one that was sent; the body that was sent, if it was kept.

    model: by which it is made, "" for its own. Raises Failure for an answer without a digest, and for a model
    that does not write bodies, unless the body was kept.
    """
    compared = _compared(recording, asked, model)
    if as_json:
        emit_json(_as_json(compared))
    elif compared.was.body:
        _emit_body(compared)
    else:
        emit_lines(_lines(compared))


def _compared(recording: Recording, asked: ModelRequest, model: str) -> Compared:
    was = recording.sent(asked)
    if was is None:
        raise not_found(
            f"the log does not say what was sent for turn {asked.turn}, attempt {asked.attempt} of "
            f"{asked.address}: the call has no answer, its request was never sent, or its model does not "
            "report it"
        )
    try:
        writer = _model(model or asked.model.name)
        if not isinstance(writer, WritesBodies):
            raise misused(f"the model {asked.model.name!r} does not report what it sends")
        repairs = writer.repairs(asked) if isinstance(writer, RepairsReplies) else ()
        return Compared(was, writer.written(asked), level=asked.repair.level, repairs=repairs)
    except (CallboardError, click.ClickException) as error:
        if not was.body:
            raise
        return Compared(was, None, error.message if isinstance(error, click.ClickException) else str(error))


def _as_json(compared: Compared) -> dict[str, object]:
    was, now = compared.was, compared.now
    found: dict[str, object] = {"result": compared.verdict, "sent": _plain(was.sent)}
    if now is not None:
        found["now"] = _plain(now)
    if compared.level or compared.repairs:
        found |= {"repair_level": compared.level, "repaired": compared.repairs}
    if was.body:
        found |= {"body": was.body.decode(), "redacted": compared.is_redacted}
    return found


def _plain(sent: Sent) -> dict[str, str]:
    return {"digest": sent.digest, "made_by": sent.made_by}


def _lines(compared: Compared) -> list[Text]:
    sent, now = compared.was.sent, compared.now
    made = f"{now.digest} by {now.made_by}" if now is not None else compared.why
    lines = {"result": compared.verdict, "sent": f"{sent.digest} by {sent.made_by}", "now": made}
    if compared.level or compared.repairs:
        lines["repaired"] = f"at level {compared.level}"
    return fields(lines) + [Text(f"  {one}") for one in compared.repairs]


def _emit_body(compared: Compared) -> None:
    """Print the body that was kept, and the comparison on stderr."""
    for line in _lines(compared):
        talk(line.plain)
    if compared.is_redacted:
        talk("secrets were removed from the body below, so its digest differs")
    if sys.stdout.isatty():
        emit(compared.was.body.decode())
    else:  # byte for byte, for `sha256sum`: nothing in a pipe steers a terminal
        sys.stdout.flush()
        sys.stdout.buffer.write(compared.was.body)


def _model(name: str) -> Model:
    """Return the model of a name, `provider:name` or `module:attribute`."""
    source, _, attribute = name.rpartition(":")
    # Up to the first colon only: names of models may hold dots and slashes, and a colon of their own.
    first = name.partition(":")[0]
    if first.endswith(".py") or "." in first or "/" in first:
        found = getattr(load_module(source), attribute, None)
        if not is_model(found):
            raise misused(f"{name!r} is not a model: {found!r:.80}")
        return found
    return model_named(name)
