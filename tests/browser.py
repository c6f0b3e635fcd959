"""A headless Chromium for tests of pages, driven over a pipe by the DevTools protocol."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.processes import running

CHROMIUM: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), ""
)
needs_browser: Final = pytest.mark.skipif(
    not CHROMIUM, reason="needs Chromium: `apt-get install chromium` installs it"
)
_WAIT_S: Final = 60.0
# Chromium reads commands from descriptor 3 and writes to 4.
_SHELL: Final = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null'


class _Connection:
    """The pipe to a browser, which all its pages use."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._out, self._in = process.stdin, process.stdout
        self._number = 0
        self._buffer = b""
        self.pages: dict[str, Browser] = {}

    def call(self, session: str, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol and return its result. session: of a page; empty for the browser."""
        self._number += 1
        sent: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if session:
            sent["sessionId"] = session
        self._out.write(json.dumps(sent).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            page = self.pages.get(str(answer.get("sessionId")))
            if page is not None:
                page.note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._in.fileno(), 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))


class Browser:
    """One page of a browser, and everything that it did: requests, dialogs, violations of its policy.

    It shares no storage with other pages of that browser.
    """

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.console: list[str] = []
        self._context = connection.call("", "Target.createBrowserContext")["browserContextId"]
        made = connection.call("", "Target.createTarget", url="about:blank", browserContextId=self._context)
        attached = connection.call("", "Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        connection.pages[self._session] = self
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """Close the page."""
        self._connection.call("", "Target.disposeBrowserContext", browserContextId=self._context)
        del self._connection.pages[self._session]

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol for this page and return its result."""
        return self._connection.call(self._session, method, **parameters)

    def note(self, event: dict[str, Any]) -> None:
        """Note an event of this page."""
        given = event.get("params", {})
        match str(event.get("method")):
            case "Network.requestWillBeSent":
                self.requests.append(given["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(given["message"])
            case "Log.entryAdded":
                self.console.append(given["entry"]["text"])
            case "Runtime.exceptionThrown":
                details = given["exceptionDetails"]
                self.console.append(str(details.get("exception", {}).get("description", details["text"])))
            case "Runtime.consoleAPICalled":
                self.console.append(str([one.get("value") for one in given["args"]]))
            case _:  # the other events of a domain
                return

    def run(self, code: str) -> Any:
        """Run JavaScript in the page and return its value. Awaits a promise."""
        done = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def open(self, page: Path, link: str = "", width: int = 1400, height: int = 900) -> float:
        """Open a page of callboard and return the milliseconds until it was ready."""
        return self.visit(page.resolve().as_uri() + link, width, height)

    def visit(self, address: str, width: int = 1400, height: int = 900) -> float:
        """Open the page at an address and return the milliseconds until it was ready."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        ends = time.monotonic() + _WAIT_S
        while time.monotonic() < ends:
            ready = self.run("document.body?.dataset.ready ?? document.body?.dataset.failed ?? ''")
            if ready:
                assert ready != "yes", self.console
                return float(ready)
            time.sleep(0.02)
        raise AssertionError(f"the page was not ready in {_WAIT_S} s: {self.console}")

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def scheme(self, name: str) -> None:
        """Prefer a colour scheme: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path: Path) -> None:
        """Write a picture of the page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


_open: Final = ExitStack()


@contextmanager
def browser() -> Iterator[Browser]:
    """Open a page in the browser of this process, and close it afterwards."""
    page = Browser(_started())
    try:
        yield page
    finally:
        page.close()


@cache
def _started() -> _Connection:
    """Start the one browser of this process: a start takes longer than most tests of pages."""
    folder = _open.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
    quiet = ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}"]
    command = ["sh", "-c", _SHELL, CHROMIUM, *flags, *quiet]
    return _Connection(_open.enter_context(running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)))


def end_browser() -> None:
    """End the browser of this process, if one was started."""
    _open.close()
    _started.cache_clear()
