"""The embedded memory: equal to a plain one, whatever is done with it, by one process or by several."""

import subprocess
import sys
import tempfile
import unicodedata
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from callboard.errors import MemoryFailed, MisuseError
from callboard.memory import MemoryEntry, SQLiteMemory
from callboard.runtime.memory.access import HITS_MAX
from callboard.runtime.memory.sqlite import TERMS_MAX, WORD_CHARS_MAX, Term, terms_of, words_of
from tests.effort import effort
from tests.pages import ROOT
from tests.runtime.memory.steps import STEPS, Steps, entry, sizes_after

SIGNS = st.sampled_from("aB é城长很が゙กั हि_.1'")
WORDS_TEXTS = st.text(alphabet=st.one_of(SIGNS, st.characters()), max_size=30)


def found(memory: SQLiteMemory, query: str = "", name: str = "shared", limit: int = 10) -> list[str]:
    return [one.text for one in memory.recall(name, query, limit)]


def fill(memory: SQLiteMemory, stored: list[int]) -> None:
    for number in range(100):
        memory.remember("shared", entry(number, f"word{number} " * 400))
        stored.append(number)


@pytest.fixture
def memory(tmp_path: Path) -> SQLiteMemory:
    return SQLiteMemory(tmp_path / "memory.db", wait_s=0.05)


@settings(max_examples=effort(12, 400), deadline=None)
@given(STEPS)
def test_it_does_what_a_plain_memory_does(steps: Steps) -> None:
    with tempfile.TemporaryDirectory() as folder:
        embedded = SQLiteMemory(Path(folder) / "m.db")
        assert sizes_after(steps, embedded) == embedded.sizes()


def test_words_of_two_chinese_characters_are_found_and_single_ones(memory: SQLiteMemory) -> None:
    for number, text in enumerate(["我们去了北京大学", "黑猫在家", "The Great Wall"]):
        memory.remember("shared", entry(number, text))
    assert found(memory, "北京") == ["我们去了北京大学"]
    assert found(memory, "猫") == found(memory, "家") == ["黑猫在家"]
    assert found(memory, "狗 great") == ["The Great Wall"]
    assert found(memory, "京北") == []


HAN = st.text(alphabet="长城很高我们北京a ", min_size=1, max_size=12)


@settings(max_examples=effort(4, 300), deadline=None)
@given(st.lists(HAN, min_size=1, max_size=3), st.data())
def test_a_pair_of_chinese_characters_finds_the_texts_that_have_it_and_no_other(
    texts: list[str], data: st.DataObject
) -> None:
    pair = data.draw(st.text(alphabet="长城很高我们北京", min_size=2, max_size=2))
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteMemory(Path(folder) / "m.db")
        for number, text in enumerate(texts):
            store.remember("shared", entry(number, text))
        assert {*found(store, pair)} == {text for text in texts if pair in text}
        assert {*found(store, pair[0])} == {text for text in texts if pair[0] in text}


def test_a_rare_word_counts_more_and_the_newer_of_equal_entries_is_first(memory: SQLiteMemory) -> None:
    for number, text in enumerate(["tea is hot", "ink is blue", "ink is red", *["it is so"] * 5]):
        memory.remember("shared", entry(number, text))
    assert found(memory, "is tea") == ["tea is hot"]  # the others have less than a third of its rank
    assert found(memory, "is ink") == ["ink is red", "ink is blue"]
    assert found(memory, "", limit=1) == found(memory, "...", limit=1) == ["it is so"]


def test_another_memory_of_the_file_changes_no_rank(memory: SQLiteMemory) -> None:
    for number, text in enumerate(["tea is hot", "ink is blue", "it is so"]):
        memory.remember("shared", entry(number, text))
    before = found(memory, "is tea ink")
    for number in range(30):
        memory.remember("agent:x", entry(number, "tea tea ink is"))
    assert found(memory, "is tea ink") == before


def test_an_entry_is_kept_whole_and_once(memory: SQLiteMemory) -> None:
    first = MemoryEntry("id1", "the key\nis 7", ("secret", "untrusted"), "reader", "s1", 12)
    memory.remember("shared", first)
    memory.remember("shared", MemoryEntry("id1", "something else"))
    assert memory.recall("shared", "key", 5) == [first]
    assert memory.recall("shared", "else", 5) == []
    assert memory.forget("shared", "id1")
    assert not memory.forget("shared", "id1")
    assert found(memory, "key") == []


def test_limits_hold_for_entries_bytes_and_hits(tmp_path: Path) -> None:
    small = SQLiteMemory(tmp_path / "small.db", entries_max=2)
    for number in range(2):
        small.remember("shared", entry(number, "text"))
    with pytest.raises(MemoryFailed, match="has 2 entries, which is its limit; forget one first") as full:
        small.remember("shared", entry(2, "text"))
    assert full.value.reason == "full"
    small.remember("shared", entry(1, "text"))  # again: it is there
    small.remember("other", entry(2, "text"))  # each memory has its own number
    assert small.recall("shared", "text", 0) == small.recall("shared", "text", -1) == []
    assert len(small.recall("shared", "text", HITS_MAX + 1)) == 2


def test_a_full_file_or_disk_stores_nothing_and_stays_readable(tmp_path: Path) -> None:
    bounded = SQLiteMemory(tmp_path / "full.db", bytes_max=120_000)
    stored: list[int] = []
    with pytest.raises(MemoryFailed, match="is full; nothing was stored") as full:
        fill(bounded, stored)
    assert full.value.reason == "full"
    assert 2 < len(stored) < 100
    assert bounded.sizes() == {"shared": len(stored)}
    assert len(found(bounded, "word1")) == 1
    assert bounded.forget("shared", "id1")


@pytest.mark.parametrize("path", ["", ":memory:", "a\0b"])
def test_a_path_that_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(MisuseError, match="a memory is kept in a file"):
        SQLiteMemory(path)


def test_bounds_that_cannot_work_are_refused(tmp_path: Path) -> None:
    for bounds in ({"entries_max": 0}, {"bytes_max": 0}):
        with pytest.raises(MisuseError, match="at least 1"):
            SQLiteMemory(tmp_path / "m.db", **bounds)
    with pytest.raises(MisuseError, match="not negative"):
        SQLiteMemory(tmp_path / "m.db", wait_s=-1)


WRITER = """
import sys
from callboard.memory import MemoryEntry, SQLiteMemory

path, name, count = sys.argv[1:]
memory = SQLiteMemory(path, wait_s=30)
for number in range(int(count)):
    memory.remember("shared", MemoryEntry(f"{name}{number}", f"from {name} fact{number}"))
    assert len(memory.recall("shared", f"{name} fact{number}", 1)) == 1
    if number % 3 == 0:
        assert memory.forget("shared", f"{name}{number}")
"""


@pytest.mark.slow
def test_processes_write_one_file_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path, count = tmp_path / "shared.db", effort(12, 200)
    with ExitStack() as running:
        writers = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WRITER, str(path), name, str(count)],
                    cwd=ROOT,
                    stderr=subprocess.PIPE,
                )
            )
            for name in ("ann", "bob", "cy")
        ]
        said = [writer.communicate(timeout=60)[1].decode() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], said
    kept = [number for number in range(count) if number % 3]
    memory = SQLiteMemory(path)
    assert memory.sizes() == {"shared": 3 * len(kept)}
    for name in ("ann", "bob", "cy"):
        assert {one.id for one in memory.recall("shared", name, 50)} <= {f"{name}{n}" for n in kept}


def test_a_forgotten_entry_leaves_no_words_behind(memory: SQLiteMemory) -> None:
    """Its place in the index may be taken by the next entry."""
    memory.remember("shared", entry(1, "wall"))
    assert memory.forget("shared", "id1")
    memory.remember("shared", entry(2, "tree"))
    assert found(memory, "wall") == []
    assert found(memory, "tree") == ["tree"]


def test_an_entry_of_just_a_third_of_the_best_rank_is_found(memory: SQLiteMemory) -> None:
    memory.remember("shared", entry(1, "a b c"))
    memory.remember("shared", entry(2, "a"))
    # With two entries `a` has weight 1, `b` and `c` two each: ranks 5 and 1. Two more words make it less.
    assert found(memory, "a b c") == ["a b c"]
    memory.remember("shared", entry(3, "b c"))
    # Of three: `a`, `b` and `c` have weight 1 each, so the ranks are 3, 1 and 2.
    assert found(memory, "a b c") == ["a b c", "b c", "a"]


def test_only_the_first_terms_of_a_query_and_the_most_hits_count(memory: SQLiteMemory) -> None:
    memory.remember("shared", entry(1, "late"))
    memory.remember("shared", entry(2, "early"))
    words = " ".join(["early", *(f"w{number}" for number in range(TERMS_MAX - 1)), "late"])
    assert found(memory, words) == ["early"]
    for number in range(HITS_MAX + 5):
        memory.remember("many", entry(number, "tea"))
    assert len(memory.recall("many", "tea", 1_000)) == HITS_MAX
    assert len(memory.recall("many", "", 1_000)) == HITS_MAX


def test_words_are_runs_of_letters_digits_and_marks() -> None:
    assert words_of("Don't use e-mail_2, ÉCOLE!") == ["don", "t", "use", "e", "mail", "2", "ecole"]
    assert words_of("हिन्दी शब्द") == ["हिन्दी", "शब्द"]  # vowel signs are marks, not letters


def test_scripts_without_spaces_become_pairs_and_their_last_character() -> None:
    assert words_of("长城很长") == ["长城", "城很", "很长", "长"]
    assert words_of("Python程序3") == ["python", "程序", "序", "3"]
    assert words_of("カタ") == words_of("ｶﾀ") == ["カタ", "タ"]


def test_a_query_looks_for_pairs_and_for_a_single_character_as_a_beginning() -> None:
    assert terms_of("长城 长城 wall") == [Term("长城"), Term("wall")]
    assert terms_of("城") == [Term("城", is_prefix=True)]
    assert terms_of(" !? ") == []


def test_a_long_word_counts_by_its_beginning() -> None:
    assert words_of("x" * 100) == ["x" * WORD_CHARS_MAX]


@settings(max_examples=effort(150, 3_000))
@given(WORDS_TEXTS)
@example("Å")
@example("\u0344")
@example("ﬁ İ ß ｶﾞ")
def test_equal_texts_have_equal_words_however_they_are_written(text: str) -> None:
    words = words_of(text)
    for form in ("NFC", "NFD"):
        assert words_of(unicodedata.normalize(form, text)) == words
    assert all(unicodedata.category(char)[0] in "LNM" for word in words for char in word)


@settings(max_examples=effort(150, 3_000))
@given(WORDS_TEXTS)
def test_every_term_of_a_text_finds_a_word_of_it(text: str) -> None:
    words = words_of(text)
    for term in terms_of(text):
        assert any(word.startswith(term.word) if term.is_prefix else word == term.word for word in words)


WORDS_HAN = st.text(alphabet="长城很高我们去了北京大学猫", min_size=2, max_size=20)


@settings(max_examples=effort(150, 3_000))
@given(WORDS_HAN)
def test_chinese_is_found_by_any_two_characters_that_stand_together_and_by_each_one(text: str) -> None:
    words = words_of(text)
    assert len(words) == len(text)
    for place in range(len(text) - 1):
        assert terms_of(text[place : place + 2]) == [Term(text[place : place + 2])]
        assert text[place : place + 2] in words
    for char in text:
        (term,) = terms_of(char)
        assert term.is_prefix
        assert any(word.startswith(char) for word in words)


@settings(max_examples=effort(150, 3_000))
@given(WORDS_HAN, st.text(alphabet="abc 1", max_size=6), WORDS_HAN)
def test_no_pair_reaches_over_a_word_of_another_script_or_a_gap(one: str, between: str, other: str) -> None:
    between = f" {between} "
    words = {word for word in words_of(one + between + other) if len(word) == 2 and not word.isascii()}
    assert words == {word for word in (*words_of(one), *words_of(other)) if len(word) == 2}


@given(WORDS_HAN, WORDS_HAN)
def test_a_pair_finds_exactly_the_texts_that_have_it(text: str, query: str) -> None:
    pair = query[:2]
    assert (pair in words_of(text)) == (pair in text)
