import msgspec
import pytest

from callboard.actors.protocol.near_names import NamedFields, near_names, near_or_all, unchecked


def test_at_most_two_near_names_are_named_and_a_known_one_has_none() -> None:
    known = ["tokens", "token", "tokenz", "depth"]
    assert near_names("tokns", known).count("'") == 4
    assert near_names("tokens", known) == ""
    assert near_names("colour", known) == ""


def test_a_name_that_is_near_none_is_answered_with_all() -> None:
    assert near_or_all("colour", ["tokens", "depth"]) == "; there are: tokens, depth"
    assert near_or_all("dpth", ["tokens", "depth"]) == "; did you mean 'depth'?"


class Named(msgspec.Struct, metaclass=NamedFields):
    tokens: int
    depth: int = 0


def test_an_unknown_argument_is_refused_with_the_names_near_it() -> None:
    with pytest.raises(TypeError, match=r"^Named\(\) has no argument 'tokns'; did you mean 'tokens'\?$"):
        Named(tokns=5)  # type: ignore[call-arg]  # the wrong name
    with pytest.raises(TypeError, match="tokens"):
        Named()  # type: ignore[call-arg]  # no argument is unknown, one is missing
    assert Named(5, depth=2) == unchecked(Named)(5, 2)


def test_a_name_shares_two_thirds_of_its_letters_with_a_near_one() -> None:
    assert near_names("abcdexyz", ["abcdeuvw"]) == ""
    assert near_names("abcdefyz", ["abcdefvw"]) == "; did you mean 'abcdefvw'?"
