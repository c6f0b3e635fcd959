"""The shell around a decider: it receives, decides and posts, and says so where the decider raises."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, cast

import pytest

from callboard.actors.protocol.addresses import HOST, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.core import PostGroup
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.decider_actor import DeciderActor, DecisionBoard, admitted_groups

POST = Post("supervisor", Cancel("x"))


def event(seq: int) -> Event:
    return Event(seq, 0, "supervisor", "host", 0, Cancel(""))


class Core:
    """A core whose decisions the test chooses, by the seq of the event."""

    def __init__(self, board: "Board") -> None:
        self.board = board
        self.mailboxes: dict[str, object] = {"host": None, SUPERVISOR: None}
        self.raises: set[int] = set()
        self.rests: set[int] = set()
        self.silent: set[int] = set()

    def decide(self, message: Event, failure: str = "") -> tuple[Post, ...]:
        if message.seq in self.raises and not failure:
            raise ValueError("bad")
        self.board.said.append(f"decide {message.seq} {failure}".strip())
        if message.seq in self.rests:
            self.mailboxes.clear()
        return () if message.seq in self.silent else (POST,)

    def decide_together(self, messages: list[Event]) -> list[tuple[Post, ...]] | None:
        if self.raises & {one.seq for one in messages}:
            raise ValueError("bad")
        if len(messages) > 3:
            return None
        return [self.decide(one) for one in messages]


class Board:
    session_id = "s"

    def __init__(self) -> None:
        self.said: list[str] = []
        self.core = Core(self)

    def submit(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        self.said.append(f"{sender} posts {len(posts)} of {cause}")

    def dismiss(self, address: str) -> None:
        self.said.append(f"dismiss {address}")

    def flush(self) -> None:
        self.said.append("flush")

    def fail(self, error: BaseException) -> None:
        self.said.append(f"fail {error}")


@pytest.fixture
def board() -> Board:
    return Board()


def actor(board: Board, address: str = "host") -> DeciderActor:
    """Make an actor without a loop: its methods are called by hand."""
    made = DeciderActor.__new__(DeciderActor)
    made.board = cast("DecisionBoard", board)
    made.address = address
    return made


def test_a_decision_is_posted_with_its_cause(board: Board) -> None:
    actor(board).on_receive(event(4))
    assert board.said == ["decide 4", "host posts 1 of 4"]


def test_a_decision_without_posts_posts_nothing(board: Board) -> None:
    board.core.silent, board.core.rests = {4}, {4}
    actor(board).on_receive(event(4))
    assert board.said == ["decide 4"]


def test_an_agent_at_rest_is_dismissed_after_its_last_post(board: Board) -> None:
    board.core.rests = {4}
    actor(board).on_receive(event(4))
    assert board.said == ["decide 4", "host posts 1 of 4", "dismiss host"]


def test_a_decider_that_raises_is_replaced_by_its_failure(
    board: Board, caplog: pytest.LogCaptureFixture
) -> None:
    board.core.raises = {4}
    with caplog.at_level(logging.ERROR):
        actor(board).on_receive(event(4))
    assert board.said == ["decide 4 ValueError", "host posts 1 of 4"]
    assert "session s: host failed on event 4" in caplog.text
    assert "ValueError: bad" in caplog.text


def test_a_supervisor_that_raises_fails_the_session_and_the_decisions_before_stand(board: Board) -> None:
    board.core.raises = {4}
    actor(board, SUPERVISOR).on_receive(event(4))
    assert board.said == ["flush", "fail bad"]


def test_messages_that_came_together_are_decided_together(board: Board) -> None:
    board.core.silent = {5}
    actor(board).on_receive_together([event(4), event(5), event(6)])
    assert board.said == ["decide 4", "decide 5", "decide 6", "host posts 1 of 4", "host posts 1 of 6"]
    board.said.clear()
    board.core.rests = {7}
    actor(board).on_receive_together([event(7)])
    assert board.said == ["decide 7", "host posts 1 of 7", "dismiss host"]


def test_of_messages_together_only_the_one_at_fault_is_replaced(board: Board) -> None:
    board.core.raises = {5}
    actor(board).on_receive_together([event(4), event(5), event(6)])
    assert board.said == [
        "decide 4",
        "host posts 1 of 4",
        "decide 5 ValueError",
        "host posts 1 of 5",
        "decide 6",
        "host posts 1 of 6",
    ]


def test_a_core_that_does_not_decide_together_gets_them_one_by_one(board: Board) -> None:
    actor(board).on_receive_together([event(seq) for seq in range(1, 5)])
    assert board.said[:4] == ["decide 1", "host posts 1 of 1", "decide 2", "host posts 1 of 2"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit()])
def test_the_end_of_the_process_is_no_failure_of_a_decider(board: Board, error: BaseException) -> None:
    def interrupted(*_: Any) -> Any:
        raise error

    board.core.decide = interrupted  # type: ignore[method-assign,assignment]  # the test's own
    with pytest.raises(type(error)):
        actor(board).on_receive(event(4))
    assert board.said == []


def test_an_actor_that_crashes_fails_its_session(board: Board) -> None:
    actor(board).on_crash(RuntimeError("gone"))
    assert board.said == ["fail gone"]
    assert not DeciderActor.use_registry


def test_an_actor_knows_its_board_its_address_and_its_name() -> None:
    async def main() -> None:
        board = Board()
        actor = DeciderActor.spawn(cast("DecisionBoard", board), "host.1")
        assert (actor.address, actor.actor_urn) == ("host.1", "host.1")
        assert actor.board is board  # type: ignore[comparison-overlap]  # it stands for one
        actor.stop()

    asyncio.run(main())


SECRET = "hunter2hunter2"


def result(text: str, call: int = 0) -> Post:
    return Post(HOST, ToolReturned(1, call, "ok", text_json(text)))


def texts(groups: Any) -> list[tuple[str, int, list[str]]]:
    return [
        (sender, cause, [bytes(post.body.output).decode() for post in posts])
        for sender, cause, posts in groups
    ]


def test_groups_without_a_secret_are_the_same_object() -> None:
    groups: list[PostGroup] = [(TOOLS, 1, (result("plain"),)), (HOST, 2, ())]
    assert admitted_groups(Secrets({"KEY": SECRET}), groups) is groups


def test_a_secret_of_a_port_is_redacted_in_its_own_group_and_place() -> None:
    groups: list[PostGroup] = [
        (TOOLS, 1, (result("a"), result(f"b {SECRET}", 1), result("c", 2))),
        (HOST, 2, (result("d"),)),
        (TOOLS, 3, (result(f"{SECRET} e"),)),
        (SUPERVISOR, 4, ()),
        (TOOLS, 5, (result("f"),)),
    ]
    found = admitted_groups(Secrets({"KEY": SECRET}), groups)
    assert texts(found) == [
        (TOOLS, 1, ['"a"', '"b [secret:KEY]"', '"c"']),
        (HOST, 2, ['"d"']),
        (TOOLS, 3, ['"[secret:KEY] e"']),
        (SUPERVISOR, 4, []),
        (TOOLS, 5, ['"f"']),
    ]


def test_posts_of_deciders_are_left_as_they_are() -> None:
    groups: list[PostGroup] = [(HOST, 1, (result(SECRET),)), (TOOLS, 2, (result(SECRET),))]
    found = admitted_groups(Secrets({"KEY": SECRET}), groups)
    assert found[0] == groups[0]
    assert texts(found)[1][2] == ['"[secret:KEY]"']
