"""The host, the runaway and the digger, turn by turn."""

import json

import msgspec

from callboard.demo.agents import CAST, TASKS
from callboard.demo.inquiry import turn
from callboard.runtime.models.scripted import Reply
from tests.demo.play import request_of

Message = dict[str, object]


def calls(reply: Reply) -> list[tuple[str, dict[str, object]]]:
    return [(call.tool, msgspec.json.decode(call.input)) for call in reply.calls]


def after(*answers: tuple[str, bool], prompt: str = "Explain.") -> list[Message]:
    asked = [{"type": "tool_use", "id": str(n), "name": "task", "input": {}} for n in range(len(answers))]
    results = [
        {"type": "tool_result", "tool_use_id": str(n), "content": text, "is_error": is_error}
        for n, (text, is_error) in enumerate(answers)
    ]
    turns: list[Message] = [{"role": "assistant", "content": asked}, {"role": "user", "content": results}]
    return [{"role": "user", "content": prompt}, *(turns if answers else [])]


def play(name: str, messages: list[Message]) -> Reply:
    return turn(CAST[name].inquiry, request_of(name, messages))


def test_the_host_delegates_everything_in_its_first_turn() -> None:
    made = calls(play("host", after()))
    assert [tool for tool, _ in made] == ["task"] * len(TASKS)
    named = [arguments.get("agents") or arguments["agent"] for _, arguments in made]
    assert named == ["tester", "surveyor", ["packager", "reader"], "runaway", "digger"]


def test_the_host_sums_up_failures_in_the_runtimes_words() -> None:
    reply = play("host", after(*[("The delegation failed (budget).\nMore", True)] * 5))
    assert not reply.calls
    assert reply.text.split("\n") == [
        "Testing framework: unknown. The delegation failed (budget).",
        "Entry point: unknown. The delegation failed (budget).",
        "Modules: none. The delegation failed (budget).",
        "Runaway: The delegation failed (budget).",
        "Depth: The delegation failed (budget).",
    ]


def test_the_host_wraps_lines_at_80_columns_and_never_breaks_a_path() -> None:
    path = "p" * 90
    modules = json.dumps({"modules": [{"path": path, "summary": "word " * 40}]})
    lines = play("host", after(*[(modules, False)] * 5)).text.split("\n")
    assert any(path in line for line in lines)
    assert all(len(line) <= 80 or path in line for line in lines)


def test_no_word_of_the_host_moves_a_cursor() -> None:
    finding = json.dumps({"answer": "x\x1b[2J", "basis": "y\n\x1b[2J", "notes": ["\u202e"]})
    modules = json.dumps({"modules": [{"path": "\r", "summary": "\x07"}]})
    reply = play(
        "host", after((finding, False), (modules, False), (finding, False), ("\x1b", True), ("{}", False))
    )
    assert "x\\x1b[2J" in reply.text
    assert all(line.isprintable() for line in reply.text.split("\n"))


def test_the_runaway_always_calls_its_tool_again() -> None:
    messages = after()
    for _ in range(50):
        assert [tool for tool, _ in calls(play("runaway", messages))] == ["list_folders"]
        messages += after(("[]", False))[1:]


def test_the_digger_delegates_its_own_prompt_and_reports_how_deep_that_went() -> None:
    assert calls(play("digger", after(prompt="Dig."))) == [("task", {"prompt": "Dig."})]
    refused = play("digger", after(("The delegation failed (denied): too deep.", True)))
    assert calls(refused) == [
        ("report_back", {"levels": 1, "refused": "The delegation failed (denied): too deep."})
    ]
    below = play("digger", after((json.dumps({"levels": 2, "refused": "too deep"}), False)))
    assert calls(below) == [("report_back", {"levels": 3, "refused": "too deep"})]
