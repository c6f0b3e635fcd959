"""Ready contexts: their parts, and that they stay within their tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Brief, Transcript
from callboard.actors.protocol.layers import added
from callboard.errors import InvalidAgent
from callboard.permissions import Bundle, Denied, LabelRule
from callboard.runtime.brief import MESSAGES_READ, Told, tokens_of, told_in
from tests.effort import effort
from tests.runtime.conversations import gave, said, used, view

WORK = [
    said("user", "Find the  testing\nframework."),
    used(1, "read_file", path="a.md"),
    gave(1, "pytest is used"),
    used(2, "recall", query="tests"),
    gave(2, "[0123456789abcdef] tests are in tests/"),
    said("assistant", [{"type": "text", "text": "It is pytest."}]),
    said("user", "And in b.md?"),
    used(3, "read_file", path="b.md"),
    gave(3, "nothing"),
]
BRIEF = """\
From the work of host, which delegates to you. It may be incomplete.
Safety:
- what follows has the labels untrusted
- denied capabilities: network, shell
Said last:
- user: Find the testing framework.
- host: It is pytest.
- user: And in b.md?
Results of tools:
- recall {"query":"tests"} -> [0123456789abcdef] tests are in tests/
- read_file {"path":"b.md"} -> nothing
Remembered texts, to be recalled:
- 0123456789abcdef
Files:
- a.md, b.md"""


def test_a_brief_has_talk_results_memories_files_and_safety_flags() -> None:
    bundle = Bundle(
        deny=Denied(capabilities=("shell",)),
        when=(LabelRule("untrusted", "network"), LabelRule("secret", "files")),
    )
    bounds = added((), "agent host", bundle.own)
    assert Brief(results=2)(view(WORK, ("untrusted",), bounds)) == BRIEF


def test_a_brief_of_nothing_is_no_context() -> None:
    assert Brief()(view([])) == Transcript()(view([])) == ""
    assert Brief(talk=0, results=0)(view([said("user", "Go.")])) == ""


def test_a_brief_keeps_the_newest_and_reads_only_the_last_messages() -> None:
    talk = [said("user", f"word {number}") for number in range(2 * MESSAGES_READ)]
    brief = Brief(talk=2)(view(talk))
    assert brief.splitlines()[2:] == ["- user: word 198", "- user: word 199"]
    old = [used(1, "read_file", path="old.md"), *talk]
    assert "old.md" not in Brief()(view(old))


def test_a_long_text_is_cut_so_that_others_have_room() -> None:
    brief = Brief(tokens=200)(
        view([said("user", "early"), said("user", "长" * 10_000), said("user", "late")])
    )
    assert "early" in brief
    assert "late" in brief
    assert "长…" in brief


def test_the_whole_history_has_every_word_call_and_result_in_order() -> None:
    assert Transcript()(view(WORK[:3])).splitlines() == [
        "The conversation of host, which delegates to you:",
        "user: Find the  testing",
        "framework.",
        'host calls read_file {"path":"a.md"}',
        "result: pytest is used",
    ]


def test_a_history_that_does_not_fit_says_how_much_is_left_out() -> None:
    talk = [said("user", f"word {number} {'x' * 100}") for number in range(50)]
    lines = Transcript(tokens=200)(view(talk)).splitlines()
    assert lines[-1].startswith("user: word 49")
    assert lines[1] == f"[{50 - (len(lines) - 2)} earlier messages are left out]"
    assert len(lines) > 3


@pytest.mark.parametrize("bounds", [{"tokens": 99}, {"talk": -1}, {"results": -1}])
def test_bounds_that_cannot_work_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(InvalidAgent):
        Brief(**bounds)
    with pytest.raises(InvalidAgent, match="at least 100 tokens"):
        Transcript(tokens=0)


TEXTS = st.text(alphabet=st.sampled_from("a b\n长🦆-"), max_size=400)
MESSAGES = st.lists(
    st.one_of(
        st.builds(said, st.sampled_from(["user", "assistant"]), TEXTS),
        st.builds(lambda n, t: used(n, "read_file", path=t), st.integers(0, 3), TEXTS),
        st.builds(gave, st.integers(0, 3), TEXTS),
        st.builds(lambda t: used(9, "recall", query=t), TEXTS),
        st.just(gave(9, "\n".join(f"[{n:016x}] text" for n in range(60)))),
    ),
    max_size=12,
)


@settings(max_examples=effort(40, 2_000), deadline=None)
@given(MESSAGES, st.integers(100, 600), st.lists(st.text("ab长", min_size=1, max_size=60), max_size=9))
def test_a_context_never_has_more_tokens_than_its_bound(
    messages: list[dict[str, object]], tokens: int, labels: list[str]
) -> None:
    seen = view(messages, tuple(labels))
    for ready in (Brief(tokens=tokens), Transcript(tokens=tokens)):
        text = ready(seen)
        assert tokens_of(text) <= tokens
        assert text == ready(view(messages, tuple(labels)))


@given(TEXTS, TEXTS)
def test_two_texts_together_have_no_more_tokens_than_each_alone(one: str, other: str) -> None:
    assert tokens_of(one + other) <= tokens_of(one) + tokens_of(other)


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
