"""The example of two MCP servers, with a server in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from callboard.actors.protocol.port_messages import ApprovalGiven, ToolStarted
from callboard.replay import Recording
from tests.pages import ROOT

pytestmark = pytest.mark.slow


def test_the_summary_is_written_after_a_person_has_agreed(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("one two three")
    (folder / "b.txt").write_text("four")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "mcp_files" / "summary.py"), str(folder)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "may I files_write_file SUMMARY.txt? yes",
        "wrote 29 characters to SUMMARY.txt",
    ]
    assert (folder / "SUMMARY.txt").read_text() == "a.txt: 3 words\nb.txt: 1 words"
    recording = Recording.open(tmp_path / "summary.db")
    recording.verify().check()
    kinds = [type(event.body) for event in recording.events]
    assert kinds.count(ApprovalGiven) == kinds.count(ToolStarted) == 1


def test_the_server_stays_in_its_folder(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import server\n"
        "from callboard.errors import FileError\n"
        "for path in ('../secret', '/etc/passwd', 'a/../../secret'):\n"
        "    try:\n        server.FILES.read_text(path)\n"
        "    except FileError:\n        print('refused')\n"
    )
    at = str(ROOT / "examples" / "mcp_files")
    done = subprocess.run(
        [sys.executable, "-c", code, at, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused"] * 3
