"""A port of a fork: recorded answers come first, and the real port acts where none fits."""

import asyncio
from typing import Any

from callboard.actors.protocol.events import Event
from callboard.runtime.forks.playback import LivePlayback
from callboard.runtime.sessions.port_protocol import Port


class ReusingPort:
    """A port behind the playback of a fork."""

    def __init__(self, port: Port, playback: LivePlayback) -> None:
        self._port = port
        self._playback = playback

    def start(self, request: Event) -> None:
        """Hold the recorded answer to a request until its turn, or act on the request."""
        self._playback.start(request)

    def abort(self, request: Event) -> bool:
        """Give up a request. Return False if it never started."""
        return self._playback.abort(request)

    def detach(self) -> None:
        """Detach the real port. Requests that wait for their recorded answers stay open."""
        self._port.detach()

    @property
    def running(self) -> "set[asyncio.Task[Any]]":
        """Return the tasks of the real port."""
        return self._port.running

    async def aclose(self) -> None:
        """Close the real port."""
        await self._port.aclose()
