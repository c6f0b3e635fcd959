"""Real documents by others: most answerable questions are answered, hardly one wrongly, and no other one."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from regreader.importing import read_file

from tests.examples.regreader.real import HERE, verdicts


@pytest.mark.slow
@pytest.mark.parametrize("orchestrate", [True, False])
def test_real_documents_are_answered_or_refused(tmp_path: Path, orchestrate: bool) -> None:
    for path in HERE.glob("*.txt"):
        shutil.copy(path, tmp_path)
    found = verdicts(tmp_path, orchestrate=orchestrate)
    counts = Counter(verdict for verdict, _, _ in found)
    answerable = counts["right"] + counts["refused"] + counts["wrong"]
    assert answerable >= 20
    assert counts["right"] >= 0.7 * answerable
    assert counts["wrong"] <= 0.03 * answerable
    assert counts["answered, though there is no answer"] == 0


@pytest.mark.parametrize(
    ("name", "count", "first", "last"),
    [("gpl-3", 18, "0", "17"), ("apache-2", 9, "1", "9"), ("cc0", 4, "1", "4")],
)
def test_the_sections_of_real_documents_are_found(name: str, count: int, first: str, last: str) -> None:
    one = read_file(HERE / f"{name}.txt", name, name)
    ids = [section.id for section in one.sections if section.kind == "section"]
    assert (len(ids), ids[0], ids[-1]) == (count, first, last)
    assert one.summary.startswith(f"no pages; {count} sections; no tables; read as text")
