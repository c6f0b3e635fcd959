"""The host, the runaway and the digger, turn by turn."""

import json

import msgspec

from callboard.actors.protocol.prompts import TASK
from callboard.demo.host_policy import TASKS, digger_policy, host_policy, runaway_policy
from callboard.demo.inquiry import Question
from callboard.demo.policies import CAST
from callboard.runtime.models.scripted import Reply
from tests.demo.play import request_of

Message = dict[str, object]


def calls(reply: Reply) -> list[tuple[str, dict[str, object]]]:
    return [(call.tool, msgspec.json.decode(call.input)) for call in reply.calls]


def after(questions: list[Question], results: list[tuple[str, bool]]) -> list[Message]:
    asked = [
        {"type": "tool_use", "id": str(n), "name": q.tool, "input": dict(q.arguments)}
        for n, q in enumerate(questions)
    ]
    answers = [
        {"type": "tool_result", "tool_use_id": str(n), "content": text, "is_error": is_error}
        for n, (text, is_error) in enumerate(results)
    ]
    return [
        {"role": "user", "content": "Explain this folder."},
        {"role": "assistant", "content": asked},
        {"role": "user", "content": answers},
    ]


def test_the_host_delegates_everything_in_its_first_turn() -> None:
    made = calls(host_policy(request_of("host", [{"role": "user", "content": "Explain."}])))
    assert [tool for tool, _ in made] == [TASK] * len(TASKS)
    named = [arguments.get("agents") or arguments["agent"] for _, arguments in made]
    assert named == ["tester", "surveyor", ["packager", "reader"], "runaway", "digger"]
    assert all(arguments["prompt"] for _, arguments in made)


def test_the_host_delegates_only_to_agents_that_it_has() -> None:
    for name, role in CAST.items():
        assert set(role.agents) <= set(CAST), name
    racers = [name for task in TASKS for name in msgspec.convert(task.arguments.get("agents", ()), list[str])]
    single = [str(task.arguments["agent"]) for task in TASKS if "agent" in task.arguments]
    assert {*racers, *single} == set(CAST["host"].agents)


def test_the_host_sums_up_failures_in_the_runtimes_words() -> None:
    failed = ("The delegation failed (budget).\nMore", True)
    reply = host_policy(request_of("host", after(list(TASKS), [failed] * 5)))
    assert not reply.calls
    assert reply.text.split("\n") == [
        "Testing framework: not found out. The delegation failed (budget).",
        "Entry point: not found out. The delegation failed (budget).",
        "Modules: not found out. The delegation failed (budget).",
        "Runaway: The delegation failed (budget).",
        "Depth: The delegation failed (budget).",
    ]


def test_what_the_host_says_moves_no_cursor() -> None:
    evil = json.dumps({"framework": "x\u001b[2J", "entry_point": "y\u001b[2J", "kind": "z\n", "modules": []})
    reply = host_policy(request_of("host", after(list(TASKS), [(evil, False)] * 5)))
    assert all(line.isprintable() for line in reply.text.split("\n"))


def test_the_runaway_always_calls_its_tool_again() -> None:
    messages: list[Message] = [{"role": "user", "content": "Watch."}]
    for turn in range(1, 50):
        reply = runaway_policy(request_of("runaway", messages, turn))
        assert [tool for tool, _ in calls(reply)] == ["list_files"]
        messages += after([Question("list_files", {"path": "."})], [("{}", False)])[1:]


def test_the_digger_delegates_its_own_prompt_and_reports_how_deep_that_went() -> None:
    (first,) = calls(digger_policy(request_of("digger", [{"role": "user", "content": "Dig."}])))
    assert first[0] == TASK
    assert first[1]["prompt"] == "Dig."
    question = Question(*first)
    messages = after([question], [("The delegation failed (denied): too deep.", True)])
    messages[0]["content"] = "Dig."
    assert calls(digger_policy(request_of("digger", messages))) == [
        ("report_back", {"levels": 1, "refused": "The delegation failed (denied): too deep."})
    ]
    below = after([question], [(json.dumps({"levels": 2, "refused": "too deep"}), False)])
    below[0]["content"] = "Dig."
    assert calls(digger_policy(request_of("digger", below))) == [
        ("report_back", {"levels": 3, "refused": "too deep"})
    ]
