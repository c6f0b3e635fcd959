"""Sessions as Python files: their contents are data, for any text of the session."""

import ast
import asyncio
import io
import json
import runpy
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import CorruptLog, MisuseError
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.exports.jsonl import ExportReader, Header
from callboard.replay.exports.recorded_parts import regression_test, scenario_file
from callboard.replay.exports.writing import EXPORTERS
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Step, call, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.testing import RecordedScenario
from tests.cli.recorded import ATTACK
from tests.effort import effort
from tests.replay.changed.sessions import record
from tests.replay.changed.test_following import host, kid, policy
from tests.replay.exports.kit import bodies, digests_in, events_of, exported, log_of

KEYS = ["seq", "at", "sender", "recipient", "cause", "kind", "body", "digest"]
KEY = b"a secret key"
LARGE = msgspec.Raw(b'"' + b"x" * 2_000 + b'"')
HOSTILE = f'"""\n\\N{{BULLET}} {{x}} \'\'\' %s {ATTACK}\nraise SystemExit("run")\n'


@given(st.lists(bodies(), min_size=1, max_size=6), st.sampled_from([None, KEY]))
@settings(max_examples=effort(50, 1_000))
def test_digests_can_be_computed_from_the_file_alone(messages: list[AnyMessage], key: bytes | None) -> None:
    log = log_of(events_of(messages), key)
    content = exported(log, key)
    assert content.isascii()
    assert len(content.splitlines()) == len(content.decode().splitlines()) == content.count(b"\n")
    rows = MemoryReader(log).events("s")
    assert digests_in(content, key or b"") == [row.digest.hex() for row in rows]


@given(st.lists(bodies(), min_size=1, max_size=4))
@settings(max_examples=50)
def test_parsed_bodies_are_the_same_values_one_a_line(messages: list[AnyMessage]) -> None:
    log = log_of(events_of(messages))
    header, *lines = exported(log, is_parsed=True).decode("ascii").splitlines()
    assert "digests cannot be computed" in json.loads(header)["bodies"]
    found = [json.loads(line)["body"] for line in lines]
    assert found == [json.loads(row.body) for row in MemoryReader(log).events("s")]


def test_event_lines_have_exactly_these_keys_and_large_values_stand_before_their_first_use() -> None:
    log = log_of(events_of([Cancel("why"), ToolReturned(1, 1, "ok", LARGE), ToolReturned(1, 2, "ok", LARGE)]))
    header, *lines = map(json.loads, exported(log).splitlines())
    assert header["head"] == f"3:{lines[-1]['digest']}"
    assert header["events"] == 3
    assert [next(iter(line)) for line in lines] == ["seq", "blob", "seq", "seq", "seq", "seq"]
    events = [line for line in lines if "kind" in line]
    assert [list(line) for line in events] == [KEYS] * 3
    assert [line["kind"] for line in events] == ["Cancel", "ToolReturned", "ToolReturned"]
    assert events[0]["body"] == '{"type":"Cancel","reason":"why"}'
    assert [line["seq"] for line in lines if "cuts" in line] == [2, 3]


def test_a_document_holds_the_header_and_the_events() -> None:
    log = log_of(events_of([Cancel("one"), Cancel("two")]))
    out = io.BytesIO()
    Recording.open(MemoryReader(log)).export("json", out)
    found = json.loads(out.getvalue())
    assert [event["body"]["reason"] for event in found["events"]] == ["one", "two"]
    assert found["session"] == "s"


def test_a_path_gets_the_whole_file_or_no_file(tmp_path: Path) -> None:
    log = log_of(events_of([Cancel("one"), Cancel("two")]))
    path = tmp_path / "s.jsonl"
    Recording.open(MemoryReader(log)).export("jsonl", path)
    assert path.read_bytes() == exported(log)
    log._sessions["s"].rows.pop()
    with pytest.raises(CorruptLog):
        Recording.open(MemoryReader(log)).export("jsonl", tmp_path / "cut.jsonl")
    assert [one.name for one in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_wish_that_no_exporter_can_fulfil_is_a_misuse(tmp_path: Path) -> None:
    recording = Recording.open(MemoryReader(log_of(events_of([Cancel("one")]))))
    with pytest.raises(MisuseError, match="formats: jsonl, json, markdown, html, db, pytest, otlp, scenario"):
        recording.export("xml", io.BytesIO())
    with pytest.raises(MisuseError, match="leave is_parsed out"):
        recording.export("json", io.BytesIO(), is_parsed=True)
    with pytest.raises(MisuseError, match="leave agent out"):
        recording.export("json", io.BytesIO(), agent="survey:host")
    with pytest.raises(MisuseError, match="leave has_content out"):
        recording.export("json", io.BytesIO(), has_content=True)
    with pytest.raises(MisuseError, match="its recording beside it"):
        recording.export("pytest", io.BytesIO())
    with pytest.raises(MisuseError, match="has no ask"):
        recording.export("scenario", io.BytesIO())
    for target in (io.BytesIO(), tmp_path / "copy.db"):
        with pytest.raises(MisuseError, match=r"is copied (from a log file )?to a file"):
            recording.export("db", target)
    assert list(EXPORTERS) == ["jsonl", "json", "markdown", "html", "db", "pytest", "otlp", "scenario"]


@pytest.mark.parametrize("key", [None, KEY])
def test_a_fork_is_written_whole_with_the_ids_under_which_its_events_stand(key: bytes | None) -> None:
    log = log_of(events_of([Cancel(str(at)) for at in range(6)]), key)

    async def fork() -> None:
        (name,) = [row.session_id for row in await log.sessions()]
        await log.fork("f", 1_800_000_000_000, "", name, 4)
        await log.append([Append("f", 4, 1, events_of([Cancel("more")] * 5)[4:])])

    asyncio.run(fork())
    content = exported(log, key)
    assert digests_in(content, key or b"")[-1] == MemoryReader(log).head("f").digest.hex()
    with ExportReader(content.splitlines(keepends=True), key, "here") as reader:
        header, *items = reader.items()
    assert isinstance(header, Header)
    assert (header.session, [last for _, last in header.lineage or ()], len(items)) == ("f", [4], 5)


def test_a_scenario_file_is_python_that_makes_the_scenario(tmp_path: Path) -> None:
    recording = record(policy, host())
    path = tmp_path / "scenario.py"
    recording.export("scenario", path)
    assert "callboard explore scenario.py:scenario" in path.read_text()
    scenario = runpy.run_path(str(path))["scenario"]
    assert isinstance(scenario, RecordedScenario)
    assert scenario.name == "one"
    assert scenario.simulate().outcome.text == "done"


def test_hostile_text_is_a_literal(tmp_path: Path) -> None:
    def hostile(request: ModelRequest) -> Step:
        return say(HOSTILE) if request.turn == 2 else call("look", key=HOSTILE)

    recording = record(hostile, host(kid(instructions=HOSTILE)))
    text = "".join(scenario_file('"""\nimport os', recording.events, '"""\nx.py'))
    tree = ast.parse(text)
    kinds = {type(node) for node in tree.body}
    assert kinds == {ast.Expr, ast.ImportFrom, ast.Assign, ast.If}
    assert "\u202e" not in text
    assert "\x1b" not in text
    path = tmp_path / "scenario.py"
    path.write_text(text)
    assert runpy.run_path(str(path))["scenario"].simulate().outcome.text == HOSTILE


def test_a_test_names_its_recording_and_agents_as_literals() -> None:
    events = record(policy, host()).events
    text = regression_test('a"b\n1', events, "it's.jsonl", "m:host")
    (_, test) = ast.parse(text).body
    assert isinstance(test, ast.FunctionDef)
    assert test.name == "test_session_a_b_1"
    assert "# 1 ask: answered" in text
    assert """recording("it's.jsonl", agent='m:host')""" in text
    assert regression_test("---", events, "a.jsonl", "").count("def test_session_session(") == 1


KID = kid()


@program(agents=[KID])
async def conductor(ctx: ProgramContext, prompt: str) -> str:
    return str(await ctx.delegate(KID, prompt))


def test_the_scenario_of_a_program_is_python_too(tmp_path: Path) -> None:
    recording = record(lambda request: say(HOSTILE), conductor)
    path = tmp_path / "scenario.py"
    recording.export("scenario", path)
    assert runpy.run_path(str(path))["scenario"].simulate().outcome.text == HOSTILE
