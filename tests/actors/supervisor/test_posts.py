"""The recorded posts of all actors: another order of two posts is another log."""

from tests.actors.posts import differences


def test_simulated_sessions_post_the_same_messages_in_the_same_order_as_recorded() -> None:
    assert differences() == [], "if that is meant: python -m tests.actors.posts"
