"""The table of environment variables is what the code reads."""

import re

from callboard import pytest_plugin
from callboard.cli.environment import VARIABLES
from tests.pages import ROOT

_READ = re.compile(r'"(CALLBOARD_[A-Z_]+)"')
_FOLDERS = ("actors", "runtime", "replay", "callboard")


def test_the_table_has_every_variable_that_the_code_reads_and_no_other() -> None:
    own = ROOT / "callboard" / "cli" / "environment.py"
    files = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py") if path != own]
    assert len(files) > 400
    read = {name for path in files for name in _READ.findall(path.read_text())}
    of_pytest = {f"CALLBOARD_{name.upper()}" for name in pytest_plugin._OPTIONS}
    assert set(VARIABLES) == read | of_pytest


def test_the_page_of_the_command_line_has_the_table() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    rows = re.findall(r"^\| `(CALLBOARD_[A-Z_]+)` \| (.+) \|$", page, re.MULTILINE)
    assert dict(rows) == dict(VARIABLES)
