import pytest

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files.paths import joined, relative, shown


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("a/b", "a/b"),
        ("./a//b/", "a/b"),
        (".", "."),
        ("", "."),
        ("./", "."),
        ("...", "..."),
        ("a\\b", "a\\b"),
    ],
)
def test_a_path_has_one_form(given: str, wanted: str) -> None:
    assert relative(given) == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("../a", "may not contain `..`"),
        ("a/..", "may not contain `..`"),
        ("/etc/passwd", "leave out the first /"),
        ("a\0b", "may not contain NUL"),
        ("a" * 5_000, "5,000 characters"),
        ("\ud800", "not Unicode text"),
        (3, "not int"),
    ],
)
def test_another_path_is_refused_with_the_reason(given: str, words: str) -> None:
    with pytest.raises(FileError, match=words) as caught:
        relative(given)
    assert caught.value.reason == "bad_path"


def test_a_name_that_could_forge_a_line_is_shown_as_json() -> None:
    assert shown("a b") == "a b"
    assert shown("a\nb") == '"a\\nb"'
    assert shown("\u202egpj") == '"\\u202egpj"'
    assert shown(" a") == '" a"'
    assert len(shown("a" * 5_000)) < 250


def test_a_name_of_the_root_has_no_folder_before_it() -> None:
    assert joined(".", "a") == "a"
    assert joined("a", "b") == "a/b"
