"""The sessions that a session is a fork of, and its forks."""

from callboard.replay.lineage import Branch, Lineage, lineage
from callboard.runtime.log.session_rows import SessionRow

ROWS = [
    SessionRow("third", 1, 30, 4, "", parent="second", base=20),
    SessionRow("other", 1, 30, 3, "", parent="first", base=12),
    SessionRow("second", 1, 25, 2, "", parent="first", base=10),
    SessionRow("first", 1, 15, 1, ""),
]


def test_the_origins_go_back_to_a_session_that_is_no_fork() -> None:
    assert lineage(ROWS, "third") == Lineage((Branch("second", 20), Branch("first", 10)), ())


def test_the_forks_of_a_session_are_its_own_and_not_theirs() -> None:
    assert lineage(ROWS, "first") == Lineage((), (Branch("other", 12), Branch("second", 10)))
    assert lineage(ROWS, "second").forks == (Branch("third", 20),)


def test_an_origin_that_is_gone_still_has_its_name() -> None:
    assert lineage(ROWS[:1], "third") == Lineage((Branch("second", 20),), ())
    assert lineage([], "none") == Lineage()
