"""The texts of callboard for models: every result and both tools."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.protocol import prompts
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind
from callboard.actors.protocol.folded_results import FOLDED, folded, json_bytes
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import DelegationEnded, ReportJudged
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.actors.protocol.value_types import CallMetadata, Reason, SchemaProblem
from tests.tables import table


def value(raw: Json) -> dict[str, object]:
    return msgspec.json.decode(raw, type=dict[str, object])


def test_the_delegation_tool_lists_the_agents_with_their_descriptions() -> None:
    tool = value(prompts.task_tool((("finder", "finds facts"), ("writer", ""))))
    assert tool["name"] == "task"
    assert "- finder: finds facts\n- writer: no description" in str(tool["description"])
    schema = msgspec.convert(tool["input_schema"], dict[str, object])
    assert schema["required"] == ["prompt"]
    properties = msgspec.convert(schema["properties"], dict[str, dict[str, object]])
    assert properties["agent"]["enum"] == ["finder", "writer"]
    assert set(properties) == {"agent", "agents", "prompt", "output_schema", "copies"}


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"background": True}, {"background": "boolean"}),
        ({"is_described": True}, {"description": "string"}),
        ({"background": True, "is_described": True}, {"background": "boolean", "description": "string"}),
    ],
)
def test_the_delegation_tool_takes_what_its_agent_may_say_besides(
    options: dict[str, Any], more: dict[str, str]
) -> None:
    plain, tool = (value(prompts.task_tool((("finder", ""),), **one)) for one in ({}, options))
    both = [msgspec.convert(one, dict[str, Any])["input_schema"]["properties"] for one in (plain, tool)]
    new = {name: schema["type"] for name, schema in both[1].items() if name not in both[0]}
    assert new == more
    assert (prompts.BACKGROUND_NOTE in str(tool["description"])) is ("background" in options)


@table(
    ("schema", "is_object"),
    [
        (b'{"type":"object"}', True),
        (b'{"type":"array"}', False),
        (b'{"type":["object","null"]}', False),
        (b'{"$ref":"#/$defs/a"}', False),
        (b"true", False),
        (b"{}", False),
        (b"[1]", False),
        (b"{", False),
    ],
)
def test_only_a_schema_of_objects_can_be_a_tools_input(schema: bytes, is_object: bool) -> None:
    assert prompts.is_object_schema(Json(schema)) == is_object


def test_a_schema_of_objects_is_sent_byte_for_byte() -> None:
    schema = b'{ "type": "object", "properties": {"z": {}, "a": {}} }'
    assert schema in bytes(prompts.report_tool(Json(schema)))


@pytest.mark.parametrize("key", ["$defs", "definitions"])
def test_any_other_schema_is_wrapped_and_its_definitions_stay_reachable(key: str) -> None:
    inner = {"type": "array", "items": {"$ref": f"#/{key}/n"}}
    schema = Json(msgspec.json.encode({**inner, key: {"n": {"type": "integer"}}}))
    assert value(prompts.report_tool(schema))["input_schema"] == {
        "type": "object",
        "properties": {"value": inner},
        "required": ["value"],
        "additionalProperties": False,
        key: {"n": {"type": "integer"}},
    }


@pytest.mark.parametrize("schema", [b"true", b"false", b"3"])
def test_a_schema_without_fields_is_wrapped_as_anything(schema: bytes) -> None:
    wrapped = msgspec.convert(value(prompts.report_tool(Json(schema)))["input_schema"], dict[str, object])
    assert wrapped["properties"] == {"value": {}}


@pytest.mark.parametrize(
    ("instructions", "noted"),
    [
        (NULL, prompts.REPORT_NOTE),
        (Json(b'"Be kind."'), "Be kind.\n\n" + prompts.REPORT_NOTE),
        (
            Json(b'[{"type":"text","text":"Be kind."}]'),
            [{"type": "text", "text": "Be kind."}, {"type": "text", "text": prompts.REPORT_NOTE}],
        ),
    ],
)
def test_an_agent_that_owes_a_report_reads_so_after_its_instructions(
    instructions: Json, noted: object
) -> None:
    assert msgspec.json.decode(prompts.with_report_note(instructions)) == noted


def test_a_report_reaches_the_parent_as_the_bytes_that_were_reported() -> None:
    end = DelegationEnded(1, 0, "reported", value=Json(b'{ "n": 1 }'), text="thinking aloud")
    assert prompts.delegation_result(end) == ('{ "n": 1 }', False)


def test_an_answer_reaches_the_parent_as_text() -> None:
    assert prompts.delegation_result(DelegationEnded(1, 0, "answered", text="Paris")) == ("Paris", False)


@table("kind", [kind for kind, status in STATUS.items() if status != "ok"])
def test_every_other_end_reaches_the_parent_as_an_error_that_says_why(kind: OutcomeKind) -> None:
    said, is_error = prompts.delegation_result(DelegationEnded(1, 0, kind, text="half of it"))
    assert is_error
    assert said == (f"The delegation {STATUS[kind]} ({kind}): {EXPLAINED[kind]}.\nIts last words: half of it")


def test_a_lost_race_names_every_racers_own_end() -> None:
    reasons = (Reason("host.1", "budget", "spent"), Reason("host.2", "no_report"))
    end = DelegationEnded(1, 0, "no_report", detail="it stopped", reasons=reasons)
    assert prompts.delegation_result(end)[0].splitlines() == [
        "The delegation failed (no_report): it stopped.",
        "- host.1: budget, spent",
        "- host.2: no_report",
    ]


def test_a_judgement_tells_the_model_its_problems() -> None:
    problems = (SchemaProblem("/n", "is missing"), SchemaProblem("", "is no object"))
    said, is_error = prompts.judged_result(ReportJudged(1, 0, "invalid", problems))
    assert is_error
    assert said.splitlines()[1:] == ["- /n: is missing", "- /: is no object"]
    assert prompts.judged_result(ReportJudged(1, 0, "accepted")) == ("Accepted.", False)
    late = "Too late: this delegation has ended. The report is kept in the log."
    assert prompts.judged_result(ReportJudged(1, 0, "late")) == (late, True)


@pytest.mark.parametrize("background", [True, False])
def test_tools_of_ours_have_a_name_a_description_and_their_schema(background: bool) -> None:
    schema = Json(b'{"type":"object"}')
    tool = value(prompts.agent_tool(Callee("finder", schema), "finds facts"))
    assert tool == {"name": "finder", "description": "finds facts", "input_schema": {"type": "object"}}
    report = value(prompts.report_tool(schema, background=background))
    ends = prompts.REPORT_ENDS_TASKS if background else ""
    assert report == {
        "name": "report_back",
        "description": f"Give your result. {prompts.REPORT_NOTE}{ends}",
        "input_schema": {"type": "object"},
    }
    assert prompts.report_tool(schema) == prompts.report_tool(schema, background=False)


def test_a_schema_that_is_nested_too_deep_is_wrapped_as_anything() -> None:
    deep = Json(b'{"type":' + b"[" * 100_000)
    assert not prompts.is_object_schema(deep)
    assert prompts.report_tool(deep) == prompts.report_tool(Json(b"{}"))


@pytest.mark.parametrize("response", ["ok", "error", "invalid_input", "unavailable"])
def test_the_end_of_an_agent_tool_is_folded_if_its_input_is_wrong_or_it_is_unavailable(response: str) -> None:
    metadata = CallMetadata("tool", "host", response)  # type: ignore[arg-type]  # a Response
    end = DelegationEnded(1, 0, "denied", detail="why", metadata=metadata)
    plain = prompts.delegation_result(replace(end, metadata=None))
    is_folded = response in FOLDED
    assert prompts.delegation_result(end) == ((folded(end), True) if is_folded else plain)


def test_one_reason_is_that_of_the_end_and_is_not_told_twice() -> None:
    one = DelegationEnded(1, 0, "budget", detail="spent", reasons=(Reason("host.1", "budget", "spent"),))
    assert prompts.delegation_result(one)[0] == "The delegation failed (budget): spent."


def test_an_unknown_tool_is_answered_with_the_known_ones_and_not_with_a_megabyte() -> None:
    assert prompts.unknown_tool("rm", ("look", "save")) == "There is no tool named 'rm'. Tools: look, save."
    assert prompts.unknown_tool("\u0378'", ()).startswith("There is no tool named '\u0378''."), "no repr: it"
    assert "none" in prompts.unknown_tool("x", ()), "knows other characters in every version of Python"
    assert len(prompts.unknown_tool("x" * 1_000_000, ())) < 200


def test_every_ending_has_a_status_and_an_explanation() -> None:
    assert set(STATUS) == set(EXPLAINED)


# --- rooms ------------------------------------------------------------------------


def test_an_answer_that_fits_its_room_is_whole_and_a_longer_one_is_cut_with_a_note() -> None:
    fits = DelegationEnded(1, 0, "answered", text="x" * 200, room=200)
    assert prompts.delegation_result(fits) == ("x" * 200, False)
    text, _ = prompts.delegation_result(DelegationEnded(1, 0, "answered", text="x" * 201, room=200))
    note = " [cut: this result has 201 bytes, and 200 may be read]"
    assert text == "x" * (200 - len(note)) + note


def test_a_report_is_never_cut_and_neither_is_a_result_without_a_room() -> None:
    value = Json(b'{"text":"' + b"x" * 900 + b'"}')
    assert prompts.delegation_result(DelegationEnded(1, 0, "reported", value=value, room=500)) == (
        bytes(value).decode(),
        False,
    )
    long = DelegationEnded(1, 0, "answered", text="x" * 90_000)
    assert prompts.delegation_result(long) == ("x" * 90_000, False)


def test_last_words_and_reasons_are_cut_as_well() -> None:
    end = DelegationEnded(1, 0, "budget", detail="d" * 400, text="x" * 900, room=500)
    text, is_error = prompts.delegation_result(end)
    assert is_error
    assert text.startswith("The delegation failed (budget): ddd")
    assert json_bytes(text) == 500


@given(st.text(min_size=1).map(lambda text: text * 7), st.integers(1, 120))
def test_a_cut_result_takes_at_most_its_room_in_a_request_and_as_much_of_it_as_fits(
    text: str, room: int
) -> None:
    cut, _ = prompts.delegation_result(DelegationEnded(1, 0, "answered", text=text, room=room))
    assert json_bytes(cut) <= room
    assert json_bytes(cut) == len(text_json(cut)) - 2
    if cut != text:
        assert json_bytes(text) > room
        kept = len(cut.partition(" [cut: ")[0]) if " [cut: " in cut else len(cut)
        assert cut[:kept] == text[:kept]
        # The next character, escaped, has at most six bytes.
        assert json_bytes(cut) > room - 6


@pytest.mark.parametrize(
    ("wanted", "advice"), [("", "leave the schema out"), ("fields", "it takes one as fields")]
)
def test_a_schema_by_another_argument_is_refused_with_advice(wanted: str, advice: str) -> None:
    told = prompts.no_schema_argument("kid", wanted)
    assert told == f"Not delegated: agent 'kid' takes no schema by that argument; {advice}."


@pytest.mark.parametrize(
    ("tool", "start"),
    [("task", "Not delegated: "), ("look", "Not run: the arguments are not those of the tool: ")],
)
def test_arguments_that_a_tool_does_not_have_are_named_with_those_it_has(tool: str, start: str) -> None:
    told = prompts.wrong_names(tool, [("promt", "prompt"), ("x" * 60, "")], ["prompt", "agent"])
    names = f"'promt' (use prompt), '{'x' * 50}'"
    assert told == f"{start}{tool} has no argument {names}. Its arguments: prompt, agent."


def test_an_agent_reads_of_its_tasks_and_of_its_user() -> None:
    assert prompts.told("stop it") == "Message from the user while you work:\nstop it"
    assert prompts.started("host.1") == (
        "Started as background task host.1. Its result will come as a message."
    )
    assert prompts.task_ended(DelegationEnded(1, 0, "answered", text="Paris", address="host.1")) == (
        "Background task host.1 has ended:\nParis"
    )
    assert prompts.no_running_task("x" * 200) == f"No background task '{'x' * 100}' of yours runs."
    assert prompts.no_questions_left(3).endswith("at most 3 may be put to models (max_iterations).")


def test_a_wait_lists_the_tasks_that_still_run() -> None:
    most = prompts._RUNNING_TOLD
    running = [f"host.{at}" for at in range(1, most + 3)]
    assert prompts.waited([]) == "No background task runs any more."
    assert prompts.waited(running[:most]) == f"Still running: {', '.join(running[:most])}."
    assert prompts.waited(running) == f"Still running: {', '.join(running[:most])} and 2 more."


@pytest.mark.parametrize(("count", "more"), [(0, None), (3, ""), (4, "; and 1 more"), (9, "; and 6 more")])
def test_the_last_problems_of_an_agent_are_three_and_a_count(count: int, more: str | None) -> None:
    problems = tuple(SchemaProblem(f"/{at}", "is missing") for at in range(count))
    first = "; ".join(f"/{at}: is missing" for at in range(3))
    told = "" if more is None else f"its last report did not match: {first}{more}"
    assert prompts.last_problems(problems) == told


def test_a_call_without_approval_says_who_kept_it_from_running() -> None:
    given = ApprovalGiven(1, 0, "denied")
    assert prompts.not_approved(given) == "It was not allowed to run."
    assert prompts.not_approved(replace(given, note="too dear")) == "It was not allowed to run: too dear"
    assert prompts.not_approved(replace(given, round=1)) == f"{prompts.NO_INPUT}."
    late = prompts.not_approved(replace(given, verdict="cancelled", is_repeat=True))
    assert late.startswith(f"{prompts.CANCELLED.rstrip('.')} again; it was interrupted before")


def test_each_argument_of_a_tool_of_ours_has_a_type_and_a_description() -> None:
    task = prompts.task_tool((("finder", ""),), background=True, is_described=True)
    found: dict[str, object] = {}
    for tool in (msgspec.json.decode(one) for one in (task, *prompts.BACKGROUND_TOOLS)):
        schema, arguments = tool["input_schema"], tool["input_schema"]["properties"]
        assert schema["type"] == "object"
        assert all([tool["description"], *(one.pop("description") for one in arguments.values())])
        found[tool["name"]] = arguments, schema["required"]
    assert found == {
        "task": (
            {
                "agent": {"type": "string", "enum": ["finder"]},
                "prompt": {"type": "string"},
                "output_schema": {"type": "object"},
                "agents": {"type": "array", "items": {"type": "string", "enum": ["finder"]}},
                "copies": {"type": "integer", "minimum": 1},
                "background": {"type": "boolean"},
                "description": {"type": "string"},
            },
            ["prompt"],
        ),
        "task_wait": (
            {"tasks": {"type": "array", "items": {"type": "string"}}, "any": {"type": "boolean"}},
            [],
        ),
        "task_cancel": ({"task": {"type": "string"}}, ["task"]),
    }


@pytest.mark.parametrize("output", [b'"done"', b"[]", b'[ {"type":"text","text":"done"}]'])
def test_arguments_that_a_person_changed_stand_before_the_result(output: bytes) -> None:
    first, *rest = msgspec.json.decode(
        prompts.with_words_before(Json(output), prompts.changed_arguments(Json(b'{"a":1}')))
    )
    assert first == {"type": "text", "text": 'This call was approved with other arguments: {"a":1}'}
    assert rest == ([] if output == b"[]" else [{"type": "text", "text": "done"}])


def test_a_call_beyond_the_most_of_a_reply_says_how_many_it_may_make() -> None:
    assert prompts.too_many_calls(3).startswith(
        "Not run: one reply may make 3 calls, and this one came after"
    )


def test_arguments_that_cannot_be_read_go_back_as_they_came() -> None:
    assert prompts.unread_arguments("{") == prompts.UNREAD_ARGUMENTS + "{"
