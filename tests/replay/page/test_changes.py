"""Changed entries of maps: exactly those that differ."""

from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.intmap import IntMap
from callboard.replay.page.changes import changed_entries

entries = st.dictionaries(st.integers(0, 5_000), st.integers(0, 3), max_size=40)


def map_of(values: dict[int, int]) -> IntMap[int]:
    found: IntMap[int] = IntMap()
    for key, value in values.items():
        found = found.put(key, value)
    return found


@given(entries, entries)
def test_the_changed_entries_are_those_that_differ(old: dict[int, int], new: dict[int, int]) -> None:
    found = dict(changed_entries(map_of(old), map_of(new)))
    keys = old.keys() | new.keys()
    assert found == {key: new.get(key) for key in keys if old.get(key) != new.get(key)}


def test_a_long_map_that_grows_is_compared_where_it_changed() -> None:
    before = map_of(dict.fromkeys(range(1_023), 1))
    assert [*changed_entries(before, before.put(1_023, 2).put(1_024, 3))] == [(1_023, 2), (1_024, 3)]
    assert [*changed_entries(before.put(5_000, 1), before)] == [(5_000, None)]
