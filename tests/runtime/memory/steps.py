"""Steps that memories do, side by side with a plain one."""

from typing import TypeAlias

from hypothesis import strategies as st

from callboard.memory import MemoryEntry
from callboard.runtime.memory.access import Memory
from tests.runtime.memory.plain import PlainMemory

NAMES = st.sampled_from(["shared", "agent:reader", 'a "b" _1'])
WORDS = st.sampled_from(
    ["the", "wall", "Zürich", "长城很长", "城", "很长", "AND", '"', "*", "_1", "", "NEAR("]
)
TEXTS = st.lists(WORDS, max_size=5).map(" ".join)
STEP = st.one_of(
    st.tuples(st.just("remember"), NAMES, TEXTS, st.integers(0, 12)),
    st.tuples(st.just("recall"), NAMES, TEXTS, st.integers(1, 4)),
    st.tuples(st.just("forget"), NAMES, st.just(""), st.integers(0, 12)),
)
STEPS = st.lists(STEP, min_size=8, max_size=20)

Steps: TypeAlias = list[tuple[str, str, str, int]]


def entry(number: int, text: str) -> MemoryEntry:
    return MemoryEntry(f"id{number}", text or "-", ("secret",) if number % 2 else (), "reader", "s1", number)


def sizes_after(steps: Steps, memory: Memory) -> dict[str, int]:
    """Do the steps with a memory and with a plain one, which agree. Return the sizes of the plain one."""
    plain = PlainMemory()
    for what, name, text, number in steps:
        results: list[object] = []
        for store in (memory, plain):
            assert isinstance(store, Memory)
            if what == "remember":
                store.remember(name, entry(number, text))
            elif what == "recall":
                results.append(list(store.recall(name, text, number)))
            else:
                results.append(store.forget(name, f"id{number}"))
        assert results[:1] == results[1:], (what, name, text, number)
    return {name: len(held) for name, held in plain.entries.items() if held}
