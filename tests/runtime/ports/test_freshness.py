"""The calls whose results a process may still give again."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.value_types import CacheRequest
from callboard.runtime.ports.freshness import Freshness


def request(seq: int, over_writes: bool = False) -> Event:
    call = CallTool(1, 0, "look", "read", NULL, cache=CacheRequest("key", 0, over_writes))
    return Event(seq, seq, "host", "tools", 0, call)


def test_every_result_is_fresh_at_first() -> None:
    assert Freshness().since(request(9), None) == 0


def test_results_of_before_other_deps_are_not_fresh() -> None:
    fresh, deps = Freshness(), object()
    assert [fresh.since(request(seq), deps) for seq in (3, 5)] == [3, 3]
    assert fresh.since(request(8, over_writes=True), object()) == 8


def test_nothing_is_fresh_while_a_left_thread_runs_nor_what_was_read_before_its_end() -> None:
    fresh, is_running = Freshness(), True
    fresh.add(lambda: is_running)
    fresh.add(lambda: False)
    assert [fresh.since(request(seq), None) for seq in (3, 5)] == [3, 5]
    assert fresh.since(request(6, over_writes=True), None) == 0
    is_running = False
    assert [fresh.since(request(seq), None) for seq in (7, 9)] == [7, 7]
