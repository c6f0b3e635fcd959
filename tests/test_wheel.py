"""The wheel holds the whole package, without the checkout's links."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SESSION = """
import callboard, callboard.replay.recording, sys
from callboard import Agent, Runtime, ScriptedModel, say
outcome = Runtime(":memory:", model=ScriptedModel([say("hello")])).run_sync(Agent("host"), "hi")
print(callboard.__file__)
print(outcome.text)
print(Agent("host", model="anthropic:claude-sonnet-5").model)
"""


@pytest.mark.slow
def test_the_wheel_works_from_another_folder(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(wheel, check=True, cwd=tmp_path)
    (built,) = tmp_path.glob("*.whl")
    target = tmp_path / "installed"
    subprocess.run([*pip, "install", "-q", "--no-deps", "--target", str(target), str(built)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SESSION],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, said, model = done.stdout.splitlines()
    assert Path(where).is_relative_to(target)
    assert said == "hello"
    assert model == "AnthropicModel('claude-sonnet-5')", "the wheel has no entry points"
    for stub in ("__init__.pyi", "testing.pyi"):
        assert (target / "callboard" / stub).is_file()
    sources = {path.name for path in (ROOT / "replay" / "page" / "assets").iterdir()}
    assert {path.name for path in (target / "callboard" / "replay" / "page" / "assets").iterdir()} == sources
    for command in (["--help"], ["sessions", "--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "callboard", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "callboard" in done.stdout
