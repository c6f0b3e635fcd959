"""The text of an output that a model reads.

    concise     [search] 2 rows of id, name: 1, Ada; 2, Linus
    standard    the same, then lines with type, status and size
    detailed    the same, then a line with the call, those that the tool shows, and the result
    raw         the result alone, or the error

Rules
  - A renderer gets a `Shown`, which has no telemetry, no metadata and no time. Its one id is the model's own
    of the call, which only the detailed format writes.
  - The outputs of one tool begin with the same bytes, `[NAME] `, in every format but raw.
  - An observation is the same text behind `Observation: `.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.outputs.encodings import compact_json, encoded
from callboard.runtime.outputs.summaries import size_of, summary_of
from callboard.runtime.outputs.tool_output import Encoding, OutputError, ResponseFormat
from callboard.runtime.outputs.values import JsonValue, kind_of

SUMMARY_CHARS_MAX: Final = 4_000
"""Characters of a summary or observation that the model reads."""


class Shown(NamedTuple):
    """Everything of an output that a renderer can read.

    tool, call_id: of the call. value: the result. summary: the tool's own, empty for one by rule.
    observation: for ReAct, empty for the summary. error: instead of a result.
    copied: the metrics and metadata that the tool shows, by name.
    """

    tool: str
    value: JsonValue
    summary: str = ""
    observation: str = ""
    error: OutputError | None = None
    call_id: str = ""
    copied: Mapping[str, JsonValue] = {}


class Rendering(NamedTuple):
    """The text that a model reads, and its estimated tokens."""

    text: str
    tokens_estimated: int


def rendered(
    shown: Shown, form: ResponseFormat, encoding: Encoding = "json", *, is_observation: bool = False
) -> Rendering:
    """Render an output.

    >>> print(rendered(Shown("add", 3), "standard").text)
    [add] 3
    type: number
    status: ok
    size: 1 value
    """
    start = "Observation: " * is_observation
    if form == "raw":
        lines = [start + (_error(shown.error) if shown.error else _result(shown, encoding))]
    else:
        lines = [f"{start}[{shown.tool}] {_summary(shown, is_observation=is_observation)}"]
    if form in ("standard", "detailed"):
        lines += _facts(shown)
    if form == "detailed":
        lines += _details(shown, encoding)
    text = "\n".join(lines)
    return Rendering(text, estimated_tokens(text))


def _details(shown: Shown, encoding: Encoding) -> list[str]:
    lines = [f"call: {shown.call_id}"]
    lines += [f"{name}: {compact_json(value)}" for name, value in shown.copied.items()]
    return lines if shown.error is not None else [*lines, "result:", _result(shown, encoding)]


def _facts(shown: Shown) -> list[str]:
    if shown.error is not None:
        return ["type: error", "status: error", f"size: {size_of(shown.error.message)}"]
    return [f"type: {kind_of(shown.value)}", "status: ok", f"size: {size_of(shown.value)}"]


def _summary(shown: Shown, *, is_observation: bool) -> str:
    own = shown.observation * is_observation or shown.summary
    if not own:
        own = summary_of(shown.value) if shown.error is None else _error(shown.error)
    return _shortened(own)


def _shortened(text: str) -> str:
    if len(text) <= SUMMARY_CHARS_MAX:
        return text
    return f"{text[:SUMMARY_CHARS_MAX]} [cut: the first {SUMMARY_CHARS_MAX:,} of {len(text):,} characters]"


def _error(error: OutputError | None) -> str:
    assert error is not None
    return f"error {error.code}: {error.message}" if error.message else f"error {error.code}"


def _result(shown: Shown, encoding: Encoding) -> str:
    """Return the result as text. A text is written as it is, except in XML, which needs its escapes."""
    if isinstance(shown.value, str) and encoding != "xml":
        return shown.value
    return encoded(shown.value, encoding, shown.tool).text
