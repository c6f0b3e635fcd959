import msgspec

from callboard.actors.protocol.messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas import worker_protocol


def test_a_frame_is_its_length_and_its_body() -> None:
    assert worker_protocol.frame(b"abc") == b"\x00\x00\x00\x03abc"


def test_messages_come_out_as_they_went_in() -> None:
    request = CheckSchema(1, "report", msgspec.Raw(b'{"a":  1}'), msgspec.Raw(b"[1, 2]"), 10)
    answer = SchemaChecked(1, "invalid", (SchemaProblem("/a", "é"),))
    size = worker_protocol.LENGTH.size
    read = worker_protocol.REQUESTS.decode(worker_protocol.message_frame(request)[size:])
    assert bytes(read.schema) == b'{"a":  1}'
    assert (read.check, read.task, bytes(read.value), read.timeout_ms) == (1, "report", b"[1, 2]", 10)
    assert worker_protocol.ANSWERS.decode(worker_protocol.message_frame(answer)[size:]) == answer
