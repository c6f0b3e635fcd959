"""`callboard request --as-sent` on sessions over a real server."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard import Agent, AnthropicModel, Limits, OpenAIModel, Runtime, ScriptedModel, say, tool
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.cli.main import cli
from callboard.replay.recording import Recording
from tests.messages_api import MessagesApi, json_answer, message, sse_answer, text, tool_use
from tests.openai_api import Call, OpenAIApi, Reply, Thought, failed

KEY = "sk-test-0123456789"


@tool(effect="read")
def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is empty"


def record(log: Path, *, keep: bool = False, **settings: object) -> list[bytes]:
    """Record a session of three turns. Return the bodies that were sent."""
    replies = [
        Reply((Thought("Hm."), Call("look", '{"path":   "a"}', "c1"), Call("look", '{"pa', "c2"))),
        Reply(("Once more.", Call("look", '{"path": "b"}', "c3"))),
        Reply(("Done.",)),
    ]
    with OpenAIApi(replies) as api:
        model = OpenAIModel("gpt-5", base_url=f"{api.url}/v1", api_key=KEY, **settings)  # type: ignore[arg-type]  # of each test
        host = Agent("host", instructions="Be brief.", tools=[look])
        runtime = Runtime(str(log), model=model, keep_requests=keep)
        assert runtime.run_sync(host, "Look.").text == "Done."
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


def record_claude(log: Path) -> list[bytes]:
    """Record a session of two turns over the Messages API. Return the bodies that were sent."""
    replies = [message(tool_use("look", {"path": "a"}), stop_reason="tool_use"), message(text("Done."))]
    with MessagesApi(map(sse_answer, replies)) as api:
        model = AnthropicModel("claude-sonnet-4-5", base_url=api.url, api_key=KEY)
        host = Agent("host", instructions="Be brief.", tools=[look])
        assert Runtime(str(log), model=model).run_sync(host, "Look.").text == "Done."
        return [seen.raw for seen in api.seen]


def test_requests_of_claude_are_made_again_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    bodies = record_claude(log)
    for seq, body in zip(answers(log), bodies, strict=True):
        code, shown = run(log, str(seq), "--as-sent", "--json")
        found = json.loads(shown)
        assert (code, found["result"]) == (0, "same")
        assert found["sent"]["digest"] == hashlib.sha256(body).hexdigest()
        assert ", anthropic " in found["sent"]["made_by"]


def test_a_request_of_claude_without_marks_differs(tmp_path: Path) -> None:
    log, source = tmp_path / "log.db", tmp_path / "mine.py"
    record_claude(log)
    source.write_text(
        'from callboard import AnthropicModel\nmodel = AnthropicModel("claude-sonnet-4-5", cache=False)\n'
    )
    code, shown = run(log, str(answers(log)[0]), "--as-sent", "--model", f"{source}:model")
    assert code == 0
    assert "differs" in shown


def test_a_body_that_was_kept_is_printed_byte_for_byte(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    bodies = record(log, keep=True)
    for seq, body in zip(answers(log), bodies, strict=True):
        result = CliRunner().invoke(cli, ["request", str(seq), "--as-sent", "--log", str(log)])
        assert (result.exit_code, result.stdout_bytes) == (0, body)
        assert "same" in result.stderr


def test_a_kept_body_is_shown_without_the_model_that_made_it(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    bodies = record(log, keep=True)
    code, shown = run(log, str(answers(log)[1]), "--as-sent", "--json", "--model", "nobody:x")
    found = json.loads(shown)
    assert (code, found["result"], found["redacted"]) == (0, "unknown", False)
    assert found["body"].encode() == bodies[1]
    assert "now" not in found


def test_bodies_go_with_their_session_through_export_import_and_delete(tmp_path: Path) -> None:
    log, copy, file = tmp_path / "log.db", tmp_path / "copy.db", tmp_path / "session.jsonl"
    bodies = record(log, keep=True)

    def invoke(*words: str) -> None:
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output

    with Recording.open(log) as recording:
        name = recording.session_id
    invoke("export", "--log", str(log), "-o", str(file), name)
    invoke("import", "--log", str(copy), str(file))
    for seq, body in zip(answers(copy), bodies, strict=True):
        result = CliRunner().invoke(cli, ["request", str(seq), "--as-sent", "--log", str(copy)])
        assert result.stdout_bytes == body
    assert b"encrypted_content" in copy.read_bytes()
    invoke("delete", "--yes", "--log", str(copy), name)
    assert b"encrypted_content" not in copy.read_bytes()


@pytest.mark.parametrize("keep", [False, True])
def test_a_request_that_was_rejected_is_shown_too(tmp_path: Path, keep: bool) -> None:
    log = tmp_path / "log.db"
    with OpenAIApi([failed(400, "Invalid schema.")]) as api:
        model = OpenAIModel("gpt-5", base_url=f"{api.url}/v1", api_key=KEY)
        runtime = Runtime(str(log), model=model, keep_requests=keep)
        assert runtime.run_sync(Agent("host"), "Look.").status == "failed"
    (seen,) = api.seen
    code, shown = run(log, str(answers(log)[0]), "--as-sent", "--json")
    found = json.loads(shown)
    assert (code, found["result"]) == (0, "same")
    assert found["sent"]["digest"] == hashlib.sha256(seen.raw).hexdigest()
    assert found.get("body", "") == (seen.raw.decode() if keep else "")


def test_a_rejected_request_of_the_messages_api_is_shown_too(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    with MessagesApi(
        [json_answer({"error": {"type": "invalid_request_error", "message": "No."}}, 400)]
    ) as api:
        model = AnthropicModel("claude-opus-5", base_url=api.url, api_key=KEY)
        assert Runtime(str(log), model=model).run_sync(Agent("host"), "Look.").status == "failed"
    (seen,) = api.seen
    code, shown = run(log, str(answers(log)[0]), "--as-sent", "--json")
    assert (code, json.loads(shown)["sent"]["digest"]) == (0, hashlib.sha256(seen.raw).hexdigest())


def test_a_request_that_never_left_was_not_sent(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    model = OpenAIModel("gpt-5", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    limits = Limits(max_model_attempts=1)
    assert Runtime(str(log), model=model).run_sync(Agent("host"), "Look.", limits=limits).status == "failed"
    code, shown = run(log, str(answers(log)[0]), "--as-sent")
    assert code != 0
    assert "does not say what was sent" in shown


def test_the_repairs_of_a_request_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    record(log)
    first, second, _ = answers(log)
    assert "repaired" not in run(log, str(first), "--as-sent")[1]
    code, shown = run(log, str(second), "--as-sent")
    told = "message 2, block 3: arguments that are not a JSON object stand under the key `unreadable`"
    assert (code, "repaired" in shown and told in " ".join(shown.split())) == (0, True)
    found = json.loads(run(log, str(second), "--as-sent", "--json")[1])
    assert (found["repair_level"], found["repaired"]) == (0, [told])
