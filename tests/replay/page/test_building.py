"""The page around the data: its policy, its parts, and nothing of the session in its markup."""

import base64
import io
import re
from hashlib import sha256

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import MisuseError
from callboard.replay.exports.writing import Job, export
from callboard.replay.page.building import _ASSETS, MODULES, script_text
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from tests.replay.exports.kit import events_of, log_of
from tests.replay.page.kit import page_of
from tests.replay.stories import ignored_report


def test_the_policy_allows_exactly_the_script_and_the_style_of_the_page() -> None:
    page = page_of(ignored_report()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    for tag, directive in (('script type="module"', "script-src"), ("style", "style-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)
        digest = base64.b64encode(sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy[1]
    assert "unsafe" not in policy[1]


def test_nothing_in_the_page_points_outside() -> None:
    page = page_of(ignored_report()).decode()
    markup = re.sub(r'id="data">[^<]*<', "", page)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(|src=", markup)


def test_the_markup_is_the_same_for_every_session() -> None:
    hostile = "</script><script>alert(1)</script>"
    recording = Recording.open(MemoryReader(log_of(events_of([Cancel(hostile)]), session_id=f"s{hostile}")))
    frames = [re.sub(rb'id="data">[^<]*<', b"", page_of(one)) for one in (recording, ignored_report())]
    assert frames[0] == frames[1]


def test_every_module_is_in_the_page_behind_those_that_it_imports() -> None:
    assert sorted(MODULES) == sorted(path.name for path in _ASSETS.glob("*.js"))
    for place, name in enumerate(MODULES):
        text = (_ASSETS / name).read_text()
        for imported in re.findall(r'^import .* from "\./(.*)";$', text, re.MULTILINE):
            assert imported in MODULES[:place], f"{name} imports {imported}"
        begun = re.findall(r"^\s*import\b", text, re.MULTILINE)
        assert len(begun) == len(re.findall(r"^import .*;$", text, re.MULTILINE)), name
    assert not re.search(r"^(?:import|export) ", script_text(), re.MULTILINE)


def test_no_name_is_declared_by_two_modules() -> None:
    declared = re.findall(r"^(?:async )?(?:const|let|function|class) (\w+)", script_text(), re.MULTILINE)
    assert len(declared) > 100
    assert [name for name in set(declared) if declared.count(name) > 1] == []


def test_no_module_parses_text_as_markup_or_code() -> None:
    sinks = r"(?:inner|outer|Adjacent|set)HTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    assert not re.search(sinks, script_text())


def test_a_page_shows_one_session() -> None:
    with pytest.raises(MisuseError, match="one session"):
        export("html", Job([], is_all=True), io.BytesIO())
