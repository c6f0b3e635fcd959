"""L1 to L3: text that attacks a page in a browser. There is no page; these tests fail once there is one.

The only ways for a model's text into a browser today are exports and printed JSON that another program puts
into a page. So no module makes or serves HTML, and printed JSON stays JSON for hostile texts.
"""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from callboard.cli.output import emit_json

ROOT = Path(__file__).parent.parent.parent
SERVING = {"http.server", "webbrowser", "wsgiref", "socketserver", "starlette", "jinja2", "aiohttp"}
MARKUP = re.compile(r"<(?:html|script|body|div|svg|iframe|a href|img )|text/html", re.IGNORECASE)
HOSTILE = {
    "l1": "</script><script>alert(1)</script>",
    "l2": "[click](javascript:alert(1))",
    "l3": '<svg onload="alert(1)"><img src=x onerror=alert(1)>',
}


@cache
def sources() -> list[tuple[Path, ast.Module]]:
    return [
        (path, ast.parse(path.read_text()))
        for folder in ("actors", "runtime", "replay", "callboard")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(part.is_symlink() for part in path.parents)
    ]


def imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_l1_no_module_serves_a_page() -> None:
    for path, tree in sources():
        assert not imported(tree) & SERVING, f"{path}: a page needs tests of L1, L2, L3 and L13 of its own"


def test_l3_no_module_writes_markup() -> None:
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not MARKUP.search(node.value), f"{path}:{node.lineno}: markup needs tests of L1 to L3"


@pytest.mark.parametrize("case", HOSTILE)
def test_l2_a_hostile_text_is_the_same_value_in_printed_json(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    emit_json({"text": HOSTILE[case]})
    assert json.loads(capsys.readouterr().out) == {"text": HOSTILE[case]}
