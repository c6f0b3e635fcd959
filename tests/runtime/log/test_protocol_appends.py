"""The one rule by which every store accepts or refuses an append."""

import pytest

from callboard.actors.protocol.errors import Fenced, SessionExists, SessionNotFound, WrongHead
from callboard.runtime.log.protocol import Append, no_session, refusal, session_exists
from tests.runtime.log.kit import event, events
from tests.tables import table


def test_events_that_continue_the_session_under_its_epoch_are_accepted() -> None:
    assert refusal(Append("s", 4, 2, events(5, 9)), 2, 4) is None
    assert refusal(Append("s", 0, 1, []), 1, 0) is None


@pytest.mark.parametrize("epoch", [1, 3])
def test_another_epoch_is_fenced_at_any_head(epoch: int) -> None:
    error = refusal(Append("s", 9, epoch, events(5, 9)), 2, 4)
    assert isinstance(error, Fenced)
    assert f"its epoch is 2, this writer's is {epoch}" in str(error)


@table(
    ("head", "seqs", "said"),
    [
        (3, [4], "session s ends at event 4, not at 3"),
        (5, [6], "session s ends at event 4, not at 5"),
        (4, [6], "event 6 came where 5 was next"),
        (4, [5, 7], "event 7 came where 6 was next"),
        (4, [5, 5], "event 5 came where 6 was next"),
        (4, [6, 5], "event 6 came where 5 was next"),
        (4, [4], "event 4 came where 5 was next"),
    ],
)
def test_events_that_do_not_continue_the_session_are_a_wrong_head(
    head: int, seqs: list[int], said: str
) -> None:
    error = refusal(Append("s", head, 2, [event(seq) for seq in seqs]), 2, 4)
    assert isinstance(error, WrongHead)
    assert said in str(error)
    assert "session s" in str(error)


def test_the_sentences_name_the_session() -> None:
    assert isinstance(no_session("x"), SessionNotFound)
    assert isinstance(session_exists("x"), SessionExists)
    assert "'x'" in str(no_session("x"))
    assert "'x'" in str(session_exists("x"))
