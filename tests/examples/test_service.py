"""The web service of the examples, in a process of its own, behind a real socket, stopped in every way."""

import http.client
import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from callboard.replay import Recording
from tests.pages import ROOT
from tests.processes import ENDS_WITHIN_S, running
from tests.waiting import block_until

pytestmark = pytest.mark.slow
SECRET_WORD = "callboard"
QUESTION = {"text": f"What is {SECRET_WORD}?", "request_id": "q1"}


class Item(NamedTuple):
    """A server-sent event."""

    kind: str
    id: int | None
    data: Any


class Service:
    """The service in a folder of its own. Each start is a new process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes = ExitStack()
        self.port = 0

    def __enter__(self) -> Self:
        self._processes.__enter__()
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._processes.__exit__(*error)

    def start(self, grace_s: int = 0) -> None:
        """Start a process that serves on any free port, and wait until it does.

        grace_s: seconds for which the server waits for its requests when it is told to stop.
        """
        folder = str(ROOT / "examples" / "service")
        options = ["--app-dir", folder, "--port", "0", "--timeout-graceful-shutdown", str(grace_s)]
        command = [sys.executable, "-m", "uvicorn", "app:app", *options]
        path = self.folder / "server.txt"
        with path.open("ab") as output:
            begun = output.tell()
            process = running(command, cwd=self.folder, stdout=output, stderr=output)
            self.process = self._processes.enter_context(process)

        def said() -> re.Match[bytes] | None:
            assert self.process.poll() is None, self.output()
            return re.search(rb"running on http://127.0.0.1:(\d+)", path.read_bytes()[begun:])

        block_until(said)
        found = said()
        assert found
        self.port = int(found[1])

    def stop(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(ENDS_WITHIN_S)

    def output(self) -> str:
        return (self.folder / "server.txt").read_text()

    def send(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request. Return the status and the JSON of the answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=ENDS_WITHIN_S)) as client:
            headers = {"Content-Type": "application/json"}
            client.request(method, path, None if body is None else json.dumps(body), headers)
            answer = client.getresponse()
            return answer.status, json.loads(answer.read())

    def get(self, path: str) -> Any:
        status, found = self.send("GET", path)
        assert status == 200, found
        return found

    def stream(self, session: str, after: int | None = None) -> Iterator[Item]:
        """Read the stream of a session, until the reader leaves or the server ends."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=ENDS_WITHIN_S)) as client:
            headers = {} if after is None else {"Last-Event-ID": str(after)}
            client.request("GET", f"/sessions/{session}/stream", headers=headers)
            answer = client.getresponse()
            assert answer.status == 200, answer.read()
            parts: dict[str, str] = {}
            for line in iter(answer.readline, b""):
                name, colon, value = line.decode().rstrip("\n").partition(": ")
                if name and colon:
                    parts[name] = value
                elif "event" in parts:
                    number = int(parts["id"]) if "id" in parts else None
                    yield Item(parts["event"], number, json.loads(parts["data"]))
                    parts = {}

    def recording(self, session: str) -> Recording:
        return Recording.open(self.folder / "service.db", session)


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
