"""Sessions as Python files: what stands in them is data, whatever text the session holds."""

import ast
import runpy
from pathlib import Path

from callboard.actors.protocol.request import ModelRequest
from callboard.replay.exports.python_files import regression_test, scenario_file
from callboard.runtime.models.scripted import Step, call, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.testing import RecordedScenario
from tests.cli.recorded import ATTACK
from tests.replay.changed.sessions import record
from tests.replay.changed.test_following import host, kid, policy

HOSTILE = f'"""\n\\N{{BULLET}} {{x}} \'\'\' %s {ATTACK}\nraise SystemExit("run")\n'


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
