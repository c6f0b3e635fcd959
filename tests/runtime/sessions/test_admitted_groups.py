"""The posts of ports and clients are redacted; those of deciders, which repeat them, are not looked at."""

from typing import Any

from callboard.actors.protocol.addresses import HOST, SUPERVISOR, TOOLS
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.core import PostGroup
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.admitted_groups import admitted_groups

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
