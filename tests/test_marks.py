"""Every mark that switches a checker off on a line has its reason beside it."""

import io
import re
import tokenize
from collections.abc import Iterator

from tests.tables import table
from tools.sources import ROOT, SHIPPED, files_of

FOLDERS = (*SHIPPED, "benchmarks", "examples", "tests", "tools")

MARK = re.compile(
    r"#\s*(type:\s*ignore(\[[^\]]*\])?|noqa(:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)?|pragma: no \w+)",
)
REASON = re.compile(r"  # [\w`].{4,}")


def bare_marks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the comment of each mark of a source that gives no reason."""
    if not any(_seems_bare(line) for line in text.splitlines()):
        return  # without reading the source as Python, which takes most of the time
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and MARK.match(token.string):
            left = MARK.sub("", token.string)
            if not REASON.search(left):
                yield token.start[0], token.string


def _seems_bare(line: str) -> bool:
    """Return True for a line with a mark and no reason behind it, be it in a comment or in a text."""
    return any(not REASON.search(MARK.sub("", line[one.start() :])) for one in MARK.finditer(line))


def test_every_mark_has_its_reason_beside_it() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {mark}"
        for path in files_of(*FOLDERS)
        for line, mark in bare_marks(path.read_text())
    ]
    assert not found, "write the reason behind the mark, as `# mark  # reason`:\n" + "\n".join(found)


@table(
    ("comment", "count"),
    [
        ("# type: ignore[misc]", 1),
        ("# noqa: E402, F401", 1),
        ("# noqa: E402 - later", 1),
        ("# type: ignore[misc]  # noqa: B008", 1),
        ("# type: ignore[misc]  # x", 1),
        ("# pragma: no cover", 1),
        ("# type: ignore[misc]  # the subject of this test", 0),
        ("# type: ignore[misc]  # noqa: B008  # the subject of this test", 0),
        ("# a comment about noqa", 0),
        ("# fmt: skip", 0),
    ],
)
def test_a_mark_without_a_reason_is_found(comment: str, count: int) -> None:
    assert len(list(bare_marks(f"x = 1  {comment}\n"))) == count
