from callboard.actors.protocol.near_names import near_names, near_or_all


def test_at_most_two_near_names_are_named_and_a_known_one_has_none() -> None:
    known = ["tokens", "token", "tokenz", "depth"]
    assert near_names("tokns", known).count("'") == 4
    assert near_names("tokens", known) == ""
    assert near_names("colour", known) == ""


def test_a_name_that_is_near_none_is_answered_with_all() -> None:
    assert near_or_all("colour", ["tokens", "depth"]) == "; there are: tokens, depth"
    assert near_or_all("dpth", ["tokens", "depth"]) == "; did you mean 'depth'?"
