"""Descriptions of parameters become lists, and other text stays as it is."""

from tools.described import with_lists


def test_each_description_becomes_an_item() -> None:
    text = "Open it.\n\nat: the seq; 0 is\nthe start. key, head: optional."
    assert with_lists(text, ["at", "key", "head"]) == (
        "Open it.\n\n- **at**: the seq; 0 is the start.\n- **key, head**: optional."
    )


def test_a_sentence_before_the_first_description_stays_before_the_list() -> None:
    assert with_lists("Read on. at: the seq.", ["at"]) == "Read on.\n\n- **at**: the seq."


def test_only_names_of_parameters_begin_an_item() -> None:
    text = "Note: the file stays. at: the seq."
    assert with_lists(text, ["file"]) == text
    assert with_lists(text, []) == text


def test_examples_stay_as_they_are() -> None:
    text = "Use it.\n\n    at: 3\n\n>>> at: int = 3"
    assert with_lists(text, ["at"]) == text
