"""The chat of the examples: each sentence in a process of its own, and days between them."""

import subprocess
import sys
from pathlib import Path

import pytest

from callboard.replay import Recording
from tests.pages import ROOT

pytestmark = pytest.mark.slow


def say(folder: Path, name: str, words: str) -> str:
    script = str(ROOT / "examples" / "chat.py")
    done = subprocess.run(
        [sys.executable, script, name, words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    assert say(tmp_path, "ann", "Hi.") == "Hello. What is your name?"
    assert say(tmp_path, "ann", "My name is Ann.") == "Hello Ann, this is your message number 2."
    assert say(tmp_path, "bob", "Who am I?") == "Hello. What is your name?"
    assert say(tmp_path, "ann", "Who am I?") == "Hello Ann, this is your message number 3."
    recording = Recording.open(tmp_path / "chats.db", "ann")
    recording.verify().check()
    kinds = [event.kind for event in recording.events]
    assert (kinds.count("Ask"), kinds.count("Resumed"), kinds.count("SessionClosed")) == (3, 2, 0)
