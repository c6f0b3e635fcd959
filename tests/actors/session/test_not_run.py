"""The answer to a call that a fork does not run."""

import pytest

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.session.not_run import not_run
from callboard.actors.session.recorded_answers import Reusable

CALL = Event(9, 9, "host.1", "tools", 8, CallTool(2, 3, "save", "write", Json(b"{}")))
OTHER = ToolReturned(1, 1)


@pytest.mark.parametrize(
    ("unfit", "text"),
    [
        ("", "Not run: save has an effect, and this fork has no recorded result for the call."),
        ("a is gone", "Not run: save has an effect, and its recorded result does not fit: a is gone."),
    ],
)
@pytest.mark.parametrize("same", [0, 7])
def test_a_call_that_does_not_run_says_why_and_names_the_result_of_the_same_call(
    same: int, unfit: str, text: str
) -> None:
    recorded = Reusable(same, 5, OTHER) if same else None
    body = ToolReturned(2, 3, "needs_effect", text_json(text), same=same)
    assert not_run(CALL, recorded, unfit) == Post("host.1", body)
