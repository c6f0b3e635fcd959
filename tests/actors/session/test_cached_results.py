"""Results that are given again: a fold of the log."""

from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ToolsChange
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.actors.protocol.value_types import CacheRequest
from callboard.actors.session import cached_results
from callboard.actors.session.cached_results import (
    RESULTS_MAX,
    CachedResult,
    CachedResults,
    has_effect,
    origin_of,
    repeated,
)
from callboard.actors.session.shared_state import NO_STATE, SharedState

OK = ToolReturned(1, 0, "ok", text_json("found"), labels=("web",))
COUNT = StateKey("count", "add", Json(b"0"))


def call(
    seq: int, key: str = "k", ttl_ms: int = 0, *, over_writes: bool = False, effect: str = "read"
) -> Event:
    cache = CacheRequest(key, ttl_ms, over_writes) if effect == "read" else None
    body = CallTool(1, 0, "look", effect, NULL, cache=cache)  # type: ignore[arg-type]  # an effect
    return Event(seq, 1_000, "host", "tools", 0, body)


def answer(seq: int, body: ToolReturned = OK, at: int = 1_000) -> Event:
    return Event(seq, at, "tools", "host", 0, body)


def kept(body: ToolReturned = OK, shared: SharedState = NO_STATE, **rules: int) -> CachedResults:
    results = CachedResults()
    results.on_answer(answer(2, body), call(1, **rules), shared)  # type: ignore[arg-type]  # its own arguments
    return results


def found(results: CachedResults, event: Event, now_ms: int = 1_000, shared: SharedState = NO_STATE) -> int:
    assert isinstance(event.body, CallTool)
    one = results.find(event.body, now_ms, shared)
    return one.seq if one else 0


def test_the_same_key_finds_the_result_and_another_does_not() -> None:
    assert found(kept(), call(3)) == 2
    assert found(kept(), call(3, "other")) == 0


def test_an_answer_that_is_an_error_or_changed_the_session_is_not_kept() -> None:
    for body in (
        replace(OK, status="error"),
        replace(OK, cached_from="s#1"),
        replace(OK, state_update=(StateUpdate("count", Json(b"1")),)),
        replace(OK, tools=ToolsChange(())),
        replace(OK, checkpoints=("here",)),
    ):
        assert found(kept(body), call(3)) == 0


def test_a_result_is_given_until_its_time_is_over() -> None:
    results = kept(ttl_ms=500)
    assert found(results, call(3, ttl_ms=500), 1_499) == 2
    assert found(results, call(3, ttl_ms=500), 1_500) == 0


def test_a_tool_with_an_effect_ends_results_from_its_call_to_its_answer() -> None:
    results, write = kept(), call(3, effect="write")
    assert has_effect(write)
    results.on_call(write)
    assert found(results, call(4)) == 0
    assert found(results, call(4, over_writes=True)) == 2
    results.on_answer(answer(6), call(5), NO_STATE)  # read while the effect is under way
    assert found(results, call(7)) == 0
    results.on_answer(answer(8), write, NO_STATE)
    assert found(results, call(9)) == 0, "what was read meanwhile may be half of the effect"
    results.on_answer(answer(11), call(10), NO_STATE)
    assert found(results, call(12)) == 11


def test_effects_that_ran_at_the_first_call_count() -> None:
    results = CachedResults([1])
    results.on_answer(answer(3), call(2), NO_STATE)
    assert found(results, call(4)) == 0


def test_the_state_that_a_tool_has_read_must_be_the_same() -> None:
    zero = NO_STATE.declaring([COUNT])
    one = SharedState({"count": zero.cells["count"].updated(StateUpdate("count", Json(b"1")), "host", 5)})
    results = kept(replace(OK, state_read=("count",)), zero)
    assert found(results, call(3), shared=zero) == 2
    assert found(results, call(3), shared=one) == 0
    assert found(kept(), call(3), shared=one) == 2, "it has read nothing"


def test_a_repeated_answer_carries_the_labels_and_names_its_origin() -> None:
    one = CachedResult(1, 2, 1_000, replace(OK, state_read=("count",)), {})
    body = repeated(replace(call(3), body=CallTool(4, 5, "look", "read", NULL)), one, "s-1")
    assert (body.turn, body.call, body.output, body.labels) == (4, 5, OK.output, ("web",))
    assert (body.cached_from, origin_of(body), body.state_read) == ("s-1#2", 2, ("count",))
    assert origin_of(OK) == 0


def test_the_oldest_results_go_first() -> None:
    results = CachedResults()
    for number in range(RESULTS_MAX + 1):
        results.on_answer(answer(10 + number), call(1, f"k{number}"), NO_STATE)
    assert found(results, call(9_999, "k0")) == 0
    assert found(results, call(9_999, "k1")) == 11


def test_results_push_no_other_out_before_they_have_too_many_bytes_together() -> None:
    results = CachedResults()
    half = text_json("x" * (cached_results.BYTES_MAX // 2 - len(text_json(""))))
    for seq, key in ((3, "a"), (4, "b"), (5, "a")):
        results.on_answer(answer(seq, replace(OK, output=half)), call(seq, key), NO_STATE)
    assert [found(results, call(9, key)) for key in "ab"] == [5, 4]
    results.on_answer(answer(6, replace(OK, output=Json(b"1"))), call(6, "c"), NO_STATE)
    assert [found(results, call(9, key)) for key in "abc"] == [5, 0, 6]


def test_large_results_push_others_out() -> None:
    results = kept()
    half = text_json("x" * (cached_results.BYTES_MAX // 2))
    for seq, key in ((3, "a"), (4, "b"), (5, "a")):
        results.on_answer(answer(seq, replace(OK, output=half)), call(seq, key), NO_STATE)
    assert found(results, call(9)) == 0
    assert found(results, call(9, "a")) == 5
