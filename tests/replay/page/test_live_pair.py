"""The page of a fork that runs: it has the lines of both sessions, and a comparison that keeps up."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.events import Event
from callboard.replay.page import live_pair
from callboard.replay.page.building import comparison, shared_events
from callboard.replay.page.live_pair import LivePair
from callboard.replay.page.packing import unpacked
from callboard.replay.reading import Source
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append
from tests.replay.page.forks import fork_log

BLOCK = re.compile(rb'id="(?:data|beside)">([A-Za-z0-9+/=]+)<')


class Growing:
    """A log with an origin, and a fork that grows event by event."""

    def __init__(self) -> None:
        source, name = fork_log()
        reader = MemoryReader(source)
        origin, self.fork = (Recording.open(reader, one).events for one in ("origin", name))
        self.base = next(event.body.at for event in self.fork if isinstance(event.body, Forked))
        self._log = MemoryLog()
        asyncio.run(self._begin(list(origin)))
        self.reader = MemoryReader(self._log)

    async def _begin(self, origin: list[Event]) -> None:
        await self._log.open()
        epoch = await self._log.create("origin", 1, "")
        await self._log.append([Append("origin", 0, epoch, origin)])
        first = list(self.fork[self.base : self.base + 1])
        await self._log.fork("fork", 2, "", "origin", self.base, own=first)

    def grow(self) -> Iterator[int]:
        """Append one event after the other; yield the seq of each."""
        for event in self.fork[self.base + 1 :]:
            asyncio.run(self._log.append([Append("fork", event.seq - 1, 1, [event])]))
            yield event.seq


def last_of(lines: list[bytes]) -> dict[str, Any]:
    return dict(json.loads(lines[-1].removeprefix(b"*")))


def test_a_fork_grows_beside_its_origin_and_is_compared_as_a_whole_at_its_end() -> None:
    growing = Growing()
    pair = LivePair(growing.reader, "fork", "origin")
    left, right = map(unpacked, BLOCK.findall(b"".join(pair.page(b"words of the server"))))
    count = sum(line.startswith(b"{") for line in left)
    assert count == len(Recording.open(growing.reader, "origin").events)
    found, have, seq = last_of(right)["beside"], len(right) - 1, growing.base + 1
    for seq in growing.grow():
        lines = pair.more(have, seq - 1, found["upto"]).split(b"\n")
        have += len(lines) - 1
        found = last_of(lines).get("beside", found)
    if more := pair.more(have, seq, found["upto"]):
        found = last_of(more.split(b"\n"))["beside"]
    assert pair.more(have, seq, seq) == b""
    origin, fork = (Source.upto(growing.reader, name) for name in ("origin", "fork"))
    whole = json.loads(json.dumps(comparison(origin, fork)))
    assert whole == {name: found[name] for name in whole}
    assert whole["shared"] == shared_events(origin, fork) > 0


def test_a_fork_that_writes_fast_is_not_compared_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    growing, made = Growing(), []
    pair = LivePair(growing.reader, "fork", "origin")

    def noted(left: Source, right: Source) -> dict[str, object]:
        made.append(right.head.seq)
        return {}

    monkeypatch.setattr(live_pair, "comparison", noted)
    seqs = [seq for seq in growing.grow() if pair.more(0, 0)]
    assert 3 < len(made) < len(seqs) / 2
    assert made[-1] == seqs[-1]  # a closed one is compared to its end
