"""The parts that every request of an agent begins with."""

import msgspec
from hypothesis import given, settings

from callboard.actors.agent.request_prefix import (
    TOOL_OVERHEAD_TOKENS,
    RequestPrefix,
    prefix_for,
    prompt_of,
)
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import ContextPlace, ModelSpec, Profile, ToolSpec, read_profile
from callboard.actors.protocol.prompts import REPORT_ENDS_TASKS, REPORT_NOTE
from callboard.replay.testing.sessions.scenario import profile, tool_spec
from tests.strategies import messages

SCHEMA = Json(b'{"type":"object","required":["n"]}')


def begun(who: Profile, schema: Json = NULL, roster: tuple[tuple[str, str], ...] = ()) -> RequestPrefix:
    return prefix_for(Begin(Json(encode(who)), Json(b'"go"'), ModelSpec("m"), Limits(), schema, 0, roster))


def names(fixed: RequestPrefix) -> list[object]:
    return [msgspec.json.decode(tool)["name"] for tool in fixed.tools]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(messages(Profile))
def test_a_profile_is_read_back_from_the_bytes_in_begin(who: Profile) -> None:
    assert read_profile(encode(who)) == who


def test_tools_come_in_one_order_own_then_the_services_then_task_then_report() -> None:
    who = msgspec.structs.replace(
        profile("a", ["b"], ["look", "save"]), server_tools=(Json(b'{"name":"web","type":"web_1"}'),)
    )
    fixed = begun(who, SCHEMA, (("b", "helps"),))
    assert names(fixed) == ["look", "save", "web", "task", "report_back"]
    assert bytes(fixed.tools[2]) == b'{"name":"web","type":"web_1"}'


def test_an_agent_with_background_tasks_is_told_that_a_report_ends_them() -> None:
    for is_background in (False, True):
        who = profile("a", ["b"], background=is_background)
        (*_, report) = begun(who, SCHEMA, (("b", "helps"),)).tools
        told = str(msgspec.json.decode(report)["description"])
        assert (REPORT_ENDS_TASKS in told) is is_background


def test_without_roster_and_schema_only_its_own_tools_are_offered() -> None:
    fixed = begun(profile("a", ["b"], ["look"]))
    effects = {name: spec.effect for name, spec in fixed.specs.items()}
    assert (names(fixed), fixed.reports, effects) == (["look"], False, {"look": "read"})
    assert bytes(fixed.system) == b'"You are a."'


def test_the_report_tool_is_injected_for_one_delegation_and_mentioned_in_the_system_prompt() -> None:
    fixed = begun(profile("a"), SCHEMA)
    assert (names(fixed), fixed.reports, fixed.wraps_report) == (["report_back"], True, False)
    assert REPORT_NOTE in msgspec.json.decode(fixed.system)
    assert begun(profile("a"), Json(b'{"type":"array"}')).wraps_report


def test_a_tools_schema_is_sent_byte_for_byte_with_its_extra_keys_behind() -> None:
    schema = b'{ "type": "object", "properties": {"z":{}, "a":{}} }'
    spec = ToolSpec("look", "looks", Json(schema), "read", Json(b' {"strict": true} '))
    (tool,) = begun(Profile("a", tools=(spec,))).tools
    assert (
        bytes(tool) == b'{"name":"look","description":"looks","input_schema":' + schema + b',"strict": true}'
    )
    plain = Profile("a", tools=(msgspec.structs.replace(spec, extra=Json(b"{ }")),))
    assert msgspec.json.decode(begun(plain).tools[0]).keys() == {"name", "description", "input_schema"}


def test_the_bound_counts_every_byte_and_the_services_own_prompt_around_tools() -> None:
    fixed = begun(Profile("a", tools=(tool_spec("look"),), instructions=Json(b'"hello"')))
    assert fixed.tokens == len(b'"hello"') + len(fixed.tools[0]) + TOOL_OVERHEAD_TOKENS
    assert begun(Profile("a", instructions=Json(b'"hello"'))).tokens == len(b'"hello"')


def test_the_digest_differs_for_every_part_that_is_sent() -> None:
    bare = begun(profile("a"))
    others = [begun(profile("b")), begun(profile("a", tools=["look"])), begun(profile("a"), SCHEMA)]
    assert len({bare.digest, *[other.digest for other in others]}) == 4
    assert begun(profile("a", limits=Limits(tokens=5))).digest == bare.digest


def with_context(place: ContextPlace, context: bytes, instructions: Json | None = None) -> Begin:
    who = profile("a", context="c", context_in=place)
    if instructions is not None:
        who = msgspec.structs.replace(who, instructions=instructions)
    given = Begin(Json(encode(who)), Json(b'"go"'), ModelSpec("m"), Limits())
    return msgspec.structs.replace(given, context=Json(context))


def test_a_context_stands_before_the_prompt_and_changes_no_prefix() -> None:
    begin = with_context("message", b'"known"')
    assert prefix_for(begin).system == begun(profile("a")).system
    assert msgspec.json.decode(prompt_of(begin)) == [
        {"type": "text", "text": "known"},
        {"type": "text", "text": "go"},
    ]


def test_a_context_in_the_system_prompt_stands_behind_the_instructions_and_counts() -> None:
    begin, bare = with_context("system", b'"known"'), begun(profile("a"))
    fixed = prefix_for(begin)
    assert msgspec.json.decode(fixed.system) == [
        {"type": "text", "text": "You are a."},
        {"type": "text", "text": "known"},
    ]
    assert prompt_of(begin) == begin.prompt
    assert fixed.tokens - bare.tokens == len(fixed.system) - len(bare.system)
    assert fixed.digest != bare.digest
    assert fixed.start != bare.start


def test_a_context_in_the_system_prompt_stands_behind_the_note_on_reports() -> None:
    begin = with_context("system", b'[{"type":"text","text":"known"}]')
    first, second = msgspec.json.decode(prefix_for(msgspec.structs.replace(begin, schema=SCHEMA)).system)
    assert first["text"].endswith(REPORT_NOTE)
    assert second["text"] == "known"


def test_a_context_is_the_whole_system_prompt_of_an_agent_without_instructions() -> None:
    alone = prefix_for(with_context("system", b'"known"', NULL))
    assert bytes(alone.system) == b'"known"'
    empty = with_context("system", b"null")
    assert prefix_for(empty).system == begun(profile("a")).system
