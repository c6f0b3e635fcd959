"""The rows of sessions: queries that are refused, and changes that events make."""

import pytest

from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, Resumed, SessionClosed
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import DelegationEnded
from callboard.runtime.log.session_rows import (
    NO_CHANGE,
    RowChange,
    SessionQuery,
    SessionRow,
    change_of,
)


def of(*bodies: object) -> RowChange:
    return change_of([Event(1, 1, "client", "supervisor", 0, body) for body in bodies])  # type: ignore[arg-type]  # messages


REOPENED = Resumed(1, reopens=True)
ASK, ENDED = Ask("a", Json(b'"go"')), AskEnded("a", "answered")


def test_events_among_agents_change_nothing() -> None:
    assert of(Cancel(), DelegationEnded(1, 0, "reported"), DelegationEnded(1, 1, "lost_race")) is NO_CHANGE


def test_failures_count_from_the_last_ask_on() -> None:
    failed = DelegationEnded(1, 0, "budget")
    assert of(failed, failed).failures_after(3) == 5
    assert of(failed, ASK, failed).failures_after(3) == 1
    assert of(ENDED, SessionClosed()).failures_after(3) == 3


@pytest.mark.parametrize(
    ("bodies", "before", "after"),
    [
        ((ASK,), "open", "unfinished"),
        ((ASK, ENDED), "open", "open"),
        ((ENDED, SessionClosed()), "unfinished", "closed"),
        ((Resumed(1),), "closed", "closed"),
        ((REOPENED,), "closed", "open"),
        ((Resumed(1),), "unfinished", "unfinished"),
        ((REOPENED, Resumed(1)), "closed", "open"),
        ((SessionClosed(), REOPENED), "open", "open"),
        ((REOPENED, ASK), "closed", "unfinished"),
        ((ASK, Resumed(1)), "open", "unfinished"),
        ((), "unfinished", "unfinished"),
    ],
)
def test_the_status_follows_the_messages_of_the_client(
    bodies: tuple[object, ...], before: str, after: str
) -> None:
    assert of(*bodies).status_after(before) == after


@pytest.mark.parametrize(
    "wrong", [{"status": "done"}, {"limit": -1}, {"limit": 1.5}, {"limit": True}], ids=repr
)
def test_a_query_that_cannot_be_meant_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(MisuseError):
        SessionQuery(**wrong)  # type: ignore[arg-type]  # wrong values on purpose


def test_a_cursor_is_the_place_of_its_row() -> None:
    row = SessionRow("s", 1, 0, -5, "", 12)
    assert SessionQuery(after=row.cursor).place == (-5, 12)
    assert SessionQuery().place is None
