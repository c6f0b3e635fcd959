"""The outcome of a call whose tool returned a `ToolOutput`.

    a model      reads one rendering of it
    a program    gets the result as JSON, or the error
    the log      has its telemetry and metadata beside that text

Rules
  - Telemetry and metadata decide nothing: parts of them that JSON cannot hold are changed or left out, and
    the call stands.
  - A result is never lost: an update that cannot be made is an error that has the result, too.
  - Secrets are replaced before the result is encoded, since an encoding can hide them from a search.
"""

import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import fields, replace

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import NULL, Json, JsonObject
from callboard.actors.protocol.prompts import with_words_before
from callboard.actors.protocol.telemetry import Telemetry
from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.foreign_values import note_of, taken
from callboard.runtime.outputs.rendering import Shown, rendered
from callboard.runtime.outputs.tool_output import DEFAULT_RULES, OutputError, OutputRules, ToolOutput
from callboard.runtime.outputs.toon import JsonValue, read_json
from callboard.runtime.sanitize import MAX_BYTES, clean_text, to_json
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.output import (
    UNUSABLE,
    Blocks,
    ToolOutcome,
    blocks_in,
    cut,
    failed,
    returned,
    trace_of,
    unfinished,
)

METADATA_BYTES_MAX: Final = 100_000
"""Bytes of JSON that the metadata of one call may have."""

_TELEMETRY: Final = msgspec.json.Decoder(Telemetry)
_FIELDS: Final = {field.name: field.type for field in fields(Telemetry) if field.name != "metadata"}


def unified_outcome(
    output: ToolOutput,
    ctx: ToolContext,
    max_chars: int,
    rules: OutputRules | None = None,
    redactor: Redactor = NO_SECRETS.redactor,
    *,
    may_cut: bool = True,
) -> ToolOutcome:
    """Return the outcome of a call that returned this output. Never raises.

    ctx: takes its updates of the shared state and its checkpoint. max_chars: characters of the text. may_cut:
    False for a program, which gets the whole result or an error.
    """
    refusal = "" if output.error else _apply(output, ctx)
    outcome = _made(output, ctx, max_chars, rules or DEFAULT_RULES, redactor, may_cut=may_cut)
    return _refused(output, outcome, refusal, max_chars) if refusal else outcome


def _made(
    output: ToolOutput,
    ctx: ToolContext,
    max_chars: int,
    rules: OutputRules,
    redactor: Redactor,
    *,
    may_cut: bool,
) -> ToolOutcome:
    form = output.response_format or rules.format
    if not may_cut or (form == "raw" and output.error is None and blocks_in(output.result)):
        return _whole(output, max_chars, redactor, may_cut=may_cut)
    output = _usable(output, max_chars, redactor)
    shown, notes = _shown(output, ctx, rules, redactor)
    return _read_by_model(output, shown, rules, max_chars, redactor, notes)


def _refused(output: ToolOutput, outcome: ToolOutcome, refusal: str, max_chars: int) -> ToolOutcome:
    """Return the error for an output whose updates cannot be made, with its result: the tool has run."""
    words = cut(f"The tool ran, but its output cannot be used: {refusal}\nIts result:", max_chars)
    told = _telemetry(output, replace(outcome, status="error"), "InvalidOutput", refusal)
    return replace(outcome, status="error", output=with_words_before(outcome.output, words), telemetry=told)


def _usable(output: ToolOutput, max_chars: int, redactor: Redactor) -> ToolOutput:
    """Return an output whose result can be read: a text that is too long cut, work not begun as an error."""
    if output.error is None and (reason := unfinished(output.result)):
        error = OutputError("InvalidOutput", f"{UNUSABLE}{reason}")
        return replace(output, result=None, summary="", error=error)
    if isinstance(output.result, str) and len(output.result) > MAX_BYTES:
        return replace(output, result=cut(output.result, max_chars, redactor))
    return output


def _apply(output: ToolOutput, ctx: ToolContext) -> str:
    """Make the updates of an output. Return the reason if one cannot be made."""
    try:
        for key, value in output.state_update.items():
            ctx.update_state(key, value)
        if output.checkpoint:
            ctx.checkpoint(output.checkpoint)
    except MisuseError as error:
        return str(error)
    return ""


def _whole(output: ToolOutput, max_chars: int, redactor: Redactor, *, may_cut: bool) -> ToolOutcome:
    if output.error is not None:
        outcome = failed(f"{output.error.code}: {output.error.message}", max_chars)
        outcome = replace(outcome, trace=_trace(output, redactor))
    else:
        outcome = returned(output.result, max_chars, redactor, may_cut=may_cut)
    return replace(outcome, telemetry=_telemetry(output, outcome))


def _read_by_model(
    output: ToolOutput,
    shown: Shown,
    rules: OutputRules,
    max_chars: int,
    redactor: Redactor,
    notes: str,
) -> ToolOutcome:
    form, encoding = output.response_format or rules.format, output.compressed or rules.encoding
    rendering = rendered(shown, form, encoding, is_observation=rules.observation)
    text = to_json(cut(clean_text(rendering.text), max(0, max_chars - len(notes)), redactor) + notes)
    outcome = ToolOutcome("error" if output.error else "ok", text, _trace(output, redactor))
    tokens = rendering.tokens_estimated if len(rendering.text) <= max_chars else None
    return replace(outcome, telemetry=_telemetry(output, outcome, tokens=tokens))


def _trace(output: ToolOutput, redactor: Redactor) -> str:
    cause = output.error.cause if output.error else None
    return trace_of(cause, redactor) if cause is not None else ""


def _shown(output: ToolOutput, ctx: ToolContext, rules: OutputRules, redactor: Redactor) -> tuple[Shown, str]:
    """Return the parts of an output that a renderer may read, and the line of notes on them."""
    result = output.result.blocks if isinstance(output.result, Blocks) else output.result
    found = taken(None if output.error else result)
    value = redactor.json(found.json)
    error = output.error and replace(output.error, message=redactor.text(output.error.message))
    copied = _copied(output, rules.show, redactor)
    words = (redactor.text(output.summary), redactor.text(output.observation))
    shown = Shown(ctx.tool, read_json(value), *words, error, ctx.call_id, copied)
    return shown, note_of(found.notes)


def _copied(output: ToolOutput, names: tuple[str, ...], redactor: Redactor) -> Mapping[str, JsonValue]:
    """Return the metrics and metadata that the tool copies into its result, in the order of their names."""
    figures = {one.name: one.value for one in output.telemetry.metrics}
    known = {**figures, **output.metadata}
    return {name: read_json(redactor.json(taken(known[name]).json)) for name in names if name in known}


def _telemetry(
    output: ToolOutput, outcome: ToolOutcome, code: str = "", message: str = "", tokens: int | None = None
) -> Telemetry:
    """Return the telemetry as it goes into the log. tokens: of the text, where the rendering knows them."""
    if output.error is not None:
        code, message = output.error.code, output.error.message
    elif outcome.status != "ok" and not code:
        code, message = "InvalidOutput", "its result cannot be used"
    if tokens is None:
        tokens = estimated_tokens(bytes(outcome.output).decode())
    return replace(
        _recordable(output.telemetry),
        tokens_out_estimated=tokens,
        is_ok=not code,
        code=clean_text(code),
        message=clean_text(message),
        metadata=_metadata(output.metadata),
    )


def _recordable(measured: Telemetry) -> Telemetry:
    """Return the telemetry of a tool without fields that cannot be logged, such as texts for numbers."""
    try:
        return _TELEMETRY.decode(msgspec.json.encode(measured))
    except Exception:
        given = {name: taken(getattr(measured, name)) for name in _FIELDS}
    found: JsonObject = {}
    for name, kind in _FIELDS.items():
        with contextlib.suppress(msgspec.ValidationError):
            found[name] = msgspec.json.decode(given[name].json, type=kind)
    return Telemetry(**found)


def _metadata(values: Mapping[str, object]) -> Json:
    if not values:
        return NULL
    found = taken(dict(values), max_bytes=METADATA_BYTES_MAX)
    if found.is_cut:
        return to_json({"not_recorded": f"The metadata have more than {METADATA_BYTES_MAX:,} bytes."})
    return found.json
