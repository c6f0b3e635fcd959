"""The checks of tells, shared state and programs: they find the faults in small logs made by hand."""

from callboard.actors.protocol.client_messages import AskEnded, Tell, TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallTool, ToolReturned, ToolStatus
from tests.crash.notes import Effect, SeenState, SeenTell
from tests.crash.told import wrong_programs, wrong_state, wrong_tells

CALL = CallTool(1, 0, "save", "write", Json(b'{"label":"a","ms":1}'))
LATER = CallTool(1, 1, "save", "write", Json(b'{"label":"b","ms":1}'))
KEY, LATER_KEY = "s/host/1/0", "s/host/1/1"


def log(*bodies: tuple[AnyMessage, int]) -> list[Event]:
    """Make a log of messages, each with its cause."""
    return [Event(seq, 0, "host", "tools", cause, body) for seq, (body, cause) in enumerate(bodies, 1)]


def ran(status: ToolStatus = "ok") -> list[Event]:
    return log((CALL, 0), (ToolReturned(1, 0, status), 1), (LATER, 2), (ToolReturned(1, 1, status), 3))


def test_words_end_once_and_as_they_were_answered() -> None:
    said, ended = (Tell("t", "host", "words"), 0), (TellEnded("t", "heard", 3), 1)
    assert list(wrong_tells(log(said, ended), [SeenTell("s", "t", 3)], is_over=True)) == []
    assert list(wrong_tells(log(said, ended), [SeenTell("s", "t", 4)], is_over=True)) != []
    assert list(wrong_tells(log(said, ended, ended), [], is_over=True)) == ["t ended 2 times"]
    assert list(wrong_tells(log(said, said, ended), [], is_over=True)) == ["t was said 2 times"]
    assert list(wrong_tells(log(said), [], is_over=True)) == ["t has no end"]
    assert list(wrong_tells(log(said), [], is_over=False)) == []


def test_a_call_sees_what_had_returned_before_it() -> None:
    good = [Effect("s", "a", "write", KEY, 1, 0), Effect("s", "b", "write", LATER_KEY, 1, 1)]
    assert list(wrong_state(ran(), "s", good, [])) == []
    assert list(wrong_state(ran("error"), "s", good, [])) != []
    assert list(wrong_state(ran(), "s", [Effect("s", "b", "write", LATER_KEY, 1, 0)], [])) != []


def test_the_state_at_the_end_has_every_label_in_order() -> None:
    assert list(wrong_state(ran(), "s", [], [SeenState("s", 4, ("a", "b"), 2)])) == []
    for wrong in [(("a",), 1), (("b", "a"), 2), (("a", "b"), 3), (("a", "b", "b"), 3)]:
        assert list(wrong_state(ran(), "s", [], [SeenState("s", 4, *wrong)])) != []


def test_a_program_sees_the_ends_that_the_log_has() -> None:
    def told(end: str, status: ToolStatus) -> list[str]:
        value = Json(b'{"n":1,"ends":{"a":"%s"}}' % end.encode())
        result = AskEnded("one", "answered", value)
        return list(wrong_programs([*ran(status), *log((result, 0))]))

    assert told("ok", "ok") == told("interrupted", "interrupted") == told("given up", "interrupted") == []
    assert told("ok", "error")
    assert told("interrupted", "ok")
    assert told("denied", "interrupted")
