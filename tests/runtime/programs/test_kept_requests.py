"""What a question says of its request: the difference from the earlier requests of its run."""

from typing import Any

import msgspec

from callboard.actors.agent.whole_requests import REQUESTS_MAX
from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs.kept_requests import KeptRequests, Written


def written(*said: str, system: str = "") -> Written:
    messages = tuple(Json(msgspec.json.encode({"role": "user", "content": one})) for one in said)
    return Written(messages, Json(msgspec.json.encode(system)))


def asked(kept: KeptRequests, ask: str, request: Written, reply: str = "") -> Any:
    """Put a question in a step of its own; let it be answered. Return its arguments."""
    found = msgspec.json.decode(msgspec.json.encode(kept.arguments(request)))
    kept.ask(ask, request)
    kept.end_step({ask: None})
    if reply:
        kept.answered(ask, Json(msgspec.json.encode([{"type": "text", "text": reply}])))
    return found


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_the_first_request_stands_in_full_and_a_grown_one_refers_to_it() -> None:
    kept = KeptRequests()
    assert asked(kept, "a", written("one", system="s")) == {"messages": [user("one")], "system": "s"}
    assert asked(kept, "b", written("one", "two", system="s")) == {
        "messages": [["a", 0, 1], user("two")],
        "like": "a",
    }
    assert asked(kept, "c", written("one", "two", "three", system="t")) == {
        "messages": [["b", 0, 2], user("three")],
        "system": "t",
    }


def test_the_reply_that_a_program_gives_back_is_not_written_again() -> None:
    kept = KeptRequests()
    asked(kept, "a", written("one"), reply="well")
    said = Json(b'{"role":"assistant","content":[{"type":"text","text":"well"}]}')
    first = written("one").messages
    assert asked(kept, "b", Written((*first, said, *written("two").messages)))["messages"] == [
        ["a", 0, 2],
        user("two"),
    ]


def test_a_trimmed_or_rewritten_beginning_costs_its_new_messages_only() -> None:
    kept = KeptRequests()
    asked(kept, "a", written("one", "two", "three", "four"))
    assert asked(kept, "b", written("three", "four", "five"))["messages"] == [["a", 2, 4], user("five")]
    assert asked(kept, "c", written("short", "two", "four"))["messages"] == [
        user("short"),
        ["a", 1, 2],
        ["b", 1, 2],
    ]


def test_requests_of_one_step_do_not_refer_to_each_other_and_count_in_the_order_of_their_ids() -> None:
    one, other = KeptRequests(), KeptRequests()
    for kept, order in ((one, ("a", "b")), (other, ("b", "a"))):
        for ask in order:
            assert kept.arguments(written("same", ask))["messages"] == [*written("same", ask).messages]
            kept.ask(ask, written("same", ask))
        kept.end_step({"a": None, "b": None})
    again = written("same", "b", "more")
    assert one.arguments(again) == other.arguments(again)


def test_a_question_that_was_given_up_in_its_step_is_not_referred_to() -> None:
    kept = KeptRequests()
    kept.ask("a", written("one"))
    kept.end_step({})
    assert asked(kept, "b", written("one"))["messages"] == [user("one")]


def test_equal_messages_are_found_from_the_first_one_on() -> None:
    kept = KeptRequests()
    asked(kept, "a", written("ok", "ok", "ok"))
    assert asked(kept, "b", written("ok", "ok", "ok", "ok"))["messages"] == [["a", 0, 3], ["a", 0, 1]]


def test_only_the_last_requests_are_referred_to() -> None:
    kept = KeptRequests()
    asked(kept, "old", written("rare", system="old"))
    for at in range(REQUESTS_MAX):
        asked(kept, f"r{at:03}", written("usual"))
    assert asked(kept, "x", written("rare", system="old")) == {"messages": [user("rare")], "system": "old"}
    kept.answered("old", Json(b"[]"))  # a late answer changes nothing


def test_fifty_turns_take_the_room_of_their_text() -> None:
    kept, said, size = KeptRequests(), list[str](), 0
    for turn in range(50):
        said.append(f"{turn}" * 1_000)
        size += len(msgspec.json.encode(asked(kept, f"p{turn:012}_1", written(*said))))
    assert size < 1.1 * sum(map(len, said))


def test_every_part_of_a_request_stands_in_its_arguments_and_parts_that_are_none_do_not() -> None:
    kept = KeptRequests()
    tool, settings = Json(b'{"name":"look"}'), Json(b'{"top_k":3}')
    (said,) = written("one").messages
    whole = Written((said,), Json(b'"s"'), (tool,), settings, "look", 9)
    assert asked(kept, "a", whole) == {
        "messages": [user("one")],
        "system": "s",
        "tools": [{"name": "look"}],
        "settings": {"top_k": 3},
        "force_tool": "look",
        "max_tokens": 9,
    }
    assert asked(kept, "b", whole._replace(force_tool="", max_tokens=0)) == {
        "messages": [["a", 0, 1]],
        "like": "a",
    }
    assert asked(kept, "c", Written((said,))) == {"messages": [["b", 0, 1]]}  # nothing of a head
    assert asked(KeptRequests(), "d", Written((said,), tools=(tool,))) == {
        "messages": [user("one")],
        "tools": [{"name": "look"}],
    }


def test_messages_are_known_from_the_end_of_their_step_until_their_request_is_forgotten() -> None:
    kept, (said,) = KeptRequests(), written("rare").messages
    assert not kept.has(bytes(said))
    kept.ask("a", written("rare"))
    assert not kept.has(bytes(said))
    kept.end_step({"a": None, "late": None})
    assert kept.has(bytes(said))
    kept.ask("late", written("later"))
    kept.end_step({})  # it was given up
    kept.end_step({"late": None})
    assert not kept.has(bytes(written("later").messages[0]))
    kept.answered("a", Json(b'[{"type":"text","text":"well"}]'))
    reply = b'{"role":"assistant","content":[{"type":"text","text":"well"}]}'
    assert kept.has(reply)
    again = Written((Json(reply), said))
    assert asked(kept, "b", again)["messages"] == [["a", 1, 2], ["a", 0, 1]]
    asked(kept, "twice", written("same", "same"))
    for at in range(REQUESTS_MAX):
        asked(kept, f"r{at:03}", written("usual", "rare" if at > 1 else "other"))
    assert kept.has(bytes(said))  # a later request has it, too
    assert not kept.has(reply)
