"""`callboard request --as-sent` on sessions over a real server."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard import Agent, OpenAIModel, Runtime, ScriptedModel, say, tool
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.cli.main import cli
from callboard.replay.recording import Recording
from tests.openai_api import Call, OpenAIApi, Reply, Thought

KEY = "sk-test-0123456789"


@tool(effect="read")
def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is empty"


def record(log: Path, **settings: object) -> list[bytes]:
    """Record a session of three turns. Return the bodies that were sent."""
    replies = [
        Reply((Thought("Hm."), Call("look", '{"path":   "a"}', "c1"), Call("look", '{"pa', "c2"))),
        Reply(("Once more.", Call("look", '{"path": "b"}', "c3"))),
        Reply(("Done.",)),
    ]
    with OpenAIApi(replies) as api:
        model = OpenAIModel("gpt-5", base_url=f"{api.url}/v1", api_key=KEY, **settings)  # type: ignore[arg-type]  # of each test
        host = Agent("host", instructions="Be brief.", tools=[look])
        assert Runtime(str(log), model=model).run_sync(host, "Look.").text == "Done."
        return [seen.raw for seen in api.seen]


def answers(log: Path) -> list[int]:
    """Return the seqs of the model's answers."""
    with Recording.open(log) as recording:
        return [event.seq for event in recording.events if isinstance(event.body, ModelReplied)]


def run(log: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["request", *words, "--log", str(log)])
    return result.exit_code, result.stdout or result.stderr


def test_every_request_of_a_session_is_made_again_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    bodies = record(log)
    for seq, body in zip(answers(log), bodies, strict=True):
        code, shown = run(log, str(seq), "--as-sent", "--json")
        found = json.loads(shown)
        assert (code, found["result"]) == (0, "same")
        assert found["sent"]["made_by"].startswith("callboard ")
        assert found["sent"]["digest"] == hashlib.sha256(body).hexdigest()


def test_a_request_that_another_setting_changes_differs(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    record(log, stream=False)
    code, shown = run(log, str(answers(log)[0]), "--as-sent")
    assert code == 0
    assert "differs" in shown


def test_a_model_of_your_own_is_named(tmp_path: Path) -> None:
    log, source = tmp_path / "log.db", tmp_path / "mine.py"
    record(log, stream=False)
    source.write_text('from callboard import OpenAIModel\nmodel = OpenAIModel("gpt-5", stream=False)\n')
    code, shown = run(log, str(answers(log)[0]), "--as-sent", "--model", f"{source}:model")
    assert code == 0
    assert "same" in shown


@pytest.mark.parametrize("model", ["", "scripted:x:y"])
def test_a_model_that_does_not_tell_has_no_digest(tmp_path: Path, model: str) -> None:
    log = tmp_path / "log.db"
    Runtime(str(log), model=ScriptedModel([say("Hi.")])).run_sync(Agent("host"), "Hi.")
    code, shown = run(log, str(answers(log)[0]), "--as-sent", *(["--model", model] if model else []))
    assert code == 3
    assert "does not say what was sent" in shown
