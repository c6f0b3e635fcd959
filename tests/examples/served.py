"""A web service of the examples, in a process of its own, behind a real socket."""

import http.client
import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple, Self

from callboard.replay import Recording
from tests.pages import ROOT
from tests.processes import ENDS_WITHIN_S, running
from tests.waiting import block_until


class Item(NamedTuple):
    """A server-sent event."""

    kind: str
    id: int | None
    data: Any


class Service:
    """The service of an example, in a folder of its own. Each start is a new process."""

    def __init__(self, folder: Path, example: str = "service", module: str = "app") -> None:
        self.folder = folder
        self.example = example
        self.module = module
        self._processes = ExitStack()
        self.port = 0

    def __enter__(self) -> Self:
        self._processes.__enter__()
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._processes.__exit__(*error)

    def start(self, grace_s: int = 0) -> None:
        """Start a process that serves on any free port, or on the one from before, and wait until it does.

        grace_s: seconds for which the server waits for its requests when it is told to stop.
        """
        folder = str(ROOT / "examples" / self.example)
        options = ["--app-dir", folder, "--port", str(self.port), "--timeout-graceful-shutdown", str(grace_s)]
        command = [sys.executable, "-m", "uvicorn", f"{self.module}:app", *options]
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
        return Recording.open(self.folder / f"{self.example}.db", session)
