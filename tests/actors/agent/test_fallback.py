"""The ring of models: the next one, whole rounds, waits, and models that are not asked again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.fallback import NOT_AGAIN, Fallback, after_failure, at_new_turn, first_of
from callboard.actors.protocol.failures import PASSING
from callboard.actors.protocol.profiles import ModelSpec

SPECS = (ModelSpec("a"), ModelSpec("b"), ModelSpec("c"))
RING = Fallback(SPECS, PASSING)


def test_a_model_without_a_fallback_has_none() -> None:
    assert first_of(ModelSpec("a")) == (ModelSpec("a"), None)


def test_the_first_model_stands_in_the_ring_as_any_other() -> None:
    model, ring = first_of(ModelSpec("a", fallback=SPECS[1:], fallback_on=PASSING))
    assert (model, ring) == (ModelSpec("a"), RING)
    assert ring is not None
    assert ring.name == ""


def test_each_model_is_asked_once_before_a_wait() -> None:
    ring, told = RING, []
    for wait in (700, 500, 600):
        found = after_failure(ring, wait)
        assert found is not None
        ring = found.fallback
        told.append((ring.name, found.wait_ms))
    assert told == [("b", 0), ("c", 0), ("b", 500)]  # which may be asked soonest
    assert ring.failed == (0, 0, 0)


def test_of_equal_waits_the_next_model_comes_first() -> None:
    ring = Fallback(SPECS, PASSING, 1, (500, 0, 500))
    found = after_failure(ring, 500)
    assert found is not None
    assert (found.fallback.place, found.wait_ms) == (2, 500)


def test_a_model_whose_failure_no_wait_cures_is_not_asked_again() -> None:
    ring: Fallback = RING
    for wait, place in ((NOT_AGAIN, 1), (NOT_AGAIN, 2), (800, 2), (900, 2)):
        found = after_failure(ring, wait)
        assert found is not None
        ring = found.fallback
        assert ring.place == place
    assert after_failure(ring, NOT_AGAIN) is None


def test_a_turn_begins_at_the_same_place_with_a_fresh_round() -> None:
    ring = Fallback(SPECS, PASSING, 2, (500, NOT_AGAIN, 0))
    assert at_new_turn(ring) == Fallback(SPECS, PASSING, 2)
    assert at_new_turn(RING) is RING
    assert at_new_turn(None) is None


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.integers(2, 5),
    st.integers(0, 4),
    st.lists(st.just(NOT_AGAIN) | st.integers(1, 1_000), min_size=1, max_size=20),
)
def test_every_model_is_asked_in_each_round_and_none_after_its_last(
    count: int, start: int, waits: list[int]
) -> None:
    ring = Fallback(tuple(ModelSpec(f"m{n}") for n in range(count)), PASSING, start % count)
    asked, gone = {ring.place}, set[int]()
    for wait in waits:
        gone |= {ring.place} if wait == NOT_AGAIN else set()
        found = after_failure(ring, wait)
        if found is None:
            assert gone == set(range(count))
            return
        ring = found.fallback
        assert ring.place not in gone
        is_whole = asked | gone == set(range(count))
        assert bool(found.wait_ms) == is_whole
        assert is_whole or ring.place not in asked
        asked = {ring.place} if is_whole else asked | {ring.place}
