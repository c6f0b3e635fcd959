"""The step in a program's reply: its fields, and replies without one."""

import pytest

from callboard.actors.agent.program_step import ProgramStep, read_step
from callboard.actors.protocol.immutable import NULL, Json
from tests.tables import table

HEAD = b'{"type":"program_step","run":"r","step":1,"at":5,"wake":7,"cancels":["a"],"marks":{"x":true}}'
CALL = b'{"type":"tool_use","id":"b","name":"look","input":{"wake":"soon","text":1}}'
TEXT = b'{"type":"text","text":"hi"}'
VALUE = b'{"type":"program_result","value":{"n": 1}}'


def content(*blocks: bytes) -> Json:
    return Json(b"[" + b",".join(blocks) + b"]")


def test_a_step_has_its_cancels_and_its_deadline() -> None:
    assert read_step(content(HEAD, CALL)) == ProgramStep(("a",), 7)
    assert read_step(content(b'{"type":"program_step"}')) == ProgramStep()


@pytest.mark.parametrize(
    ("blocks", "report", "value"),
    [
        ((TEXT,), b'"hi"', b"null"),
        ((TEXT, VALUE), b'{"n": 1}', b'{"n": 1}'),
        ((CALL, TEXT), b'"hi"', b"null"),
        ((TEXT, b'{"type":"program_result","value":null}'), b"null", b"null"),
    ],
)
def test_the_last_step_has_what_the_program_returned(
    blocks: tuple[bytes, ...], report: bytes, value: bytes
) -> None:
    step = read_step(content(HEAD, *blocks))
    assert step is not None
    assert step.is_last
    assert (bytes(step.report), bytes(step.value)) == (report, value)


@table(
    "raw",
    [
        NULL,
        b"[]",
        b"7",
        b"[7]",
        b'[{"type":1}]',
        content(TEXT),
        content(CALL, HEAD),
        content(HEAD, b'{"type":"text"}'),
        content(b'{"type":"program_step","wake":"soon"}'),
        content(b'{"type":"program_step","cancels":[1]}'),
        content(b'{"type":"program_step","wake":9007199254740992}'),
        b"[" * 5_000,
    ],
)
def test_other_content_is_no_step(raw: bytes) -> None:
    assert read_step(Json(bytes(raw))) is None
