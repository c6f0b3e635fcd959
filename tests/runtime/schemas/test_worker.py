import io
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager

import msgspec
import pytest

from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas import worker
from callboard.runtime.schemas.checker import _BOOT
from callboard.runtime.schemas.worker import serve
from tests.processes import ENDS_WITHIN_S, running
from tests.runtime.schemas.kit import DOUBLING, ENDLESS, accept_request, chain_of, report_request


def bodies(stream: bytes) -> list[bytes]:
    found, rest = [], io.BytesIO(stream)
    while header := rest.read(worker.LENGTH.size):
        found.append(rest.read(worker.LENGTH.unpack(header)[0]))
    return found


def answers(*requests: CheckSchema) -> list[SchemaChecked]:
    written = io.BytesIO()
    serve(io.BytesIO(b"".join(map(worker.message_frame, requests))), written)
    hello, *rest = bodies(written.getvalue())
    assert hello == worker.HELLO
    return [worker.ANSWERS.decode(each) for each in rest]


def command(code: str = _BOOT) -> list[str]:
    return [sys.executable, "-I", "-c", code, json.dumps([each for each in sys.path if each])]


def started() -> AbstractContextManager["subprocess.Popen[bytes]"]:
    pipe = subprocess.PIPE
    return running(command(), stdin=pipe, stdout=pipe, stderr=pipe, env={})


def test_a_worker_says_hello_and_answers_in_order() -> None:
    got = answers(accept_request({}), accept_request([]), report_request({"type": "string"}, 1))
    assert [each.status for each in got] == ["ok", "invalid", "invalid"]


def test_a_time_that_no_clock_can_count_is_no_reason_to_die() -> None:
    got = answers(accept_request({}, timeout_ms=10**18), accept_request({}, timeout_ms=-(10**18)))
    assert [each.status for each in got] == ["ok", "ok"]


def test_a_worker_without_requests_ends() -> None:
    assert answers() == []


@pytest.mark.slow
def test_a_worker_ends_with_its_parent_and_leaves_nothing_on_stderr() -> None:
    with started() as process:
        out, err = process.communicate(
            worker.message_frame(accept_request({"type": "object"})), timeout=ENDS_WITHIN_S
        )
    assert process.returncode == 0
    assert [worker.ANSWERS.decode(each).status for each in bodies(out)[1:]] == ["ok"]
    assert err == b""


@pytest.mark.slow
def test_a_worker_in_the_middle_of_a_check_ends_when_its_time_is_over_even_without_a_parent() -> None:
    with started() as process:
        out, _ = process.communicate(
            worker.message_frame(report_request(DOUBLING, ENDLESS, 100)), timeout=ENDS_WITHIN_S
        )
    assert process.returncode not in (None, 0)
    assert bodies(out) == [worker.HELLO]


@pytest.mark.slow
def test_the_deepest_value_under_the_longest_chain_fits_on_the_workers_stack() -> None:
    chain = {str(index): {"allOf": [{"$ref": f"#/$defs/{index + 1}"}]} for index in range(14)}
    last = {"properties": {"a": {"$ref": "#/$defs/0"}}, "type": ["object", "null"]}
    schema = {"$ref": "#/$defs/0", "$defs": {**chain, "14": last}}
    with started() as process:
        requests = [report_request(schema, chain_of(63, innermost)) for innermost in (None, 1)]
        out, _ = process.communicate(b"".join(map(worker.message_frame, requests)), timeout=ENDS_WITHIN_S)
    assert [worker.ANSWERS.decode(each).status for each in bodies(out)[1:]] == ["ok", "invalid"]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="this system does not bound address space")
def test_a_worker_cannot_take_more_memory_than_its_bound() -> None:
    code = _BOOT.replace("import main; main()", "import _bound_resources; _bound_resources(); ")
    done = subprocess.run(command(f"{code}bytearray(3 * 1024**3)"), capture_output=True, check=False, env={})
    assert b"MemoryError" in done.stderr


def test_a_frame_is_its_length_and_its_body() -> None:
    assert worker.frame(b"abc") == b"\x00\x00\x00\x03abc"


def test_messages_come_out_as_they_went_in() -> None:
    request = CheckSchema(1, "report", msgspec.Raw(b'{"a":  1}'), msgspec.Raw(b"[1, 2]"), 10)
    answer = SchemaChecked(1, "invalid", (SchemaProblem("/a", "é"),))
    size = worker.LENGTH.size
    read = worker._REQUESTS.decode(worker.message_frame(request)[size:])
    assert bytes(read.schema) == b'{"a":  1}'
    assert (read.check, read.task, bytes(read.value), read.timeout_ms) == (1, "report", b"[1, 2]", 10)
    assert worker.ANSWERS.decode(worker.message_frame(answer)[size:]) == answer
