"""The parts of a conversation as text."""

from callboard.runtime.told import Told, told_in
from tests.runtime.conversations import gave, said, used, view


def parts(*messages: dict[str, object]) -> list[Told]:
    return list(told_in(view(messages).messages[:-1], "host"))


def test_words_calls_and_results_are_told_in_order() -> None:
    found = parts(said("user", "Go."), used(1, "look", at="a"), gave(1, "seen"), said("assistant", "Done."))
    assert found == [
        Told("said", "user", "Go."),
        Told("call", "host", "", "look", '{"at":"a"}'),
        Told("result", "host", "seen", "look", '{"at":"a"}'),
        Told("said", "host", "Done."),
    ]


def test_results_of_any_json_and_of_unknown_calls_are_told() -> None:
    assert parts(gave(1, {"n": 1}))[0].text == '{"n":1}'
    assert parts(gave(1, [{"type": "text", "text": "a"}, {"type": "image"}]))[0].text == "a"
    assert parts(gave(1, None))[0].text == "null"


def test_thoughts_odd_blocks_and_messages_about_tools_are_passed_over() -> None:
    odd = [{"type": "thinking", "thinking": "hm"}, 7, {"no": "type"}, {"type": "text"}, {"type": "image"}]
    assert parts(said("assistant", odd), said("system", "x"), said("user", 7)) == [
        Told("said", "host", "[image]")
    ]


def test_paths_and_memories_are_found_where_tools_name_them() -> None:
    found = parts(
        used(1, "read_file", path="a.md", files=["b", 7], other="c"),
        used(2, "recall"),
        gave(2, "[0123456789abcdef] tea\n[fedcba9876543210] ink"),
        used(3, "remember", text="x"),
        gave(3, "remembered as 00000000000000aa"),
        used(4, "look"),
        gave(4, "[0123456789abcdef] no memory"),
    )
    assert found[0].paths == ("a.md", "b")
    assert [one.memories for one in found if one.memories] == [
        ("0123456789abcdef", "fedcba9876543210"),
        ("00000000000000aa",),
    ]
