"""Validators of users: their words, their failures, their time."""

import asyncio
import threading

import pytest

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.json_text import PROBLEMS_MAX, TEXT_CHARS_MAX
from callboard.runtime.schemas.output_types import OutputType, output_type
from callboard.runtime.schemas.validators import Validators
from callboard.runtime.secrets.redactor import Redactor
from tests.runtime.reports import RELEASE, WAITED, Finding, Rude


def check(kind: OutputType | None, report: bytes, timeout_s: float = 5.0) -> SchemaChecked:
    redactor = Redactor()
    redactor.learn("DISK", "sk-ant-REDACTED-KEY")

    async def run() -> SchemaChecked:
        validators = Validators()
        try:
            request = CheckSchema(
                7, "report", Json(b"{}"), Json(report), round(timeout_s * 1_000), output_type="app.Report"
            )
            return await validators.check(request, kind, redactor, timeout_s)
        finally:
            validators.close()

    return asyncio.run(run())


class Talkative:
    """A form that refuses everything, at length."""

    def schema(self) -> dict[str, object]:
        return {}

    def problems(self, report: bytes) -> tuple[SchemaProblem, ...]:
        place = threading.current_thread().name
        long = "x" * (TEXT_CHARS_MAX - 5) + " sk-ant-REDACTED-KEY"
        return (SchemaProblem("/thread", place), SchemaProblem("/\ud800", long + "\0")) * PROBLEMS_MAX

    def build(self, report: bytes) -> object:
        return None


def test_a_report_that_passes_is_ok_and_a_refused_one_has_the_validators_words() -> None:
    kind = output_type(Finding)
    assert check(kind, b'{"filePath":"a","lines":1}') == SchemaChecked(7, "ok")
    refused = SchemaProblem("/lines", "Value error, a file has at least one line")
    assert check(kind, b'{"filePath":"a","lines":0}') == SchemaChecked(7, "invalid", (refused,))


def test_a_plain_schema_has_no_validators() -> None:
    assert check(output_type({"type": "integer"}), b"1") == SchemaChecked(7, "ok")


@pytest.mark.parametrize(
    ("how", "words"), [("raises", "RuntimeError: the disk is full"), ("exits", "SystemExit: 3")]
)
def test_an_exception_that_is_no_refusal_is_a_failed_check_with_its_class(how: str, words: str) -> None:
    answer = check(output_type(Rude), b'{"how":"%s"}' % how.encode())
    assert answer.status == "failed"
    assert f"a validator of tests.runtime.reports.Rude broke: {words}" in answer.problems[0].message
    assert "sk-ant" not in answer.problems[0].message


def test_a_validator_that_hangs_is_a_failed_check_after_its_time() -> None:
    RELEASE.clear()
    WAITED.clear()
    answer = check(output_type(Rude), b'{"how":"hangs"}', timeout_s=0.05)
    assert not WAITED, "the validator itself still waits"
    RELEASE.set()
    assert answer.status == "failed"
    assert "took longer than 50 ms" in answer.problems[0].message


def test_a_type_that_is_not_there_is_a_failed_check_and_no_pass() -> None:
    answer = check(None, b"{}")
    assert answer.status == "failed"
    assert "app.Report is not among those of this program" in answer.problems[0].message


def test_words_are_bounded_cleaned_redacted_and_made_on_a_thread_of_their_own() -> None:
    answer = check(OutputType(Json(b"{}"), "app.Report", Talkative()), b"{}")
    assert len(answer.problems) == PROBLEMS_MAX
    first, second = answer.problems[:2]
    assert first.message == "callboard-validator"
    assert second.path == "/\ufffd"
    assert len(second.message) <= TEXT_CHARS_MAX
    assert "sk-a" not in second.message
