"""The types that users see, as pyright reads them; mypy reads them in its normal run."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


HAS_NODE = shutil.which("node") is not None


@pytest.mark.skipif(not HAS_NODE, reason="needs Node.js: `apt-get install nodejs` installs it")
@pytest.mark.slow  # pyright reads all that these files import, in two seconds
def test_pyright_finds_the_expected_errors_and_no_other() -> None:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
