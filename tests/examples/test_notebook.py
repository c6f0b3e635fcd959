"""The notebook of the examples, executed cell by cell in a kernel of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pages import ROOT

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"

EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
print(nbformat.writes(notebook))
"""


def executed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the cells of code after their execution."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(folder / "jupyter"))
    # In another process: the client of the kernel brings warnings and an event loop of its own.
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(NOTEBOOK)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [cell for cell in json.loads(done.stdout)["cells"] if cell["cell_type"] == "code"]


def shown(cell: Any) -> str:
    """Return the text below a cell."""
    texts = [one.get("text") or one["data"]["text/plain"] for one in cell["outputs"]]
    return "".join("".join(text) for text in texts)


@pytest.mark.slow
def test_every_cell_runs_and_shows_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    *_, answer, replay, events, usage = map(shown, executed(tmp_path, monkeypatch))
    assert answer.splitlines()[0] == "ok Pears sold best."
    assert sorted(answer.splitlines()[1:]) == [
        "host.1 Sales(fruit='apples', total=8)",
        "host.2 Sales(fruit='pears', total=15)",
    ]
    assert replay.endswith("events, all as recorded\n")
    assert events.count("'DelegationEnded'") == 2
    assert "'calls': 6" in usage


def test_the_committed_notebook_has_no_outputs() -> None:
    found = json.loads(NOTEBOOK.read_text())
    cells = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
