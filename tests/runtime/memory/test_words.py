"""The words of a text in any script."""

import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st

from callboard.runtime.memory.words import WORD_CHARS_MAX, Term, terms_of, words_of
from tests.effort import effort

TEXTS = st.text(alphabet=st.one_of(st.sampled_from("aB é城长很が゙กั हि_.1'"), st.characters()), max_size=30)


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
@given(TEXTS)
@example("Å")
@example("\u0344")
@example("ﬁ İ ß ｶﾞ")
def test_equal_texts_have_equal_words_however_they_are_written(text: str) -> None:
    words = words_of(text)
    for form in ("NFC", "NFD"):
        assert words_of(unicodedata.normalize(form, text)) == words
    assert all(unicodedata.category(char)[0] in "LNM" for word in words for char in word)


@settings(max_examples=effort(150, 3_000))
@given(TEXTS)
def test_every_term_of_a_text_finds_a_word_of_it(text: str) -> None:
    words = words_of(text)
    for term in terms_of(text):
        assert any(word.startswith(term.word) if term.is_prefix else word == term.word for word in words)


HAN = st.text(alphabet="长城很高我们去了北京大学猫", min_size=2, max_size=20)


@settings(max_examples=effort(150, 3_000))
@given(HAN)
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
@given(HAN, st.text(alphabet="abc 1", max_size=6), HAN)
def test_no_pair_reaches_over_a_word_of_another_script_or_a_gap(one: str, between: str, other: str) -> None:
    between = f" {between} "
    words = {word for word in words_of(one + between + other) if len(word) == 2 and not word.isascii()}
    assert words == {word for word in (*words_of(one), *words_of(other)) if len(word) == 2}


@given(HAN, HAN)
def test_a_pair_finds_exactly_the_texts_that_have_it(text: str, query: str) -> None:
    pair = query[:2]
    assert (pair in words_of(text)) == (pair in text)
