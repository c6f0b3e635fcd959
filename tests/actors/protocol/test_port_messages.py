"""Messages to and from ports: an answer to a question says whether its call goes on."""

from typing import Literal

from callboard.actors.protocol.port_messages import ApprovalGiven
from tests.tables import table


@table(
    ("verdict", "number", "goes_on"),
    [
        ("approved", 0, True),
        ("approved", 2, True),
        ("denied", 0, False),
        ("denied", 1, True),
        ("cancelled", 0, False),
        ("cancelled", 1, False),
    ],
)
def test_a_call_goes_on_once_it_is_approved_or_its_form_is_declined(
    verdict: Literal["approved", "denied", "cancelled"], number: int, goes_on: bool
) -> None:
    assert ApprovalGiven(1, 0, verdict, round=number).goes_on is goes_on
