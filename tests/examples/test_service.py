"""The web service of the examples, in a process of its own, behind a real socket, stopped in every way."""

import signal
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.examples.served import Item, Service
from tests.processes import ENDS_WITHIN_S

pytestmark = pytest.mark.slow
SECRET_WORD = "callboard"
QUESTION = {"text": f"What is {SECRET_WORD}?", "request_id": "q1"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path) as service:
        yield service


def read_until_text(stream: Iterator[Item]) -> list[Item]:
    """Read up to the third piece of text."""
    found: list[Item] = []
    for item in stream:
        found.append(item)
        if sum(one.kind == "text" for one in found) == 3:
            break
    return found


def read_to_the_answer(stream: Iterator[Item]) -> list[Item]:
    found: list[Item] = []
    for item in stream:
        found.append(item)
        if item.kind == "event" and item.data["kind"] == "AskEnded":
            return found
    raise AssertionError("the stream ended before the answer")


def wait_for_approval(service: Service) -> Any:
    """Return the one call that waits for a person."""
    ends_at = time.monotonic() + ENDS_WITHIN_S
    while time.monotonic() < ends_at:
        if found := service.get("/sessions/one/approvals"):
            assert len(found) == 1
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no call waits")


def test_open_streams_do_not_hold_a_deploy(service: Service) -> None:
    service.stop(signal.SIGKILL)
    service.start(grace_s=10 * ENDS_WITHIN_S)  # a server that waits for a stream fails the test
    service.send("POST", "/sessions/one/questions", QUESTION)
    with ThreadPoolExecutor(50) as pool:
        begun = [service.stream("one") for _ in range(50)]
        first = list(pool.map(next, begun))
        rest = [pool.submit(list, stream) for stream in begun]
        service.stop(signal.SIGTERM)
        seen = [last_id([item, *more.result(ENDS_WITHIN_S)]) for item, more in zip(first, rest, strict=True)]
    assert "Traceback" not in service.output()
    service.start()
    answer = read_to_the_answer(service.stream("one", after=max(seen)))
    assert answer[-1].data["kind"] == "AskEnded"


def test_prometheus_reads_what_the_service_did(service: Service) -> None:
    service.send("POST", "/sessions/one/questions", QUESTION)
    assert service.get("/sessions/one/outcome")["kind"] == "answered"
    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/metrics", timeout=ENDS_WITHIN_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = {one.name: one for one in text_string_to_metric_families(answer.read().decode())}
    assert sum(one.value for one in families["callboard_asks"].samples if one.name.endswith("_total")) == 1


def last_id(items: list[Item]) -> int:
    return max(item.id for item in items if item.id is not None)


def text_of(items: list[Item], attempt: int) -> str:
    """Put the pieces of a reply together as a page does."""
    text = ""
    for item in items:
        if item.kind == "text" and item.data["attempt"] == attempt:
            text = text[: item.data["offset"]] + item.data["text"]
    return text


def test_a_reader_that_leaves_in_mid_stream_comes_back_and_misses_nothing(service: Service) -> None:
    assert service.send("POST", "/sessions/one/questions", QUESTION) == (202, "q1")
    before = read_until_text(service.stream("one"))
    after = read_to_the_answer(service.stream("one", last_id(before)))
    assert before[0].kind == "snapshot"
    assert [one.id for one in after if one.kind == "event"] == list(
        range(last_id(before) + 1, last_id(after) + 1)
    )
    assert text_of(after, 1).split() == after[-1].data["body"]["text"].split()
    outcome = service.get("/sessions/one/outcome")
    assert (outcome["status"], outcome["kind"]) == ("ok", "answered")
    assert SECRET_WORD in outcome["text"]
    assert outcome["usage"]["calls"] == 1
    assert outcome["usage"]["tokens"] > 0
    (row,) = service.get("/sessions")
    assert (row["session_id"], row["status"], row["host"]) == ("one", "open", "assistant")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_answer_goes_on_after_a_restart(service: Service, how: signal.Signals) -> None:
    service.send("POST", "/sessions/one/questions", QUESTION)
    before = read_until_text(service.stream("one"))
    service.stop(how)
    service.start()
    after = read_to_the_answer(service.stream("one", last_id(before)))
    outcome = service.get("/sessions/one/outcome")
    assert (outcome["status"], outcome["kind"], outcome["request_id"]) == ("ok", "answered", "q1")
    assert outcome["text"] == after[-1].data["body"]["text"]
    assert next(one.id for one in after if one.id is not None) == last_id(before) + 1
    assert [one.data["attempt"] for one in after if one.kind == "reset"] == [1]  # drop the words so far
    assert service.send("POST", "/sessions/one/questions", QUESTION) == (202, "q1")
    assert service.get("/sessions/one/outcome")["head"] == outcome["head"]

    service.stop(signal.SIGKILL)
    kinds = [event.kind for event in service.recording("one").events]
    assert kinds.count("Ask") == kinds.count("AskEnded") == 1
    assert "Cancel" not in kinds
    replies = [event.body.status for event in service.recording("one").events if event.kind == "ModelReplied"]  # type: ignore[union-attr]  # the kind says which message it is
    assert replies == ["lost" if how is signal.SIGKILL else "detached", "ok"]
    assert "Traceback" not in service.output().replace("asyncio.exceptions.CancelledError", "")
    service.recording("one").verify().check()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_approval_waits_over_a_restart_and_is_answered_once(service: Service, how: signal.Signals) -> None:
    service.send("POST", "/sessions/one/questions", {"text": "Please pay.", "request_id": "q1"})
    asked = wait_for_approval(service)
    service.stop(how)
    service.start()
    question = wait_for_approval(service)
    assert question == asked
    assert (question["tool"], question["arguments"], question["is_open"]) == ("pay", {"euros": 5}, True)
    place = f"/sessions/one/approvals/{question['seq']}"
    assert not (service.folder / "paid.txt").exists()
    assert service.send("POST", place, {"allow": True}) == (200, True)
    assert service.send("POST", place, {"allow": False}) == (200, False)
    assert "paid 5 euros" in service.get("/sessions/one/outcome")["text"]
    assert (service.folder / "paid.txt").read_text() == "5\n"
    assert service.get("/sessions/one/approvals") == []


def test_a_person_may_refuse_and_stop(service: Service) -> None:
    service.send("POST", "/sessions/one/questions", {"text": "Please pay.", "request_id": "q1"})
    place = f"/sessions/one/approvals/{wait_for_approval(service)['seq']}"
    service.send("POST", place, {"allow": False})
    assert service.get("/sessions/one/outcome")["status"] == "ok"
    assert not (service.folder / "paid.txt").exists()
    service.send("POST", "/sessions/one/questions", QUESTION | {"request_id": "q2"})
    status, outcome = service.send("POST", "/sessions/one/cancel")
    assert (status, outcome["status"], outcome["request_id"]) == (200, "cancelled", "q2")
    assert service.send("POST", "/sessions/one/cancel") == (200, None)


def test_wrong_requests_are_refused_with_a_reason(service: Service) -> None:
    status, found = service.send("GET", "/sessions/new/outcome")
    assert (status, "nothing was asked yet" in found["error"]) == (400, True)
    service.send("POST", "/sessions/one/questions", QUESTION)
    status, found = service.send("POST", "/sessions/one/questions", QUESTION | {"request_id": "q2"})
    assert (status, "is working on another ask" in found["error"]) == (409, True)
    status, found = service.send("POST", "/sessions/one/approvals/1", {"allow": True})
    assert status == 400
    assert "/sessions/{session_id}/stream" in service.get("/openapi.json")["paths"]


def test_requests_that_come_at_once_share_the_session(service: Service) -> None:
    for _ in range(2):
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(service.send, "POST", "/sessions/one/questions", QUESTION) for _ in range(8)]
            assert [one.result() for one in asked] == [(202, "q1")] * 8
        assert service.get("/sessions/one/outcome")["status"] == "ok"
        service.stop(signal.SIGKILL)
        service.start()  # the session is idle, and comes back with the next request
    kinds = [event.kind for event in service.recording("one").events]
    assert (kinds.count("SessionOpened"), kinds.count("Ask"), kinds.count("Resumed")) == (1, 1, 1)
