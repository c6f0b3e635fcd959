"""callboard where the names are missing that only POSIX systems have."""

import subprocess
import sys
from pathlib import Path

CHILD = Path(__file__).parent / "without_posix.py"


def test_every_module_is_imported_and_a_session_runs_without_the_names_of_posix(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "one owner, one session, all modules"), done.stderr
