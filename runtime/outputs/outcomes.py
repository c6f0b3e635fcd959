"""The outcome of a call whose tool returned a `ToolOutput`.

    a model      reads one rendering of it
    a program    gets the result as JSON, or the error
    the log      has its telemetry and metadata beside that text

Rules
  - Telemetry and metadata decide nothing: metadata that JSON cannot hold are noted as such, and the call
    stands.
  - Secrets are replaced before the result is encoded, since an encoding can hide them from a search.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.errors import InvalidPrompt, MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.telemetry import Telemetry
from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.outputs.rendering import Shown, rendered
from callboard.runtime.outputs.tool_output import DEFAULT_RULES, OutputError, OutputRules, ToolOutput
from callboard.runtime.outputs.values import JsonValue, read_json
from callboard.runtime.sanitize import clean_text, to_json
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.output import Blocks, ToolOutcome, cut, failed, is_blocks, returned
from callboard.runtime.tools.traces import trace_of

METADATA_BYTES_MAX: Final = 100_000
"""Bytes of JSON that the metadata of one call may have."""


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
    if refusal:
        outcome = failed(f"The tool ran, but its output cannot be used: {refusal}", max_chars)
        return replace(outcome, telemetry=_telemetry(output, outcome, "InvalidOutput", refusal))
    form = output.response_format or (rules or DEFAULT_RULES).format
    if not may_cut or (form == "raw" and output.error is None and is_blocks(output.result)):
        return _whole(output, max_chars, redactor, may_cut=may_cut)
    try:
        shown = _shown(output, ctx, rules or DEFAULT_RULES, redactor)
    except Exception:
        output = _usable(output, max_chars, redactor)
        shown = _shown(output, ctx, rules or DEFAULT_RULES, redactor)
    return _read_by_model(output, shown, rules or DEFAULT_RULES, max_chars, redactor)


def _usable(output: ToolOutput, max_chars: int, redactor: Redactor) -> ToolOutput:
    """Return an output whose result JSON cannot hold: a text that is too long cut, any other as an error."""
    outcome = returned(output.result, max_chars, redactor)  # it says what is wrong, and never raises
    text: str = msgspec.json.decode(outcome.output)
    if outcome.status == "ok":
        return replace(output, result=text)
    return replace(output, result=None, summary="", error=OutputError("InvalidOutput", text))


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
    output: ToolOutput, shown: Shown, rules: OutputRules, max_chars: int, redactor: Redactor
) -> ToolOutcome:
    form, encoding = output.response_format or rules.format, output.compressed or rules.encoding
    rendering = rendered(shown, form, encoding, is_observation=rules.observation)
    text = to_json(cut(clean_text(rendering.text), max_chars, redactor))
    outcome = ToolOutcome("error" if output.error else "ok", text, _trace(output, redactor))
    tokens = rendering.tokens_estimated if len(rendering.text) <= max_chars else None
    return replace(outcome, telemetry=_telemetry(output, outcome, tokens=tokens))


def _trace(output: ToolOutput, redactor: Redactor) -> str:
    cause = output.error.cause if output.error else None
    return trace_of(cause, redactor) if cause is not None else ""


def _shown(output: ToolOutput, ctx: ToolContext, rules: OutputRules, redactor: Redactor) -> Shown:
    """Return the parts of an output that a renderer may read.

    Raises InvalidPrompt for a value that JSON cannot hold.
    """
    result = output.result.blocks if isinstance(output.result, Blocks) else output.result
    value = NULL if output.error else redactor.json(to_json(result, what="it"))
    error = output.error and replace(output.error, message=redactor.text(output.error.message))
    copied = _copied(output, rules.show, redactor)
    words = (redactor.text(output.summary), redactor.text(output.observation))
    return Shown(ctx.tool, read_json(value), *words, error, ctx.call_id, copied)


def _copied(output: ToolOutput, names: tuple[str, ...], redactor: Redactor) -> Mapping[str, JsonValue]:
    """Return the metrics and metadata that the tool copies into its result, in the order of their names."""
    figures = {one.name: one.value for one in output.telemetry.metrics}
    known = {**figures, **output.metadata}
    return {name: _copy(known[name], redactor) for name in names if name in known}


def _copy(value: object, redactor: Redactor) -> JsonValue:
    try:
        return read_json(redactor.json(to_json(value, what="it")))
    except InvalidPrompt as error:
        return f"cannot be shown: {error}"


def _telemetry(
    output: ToolOutput, outcome: ToolOutcome, code: str = "", message: str = "", tokens: int | None = None
) -> Telemetry:
    """Return the telemetry as it goes into the log. tokens: of the text, where the rendering knows them."""
    if output.error is not None:
        code, message = output.error.code, output.error.message
    elif outcome.status != "ok" and not code:
        code, message = "InvalidOutput", "its result cannot be used"
    if tokens is None:
        tokens = estimated_tokens(bytes(outcome.output).decode(), "json")
    return replace(
        output.telemetry,
        tokens_out_estimated=tokens,
        is_ok=not code,
        code=code,
        message=clean_text(message),
        metadata=_metadata(output.metadata),
    )


def _metadata(values: Mapping[str, object]) -> Json:
    if not values:
        return NULL
    try:
        return to_json(dict(values), max_bytes=METADATA_BYTES_MAX, what="The metadata")
    except InvalidPrompt as error:
        return to_json({"not_recorded": str(error)})
