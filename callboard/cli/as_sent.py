"""`callboard request --as-sent`: make the body of a request again, and compare it with the sent one."""

from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import Sent
from callboard.cli.errors import misused, not_found
from callboard.cli.loading import load_module
from callboard.cli.output import emit_json, emit_lines, fields
from callboard.replay.recording import Recording
from callboard.runtime.models.protocol import Model, WritesBodies, is_model, model_named


def compare(recording: Recording, asked: ModelRequest, model: str, *, as_json: bool) -> None:
    """Show if the body that is made now is the one that was sent. model: by which it is made, "" for its own.

    Raises Failure for an answer without a digest, and for a model that does not write bodies.
    """
    sent = _sent(recording, asked)
    writer = _model(model or asked.model.name)
    if not isinstance(writer, WritesBodies):
        raise misused(f"the model {asked.model.name!r} does not tell what it sends")
    now = writer.written(asked)
    verdict = "same" if now.digest == sent.digest else "differs"
    if as_json:
        emit_json({"result": verdict, "sent": _plain(sent), "now": _plain(now)})
        return
    emit_lines(
        fields(
            {
                "result": verdict,
                "sent": f"{sent.digest} by {sent.made_by}",
                "now": f"{now.digest} by {now.made_by}",
            }
        )
    )


def _plain(sent: Sent) -> dict[str, str]:
    return {"digest": sent.digest, "made_by": sent.made_by}


def _sent(recording: Recording, asked: ModelRequest) -> Sent:
    for event in recording.events:
        body, is_own = event.body, event.recipient == asked.address
        if (
            isinstance(body, ModelReplied)
            and is_own
            and (body.turn, body.attempt) == (asked.turn, asked.attempt)
            and body.sent is not None
        ):
            return body.sent
    raise not_found(
        f"the log does not say what was sent for turn {asked.turn}, attempt {asked.attempt} of "
        f"{asked.address}: the call has no answer, or its model does not tell"
    )


def _model(name: str) -> Model:
    """Return the model of a name, `provider:name` or `module:attribute`."""
    source, _, attribute = name.rpartition(":")
    if source.endswith(".py") or "." in source or "/" in source:
        found = getattr(load_module(source), attribute, None)
        if not is_model(found):
            raise misused(f"{name!r} is no model: {found!r:.80}")
        return found
    return model_named(name)
