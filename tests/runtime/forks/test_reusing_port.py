"""A port of a fork hands requests to the playback, and everything else to the real port."""

import asyncio
from typing import Any, cast

import pytest

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import CallTool
from callboard.runtime.forks.playback import LivePlayback
from callboard.runtime.forks.reusing_port import ReusingPort

REQUEST = Event(7, 0, "host", "tools", 0, CallTool(1, 0, "look", "read", NULL))


class Told:
    """A port, or a playback, that notes its orders."""

    def __init__(self, name: str, heard: list[str], *, has_started: bool = True) -> None:
        self._name, self._heard, self._has_started = name, heard, has_started
        self.running: set[asyncio.Task[Any]] = set()

    def start(self, request: Event) -> None:
        self._heard.append(f"{self._name} starts {request.seq}")

    def abort(self, request: Event) -> bool:
        self._heard.append(f"{self._name} aborts {request.seq}")
        return self._has_started

    def detach(self) -> None:
        self._heard.append(f"{self._name} detaches")

    async def aclose(self) -> None:
        self._heard.append(f"{self._name} closes")


@pytest.mark.parametrize("has_started", [True, False])
def test_requests_go_to_the_playback_and_the_end_to_the_port(has_started: bool) -> None:
    heard: list[str] = []
    port = Told("port", heard)
    playback = Told("playback", heard, has_started=has_started)
    reusing = ReusingPort(port, cast("LivePlayback", playback))
    reusing.start(REQUEST)
    assert reusing.abort(REQUEST) is has_started
    reusing.detach()
    asyncio.run(reusing.aclose())
    assert reusing.running is port.running
    assert heard == ["playback starts 7", "playback aborts 7", "port detaches", "port closes"]
