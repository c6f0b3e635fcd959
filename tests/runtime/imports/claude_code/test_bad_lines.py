import random
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.replay import Recording
from tests.runtime.imports.transcripts import Line, Writer, bash, bodies, imported, task, write


def talk() -> Writer:
    """Return a conversation with a call and its result."""
    main = Writer()
    main.user("Look.")
    main.said(bash("t1"))
    main.result("t1", "a.txt")
    main.said("One file.")
    return main


def test_a_transcript_that_is_cut_ends_in_the_middle_and_a_half_line_is_counted(
    tmp_path: Path,
) -> None:
    lines = talk().lines
    write(tmp_path / "s1.jsonl", *lines[:2], '{"type":"user","message":{"content":[{"type":"tool_res')
    (found,) = imported(tmp_path)
    assert found.left_out == {"lines that are not JSON objects": 1}
    assert bodies(tmp_path, "s1", AskEnded, ToolReturned) == []
    write(tmp_path / "s1.jsonl", *lines)
    (found,) = imported(tmp_path)
    assert (found.is_again, bodies(tmp_path, "s1", AskEnded)[0].text) == (False, "One file.")


def test_a_call_without_a_result_is_interrupted_and_a_result_without_a_call_is_named(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said(bash("t1"), bash("t2"))
    main.result("t2", "b.txt")
    main.result("t9", "of nothing")
    main.said("So.")
    write(tmp_path / "s1.jsonl", *main.lines)
    imported(tmp_path)
    assert [one.status for one in bodies(tmp_path, "s1", ToolReturned)] == ["ok", "interrupted"]
    assert bodies(tmp_path, "s1", ModelReplied)[1].differs == (
        "a result without an open call, t9: of nothing",
    )


def test_lines_and_calls_with_an_id_that_came_before(tmp_path: Path) -> None:
    main = talk()
    main.said(bash("t1"), bash("t1"))  # ids of the first message again, and twice
    main.result("t1", "first")
    main.result("t1", "second")
    main.said("Again.")
    write(tmp_path / "s1.jsonl", *main.lines, main.lines[3], main.lines[0])
    (found,) = imported(tmp_path)
    assert found.left_out == {"lines with an id that came before": 2}
    returned = bodies(tmp_path, "s1", ToolReturned)
    assert [bytes(one.output) for one in returned] == [b'"a.txt"', b'"first"', b'"second"']
    assert bodies(tmp_path, "s1", AskEnded)[-1].text == "Again."


def test_a_sub_agent_with_two_parents_belongs_to_the_first(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said(task("t1", "Find it."), task("t2", "Find it."))
    sub, other = Writer(agent="a1", start=2), Writer(agent="a2", start=3)
    for one in (sub, other):
        one.user("Find it.")
        one.said(f"Found by {one.agent}.")
    main.second = 9
    main.result("t1", "x", toolUseResult={"agentId": "a1"})
    main.result("t2", "x", toolUseResult={"agentId": "a1"})  # the id of the first one again
    main.said("Both.")
    write(tmp_path / "s1.jsonl", *main.lines)
    write(tmp_path / "s1" / "subagents" / "agent-a1.jsonl", *sub.lines)
    write(tmp_path / "s1" / "subagents" / "agent-a2.jsonl", *other.lines)
    (found,) = imported(tmp_path)
    assert (list(found.made), found.left_out) == (["s1"], {})
    with Recording.open(str(tmp_path / "log.db"), "s1") as look:
        ends = [event.body.text for event in look.events if event.kind == "DelegationEnded"]  # type: ignore[union-attr]  # by its kind
    assert sorted(ends) == ["Found by a1.", "Found by a2."]


ODD: list[object] = [
    {"message": "a text"}, {"message": None}, {"message": {"content": 7}},
    {"message": {"content": [7, None]}},
    {"uuid": 5}, {"parentUuid": ["x"]}, {"timestamp": "yesterday"}, {"timestamp": 12}, {"isSidechain": "yes"},
    {"toolUseResult": "text"}, {"sessionId": None}, {"agentId": {"a": 1}}, {"type": "novelty", "data": [1]},
    {"message": {"role": "assistant", "content": [{"type": "tool_use", "id": 4, "input": "x"}]}},
    {"message": {"role": "assistant", "content": [{"type": "odd", "x": "\x00\ud800"}], "usage": "much"}},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_foreign_and_odd_fields_never_stop_an_import(tmp_path: Path, odd: dict[str, object]) -> None:
    main = talk()
    last = main.said("More.")
    write(
        tmp_path / "s1.jsonl", "null", "[]", *main.lines[:-1], {**last, "uuid": "odd", "brandNew": {}, **odd}
    )
    (found,) = imported(tmp_path)
    assert found.left_out["lines that are not JSON objects"] == 2
    with Recording.open(str(tmp_path / "log.db"), "s1") as look:
        assert look.verify().is_ok


def rich() -> list[Line]:
    """Return the lines of a conversation with all that can happen."""
    main, sub = Writer(), Writer(agent="a1", start=12)
    main.user("Look.")
    main.said("Well", id="m1")
    main.said(bash("t1"), id="m1")
    main.said(task("t2", "Find it."), id="m1")
    main.result("t1", "a.txt")
    sub.user("Find it.")
    sub.said(bash("b1"))
    sub.result("b1", "b.txt")
    sub.said("b.txt")
    main.result("t2", "b.txt", toolUseResult={"agentId": "a1"})
    main.user("Quick.", isMeta=True)
    ready = main.said("Two.")["uuid"]
    main.user("More?")
    main.said("API Error: 529", isApiErrorMessage=True, model="<synthetic>")
    main.user("[Request interrupted by user]")
    main.parent = ready
    main.user("Again.")
    main.said(bash("t3"))
    main.compacted("All so far.")
    main.result("t3", "c.txt")
    main.said("Three.")
    return [*main.lines[:5], *sub.lines, *main.lines[5:]]


@pytest.mark.parametrize("seed", range(12))
def test_any_lines_in_any_order_make_sessions_that_verify(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines = [dict(line) for line in rich() if chance.random() > 0.15]
    for _ in range(3):
        one = chance.choice(lines)
        one.pop(chance.choice(list(one)))
        chance.choice(lines)["parentUuid"] = chance.choice(lines).get("uuid")
        lines.insert(chance.randrange(len(lines)), dict(chance.choice(lines)))
    at = chance.randrange(len(lines))
    lines[at : at + 4] = chance.sample(lines[at : at + 4], len(lines[at : at + 4]))
    path = write(tmp_path / "s1.jsonl", *lines)
    found = imported(tmp_path, path)[0]
    for session in found.made:
        with Recording.open(str(tmp_path / "log.db"), session) as look:
            assert look.verify().is_ok
    assert imported(tmp_path, path)[0].events == 0
