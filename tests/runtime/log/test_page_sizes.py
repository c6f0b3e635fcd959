"""Pages hold many small events, or few large ones."""

from callboard.runtime.log.large_values import Cut
from callboard.runtime.log.page_sizes import FIRST_EVENTS, PAGE_BYTES, PageSizes
from callboard.runtime.log.protocol import Sealed, Stored


def row(size: int) -> Stored:
    return Stored(1, 0, "a", "b", 0, b"x" * size, b"")


def test_pages_of_small_events_grow_to_the_most() -> None:
    sizes = PageSizes(2_000)
    seen = []
    for _ in range(4):
        seen.append(sizes.events)
        sizes.note([row(100)] * sizes.events)
    assert seen == [FIRST_EVENTS, 4 * FIRST_EVENTS, 16 * FIRST_EVENTS, 2_000]


def test_pages_of_large_events_shrink_to_the_bytes_of_a_page() -> None:
    sizes = PageSizes(2_000)
    for _ in range(3):
        sizes.note([row(PAGE_BYTES // 8)] * sizes.events)
        assert sizes.events == 8
    sizes.note([row(3 * PAGE_BYTES)] * 8)
    assert sizes.events == 1
    sizes.note([row(100)])
    assert sizes.events == 4


def test_values_that_are_cut_out_count() -> None:
    sizes = PageSizes(2_000)
    cut = Cut(0, b"", b"x" * PAGE_BYTES)
    sizes.note([Sealed(1, 0, "a", "b", 0, b"null", (cut,), b"")])
    assert sizes.events == 1


def test_an_empty_page_and_a_low_bound_are_no_problem() -> None:
    sizes = PageSizes(5)
    assert sizes.events == 5
    sizes.note([])
    assert sizes.events == 1
