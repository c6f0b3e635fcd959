"""The outcome of a call whose tool returned a `ToolOutput`."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Blocks, Telemetry, ToolContext
from callboard.actors.protocol.immutable import NULL
from callboard.outputs import OutputRules, ToolOutput, metrics
from callboard.runtime.outputs.outcomes import METADATA_BYTES_MAX, unified_outcome
from callboard.runtime.outputs.tool_output import Encoding, OutputError, ResponseFormat
from callboard.runtime.outputs.unified import failure
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.tools.output import ToolOutcome
from tests.effort import effort
from tests.runtime.outputs.json_values import KEYS, VALUES
from tests.tables import table

FORMATS, ENCODINGS = get_args(ResponseFormat), get_args(Encoding)
MARK = "\u2603only-for-people\u2603"


def outcome(output: ToolOutput, rules: OutputRules | None = None, **options: Any) -> ToolOutcome:
    ctx = options.pop("ctx", None) or ToolContext(tool="search", call_id="toolu_1")
    return unified_outcome(output, ctx, options.pop("max_chars", 50_000), rules, **options)


def text(found: ToolOutcome) -> str:
    return msgspec.json.decode(found.output, type=str)


TELEMETRY = st.builds(
    lambda number, word: Telemetry(
        tool=word, version=word, execution=word, at_ms=number, latency_ms=number, cache_key=word,
        retries=number, code=word, message=word, metrics=metrics(**{MARK: number}),
    ),
    st.integers(10**12, 10**13),
    st.just(MARK),
)  # fmt: skip


@settings(max_examples=effort(50, 5_000))
@given(
    VALUES,
    st.sampled_from(FORMATS),
    st.sampled_from(ENCODINGS),
    st.sampled_from([10, 1_000, 1_000_000]),
    st.booleans(),
    TELEMETRY,
    st.dictionaries(KEYS, st.just(MARK)),
)
def test_a_model_never_reads_telemetry_or_metadata(
    value: Any,
    form: ResponseFormat,
    encoding: Encoding,
    max_chars: int,
    may_cut: bool,
    telemetry: Telemetry,
    metadata: dict[str, str],
) -> None:
    plain = ToolOutput(value, response_format=form, compressed=encoding)
    told = ToolOutput(
        value, response_format=form, compressed=encoding, telemetry=telemetry, metadata=metadata
    )
    first, second = (outcome(one, max_chars=max_chars, may_cut=may_cut) for one in (plain, told))
    assert (second.output, second.status) == (first.output, first.status)
    assert MARK not in bytes(second.output).decode()


def test_a_tool_copies_what_it_shows_into_the_detailed_format_only() -> None:
    output = ToolOutput(
        1, telemetry=Telemetry(metrics=metrics(rows=3)), metadata={"source": "crm", "key": MARK}
    )
    rules = OutputRules("detailed", show=("source", "rows", "gone"))
    assert 'call: toolu_1\nsource: "crm"\nrows: 3.0\nresult:\n1' in text(outcome(output, rules))
    for form in ("concise", "standard", "raw"):
        assert "crm" not in text(outcome(output, OutputRules(form, show=("source",))))


def test_the_output_decides_its_format_before_the_rules_of_the_tool() -> None:
    rules = OutputRules("concise", "json")
    assert text(outcome(ToolOutput([1]), rules)) == "[search] 1 item: 1"
    assert text(outcome(ToolOutput([1], response_format="raw", compressed="yaml"), rules)) == "- 1"


def test_an_error_is_an_error_result_with_its_traceback_for_people() -> None:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        found = outcome(failure(error), OutputRules("concise"))
    assert (found.status, text(found)) == ("error", "[search] error ValueError: wrong")
    assert "raise ValueError" in found.trace
    assert found.telemetry is not None
    assert (found.telemetry.is_ok, found.telemetry.code, found.telemetry.message) == (
        False,
        "ValueError",
        "wrong",
    )


@table("value", [object(), {1, float("nan")}, float("nan"), {"a": [object()]}])
@table("form", FORMATS)
def test_a_result_that_json_cannot_hold_is_taken_with_a_note(value: object, form: ResponseFormat) -> None:
    found = outcome(ToolOutput(value, response_format=form))
    assert found.status == "ok"
    assert "\n[note: " in text(found)
    assert text(found).endswith("]")
    assert found.telemetry is not None
    assert found.telemetry.is_ok


@pytest.mark.parametrize("form", FORMATS)
def test_work_that_has_not_begun_is_an_error_that_says_so(form: ResponseFormat) -> None:
    async def later() -> None:
        raise AssertionError

    found = outcome(ToolOutput(later(), response_format=form))
    assert found.status == "error"
    assert "what it returned cannot be used" in text(found)
    assert text(found).startswith(
        "error InvalidOutput: " if form == "raw" else "[search] error InvalidOutput: "
    )
    assert found.telemetry is not None
    assert found.telemetry.code == "InvalidOutput"


@pytest.mark.parametrize("form", ["concise", "standard"])
def test_a_text_that_is_too_long_for_json_is_summed_up(form: ResponseFormat) -> None:
    found = outcome(ToolOutput("x" * 20_000_000, response_format=form))
    assert found.status == "ok"
    assert "characters, 2 lines: xxx" in text(found)
    assert len(text(found)) < 400
    own = outcome(ToolOutput("x" * 20_000_000, summary="long", response_format=form))
    assert text(own).startswith("[search] long")


def test_metadata_that_json_cannot_hold_are_shown_as_that() -> None:
    found = outcome(ToolOutput(1, metadata={"a": {1}, "b": 2}), OutputRules("detailed", show=("a", "b")))
    assert found.status == "ok"
    assert "a: [1]\nb: 2" in text(found)


def test_metadata_that_json_cannot_hold_do_not_fail_the_call() -> None:
    recorded = []
    odd: Any = {"a": Path("x"), 1: float("inf")}
    for metadata in (odd, {"a": "x" * METADATA_BYTES_MAX}):
        found = outcome(ToolOutput(1, metadata=metadata), OutputRules("raw"))
        assert (found.status, text(found)) == ("ok", "1")
        assert found.telemetry is not None
        recorded.append(bytes(found.telemetry.metadata))
    assert recorded[0] == b'{"a":"x","1":null}'
    assert b"not_recorded" in recorded[1]


def test_telemetry_that_cannot_be_logged_does_not_fail_the_call() -> None:
    odd: Any = Telemetry(retries="three", duration_us=5, metrics=metrics(rows=3), version="\ud800")  # type: ignore[arg-type]  # a tool of a user's
    found = outcome(ToolOutput(1, telemetry=odd, error=OutputError("\ud800")))
    assert found.telemetry is not None
    assert msgspec.json.decode(msgspec.json.encode(found.telemetry), type=Telemetry) == found.telemetry
    assert (found.telemetry.retries, found.telemetry.duration_us) == (0, 5)
    assert (found.telemetry.version, found.telemetry.code) == ("\ufffd", "\ufffd")
    assert [one.value for one in found.telemetry.metrics] == [3.0]


def test_metadata_are_recorded() -> None:
    found = outcome(ToolOutput(1, metadata={"b": 1, "a": [2]}))
    assert found.telemetry is not None
    assert bytes(found.telemetry.metadata) == b'{"b":1,"a":[2]}'
    none = outcome(ToolOutput(1)).telemetry
    assert none is not None
    assert none.metadata == NULL


def test_a_program_gets_the_whole_result_whatever_the_format_is() -> None:
    output = ToolOutput({"a": 1}, summary="one", response_format="concise")
    assert text(outcome(output, may_cut=False)) == '{"a":1}'
    failed = outcome(ToolOutput(error=OutputError("quota", "Tomorrow.")), may_cut=False)
    assert (failed.status, text(failed)) == ("error", "quota: Tomorrow.")
    assert outcome(ToolOutput("x" * 100), may_cut=False, max_chars=10).status == "error"


def test_blocks_are_raw_or_summed_up() -> None:
    blocks = Blocks([{"type": "image", "source": {"type": "base64", "data": "QQ=="}}])
    assert bytes(outcome(ToolOutput(blocks, response_format="raw")).output).startswith(b'[{"type":"image"')
    assert text(outcome(ToolOutput(blocks, response_format="concise"))).startswith("[search] 1 item")


def test_updates_and_a_checkpoint_are_made_by_the_context() -> None:
    ctx = ToolContext(tool="t", shared={"stage": "a"})
    outcome(ToolOutput(1, state_update={"stage": "b"}, checkpoint="loaded"), ctx=ctx)
    updates, _ = ctx.state_used
    assert [(one.key, bytes(one.value)) for one in updates] == [("stage", b'"b"')]
    assert ctx.checkpoints == ("loaded",)


@pytest.mark.parametrize("parts", [{"state_update": {"gone": 1}}, {"checkpoint": "two words"}])
def test_an_update_that_cannot_be_made_is_an_error_with_the_result(parts: dict[str, Any]) -> None:
    found = outcome(ToolOutput("paid twice", **parts))
    assert found.status == "error"
    assert b"its output cannot be used" in bytes(found.output)
    assert b"paid twice" in bytes(found.output)
    assert found.telemetry is not None
    assert found.telemetry.code == "InvalidOutput"


def test_an_error_makes_no_updates() -> None:
    ctx = ToolContext(shared={"stage": "a"})
    outcome(ToolOutput(error=OutputError("no"), state_update={"stage": "b"}), ctx=ctx)
    assert ctx.state_used[0] == ()


@table("encoding", ENCODINGS)
@table("form", FORMATS)
def test_a_secret_is_replaced_before_it_is_encoded(form: ResponseFormat, encoding: Encoding) -> None:
    redactor = Redactor()
    redactor.learn("DOOR", "open<sesame>&co")
    output = ToolOutput({"key": "open<sesame>&co"}, "see open<sesame>&co", "open<sesame>&co")
    found = outcome(output, OutputRules(form, encoding), redactor=redactor)
    assert "sesame" not in text(found)
    assert "[secret:DOOR]" in text(found).replace("&#91;", "[")


def test_a_long_rendering_is_cut() -> None:
    found = outcome(ToolOutput("x" * 10_000, response_format="raw"), max_chars=500)
    assert len(text(found)) <= 500
    assert "[cut: " in text(found)
    assert found.telemetry is not None
    assert (found.telemetry.tokens_out_estimated or 0) < 300
