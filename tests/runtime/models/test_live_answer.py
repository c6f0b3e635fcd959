"""The usage that a stream tells before its answer is complete."""

from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.live_answer import LiveAnswer, tell_usage
from callboard.runtime.secrets.registry import NO_SECRETS

SOME = Usage(input_tokens=3)


def test_the_last_usage_that_a_stream_told_counts() -> None:
    shown: list[str] = []
    live = LiveAnswer(NO_SECRETS.stream(shown.append))
    assert live.usage == ZERO
    tell_usage(live, SOME)
    tell_usage(live, None)
    live("text ")
    live.end()
    assert (live.usage, "".join(shown)) == (SOME, "text ")


def test_a_receiver_of_text_alone_is_told_no_usage() -> None:
    shown: list[str] = []
    tell_usage(shown.append, SOME)
    assert shown == []
