"""Changed entries of maps: exactly those that differ."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.addresses import HOST, TOOLS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.intmap import IntMap
from callboard.replay.page.changes import FILES_MAX, FileWrites, changed_entries
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.secrets.redactor import Redactor
from tests.browser import browser, needs_browser
from tests.replay.page.kit import write_page
from tests.runtime.files.history_kit import Told, change
from tests.runtime.forks.test_fork_files import Place

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


def test_each_answer_has_the_differences_of_its_files(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.learn("KEY", "open-sesame")
    told, writes = Told(tmp_path / "root", redactor=redactor), FileWrites()
    change(told.root / "a", b"1\n")
    bodies = [
        told.write("a", b"2\n"),
        told.write("a", b"3\n"),
        told.run(("a", None)),
        told.write("a", b"open-sesame"),
        told.run(*((f"f{number:02}", b"x") for number in range(FILES_MAX + 5))),
        told.run(),
    ]
    lines = [list(writes.take(Event(seq, 0, TOOLS, HOST, 0, body))) for seq, body in enumerate(bodies, 1)]
    found: list[Any] = [json.loads(line[0][1:]) if line else None for line in lines]
    assert found[0] == [1, [["a", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2"]]]
    assert found[1][1][0][1].endswith("-2\n+3")
    assert found[2][1][0][1].endswith("+++ /dev/null\n@@ -1 +0,0 @@\n-3")
    assert found[3][1] == [["a", "@@ the log does not have the bytes: it held a secret"]]
    assert len(found[4][1]) == FILES_MAX
    assert found[5] is None


@needs_browser
@pytest.mark.slow
def test_an_answer_shows_the_files_that_its_command_changed(tmp_path: Path) -> None:
    place = Place(tmp_path / "root")
    page = write_page(Recording.open(MemoryReader(place.log), "origin"), tmp_path)
    with browser() as tab:
        tab.open(page)
        tab.run(f"callboard.detail.show('message'); callboard.select({place.seqs()[1]})")
        shown = tab.run("[...document.querySelectorAll('.edit b')].map((one) => one.textContent)")
        assert [title.replace("\N{MINUS SIGN}", "-") for title in shown] == [
            "made -0 +1",
            "new -0 +1",
            "old -1 +0",
        ]
        assert tab.console == []
