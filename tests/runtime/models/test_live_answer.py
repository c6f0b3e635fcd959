"""The usage that a stream tells before its answer is complete."""

from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.live_answer import LiveAnswer, tell_usage
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.secrets.stream_buffer import StreamBuffer

SOME = Usage(input_tokens=3)
REQUEST = ModelRequest(
    address="host",
    profile="host",
    model=ModelSpec("m"),
    turn=1,
    attempt=1,
    system=NULL,
    tools=(),
    history=IntMap(),
)


def test_the_last_usage_that_a_stream_told_counts() -> None:
    shown: list[str] = []
    live = LiveAnswer(lambda grant, request: NO_SECRETS.stream(shown.append), 7, REQUEST)
    assert live.usage == ZERO
    tell_usage(live, SOME)
    tell_usage(live, None)
    live("text ")
    live.end()
    assert (live.usage, "".join(shown)) == (SOME, "text ")


def test_a_buffer_is_made_with_the_first_piece_and_only_once() -> None:
    made: list[tuple[int, ModelRequest]] = []

    def buffer_of(grant: int, request: ModelRequest) -> StreamBuffer:
        made.append((grant, request))
        return NO_SECRETS.stream(lambda text: None)

    live = LiveAnswer(buffer_of, 7, REQUEST)
    live.end()
    assert made == []
    for piece in ("a ", "b "):
        live(piece)
    live.end()
    assert made == [(7, REQUEST)]


def test_a_receiver_of_text_alone_is_told_no_usage() -> None:
    shown: list[str] = []
    tell_usage(shown.append, SOME)
    assert shown == []
