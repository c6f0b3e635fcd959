"""Every attack case has a test that carries its name: `test_g4_...` is a test of case G4.

S1-S16   schemas and reports that are meant to read, leak, stall, crash or confuse
D1-D13   bytes and values that are meant to break their decoder
G1-G11   agents that ask for more than their limits allow, and messages at the wrong time
L1-L13   text that is meant to attack a page or forge the display, secrets, and tampered logs
O1-O3    two owners of one log
F1-F14   paths, links and races that lead out of the root of files
P1-P7    commands that fork, flood, hide or ignore signals
"""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
CASES = {
    "s": range(1, 17),
    "d": range(1, 14),
    "g": range(1, 12),
    "l": range(1, 14),
    "o": range(1, 4),
    "f": range(1, 15),
    "p": range(1, 8),
}
MORE = {"o4", "o5"}
"""Cases that may have a test, and need none yet."""


def test_every_case_has_a_test_named_for_it() -> None:
    sources = "\n".join(path.read_text() for path in FOLDER.glob("test_*.py") if path != Path(__file__))
    named = set(re.findall(r"^(?:async )?def test_([a-z]\d+)_", sources, re.MULTILINE))
    wanted = {f"{letter}{number}" for letter, numbers in CASES.items() for number in numbers}
    assert sorted(wanted - named) == []
    assert sorted(named - wanted - MORE) == [], "these cases are in no list"


def test_the_table_of_the_security_page_names_an_existing_test_for_every_case() -> None:
    page = (FOLDER.parent.parent / "docs" / "security.md").read_text()
    sources = "\n".join(path.read_text() for path in FOLDER.parent.rglob("test_*.py"))
    rows = dict(re.findall(r"^\| ([SDGLOFP]\d+) \| .* \| (.*) \|$", page, re.MULTILINE))
    assert list(rows) == [f"{letter.upper()}{n}" for letter, numbers in CASES.items() for n in numbers]
    for case, held_by in rows.items():
        for name in re.findall(r"`(test_\w+)`", held_by) or [""]:
            assert name.startswith(f"test_{case.lower()}_"), case
    for name in re.findall(r"`(test_\w+)`", page):
        assert f"def {name}(" in sources, name
