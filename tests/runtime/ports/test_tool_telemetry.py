"""Telemetry as the tools port completes it."""

from types import SimpleNamespace
from typing import Any, cast

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.telemetry import Telemetry
from callboard.actors.protocol.value_types import CacheRequest
from callboard.runtime.ports.tool_telemetry import completed, of_hit
from callboard.runtime.sessions.board import Board

BOARD = cast("Board", SimpleNamespace(session_id="s-1", now_ms=1_250))


def request(**fields: Any) -> Event:
    return Event(7, 1_000, "host", "tools", 3, CallTool(1, 0, "look", "read", NULL, **fields))


def test_a_plain_call_has_none() -> None:
    assert completed(None, BOARD, request(), "") is None


def test_the_call_its_times_and_the_cache_are_added_to_what_was_measured() -> None:
    told = completed(Telemetry(duration_us=9, retries=1), BOARD, request(), "2")
    assert told == Telemetry("look", "2", "s-1#7", 1_000, 250, duration_us=9, retries=1)
    cached = request(cache=CacheRequest("k"))
    missed, hit = completed(None, BOARD, cached, ""), completed(None, BOARD, cached, "", is_hit=True)
    assert missed is not None
    assert hit is not None
    assert (missed.cache, missed.cache_key, hit.cache, hit.cache_key) == ("miss", "k", "hit", "k")


def test_a_clock_that_went_back_gives_no_time_below_0() -> None:
    for at, expected in ((1_249, 1), (1_250, 0), (1_251, 0)):
        asked = Event(7, at, "host", "tools", 3, CallTool(1, 0, "look", "read", NULL))
        told = completed(Telemetry(), BOARD, asked, "")
        assert told is not None
        assert told.latency_ms == expected


def test_a_hit_repeats_the_size_and_not_the_times_of_its_origin() -> None:
    assert of_hit(None) is None
    assert of_hit(Telemetry(duration_us=9, tokens_out_estimated=4)) == Telemetry(tokens_out_estimated=4)
