"""The list of all sessions: a row for each, and findings that are counted once for every head."""

import json
import re
from itertools import count

import pytest

from callboard.replay.diagnosis.diagnose import diagnose
from callboard.replay.page import sessions
from callboard.replay.page.building import booted
from callboard.replay.page.sessions import COLUMNS, KnownFindings, rows_json, sessions_page
from callboard.runtime.log.memory import MemoryReader
from tests.replay.page.forks import fork_log
from tests.replay.page.kit import page_of
from tests.replay.stories import ignored_report


def test_a_row_has_the_figures_of_its_session() -> None:
    log, name = fork_log()
    found = json.loads(rows_json(MemoryReader(log)))
    assert tuple(found["columns"]) == COLUMNS
    fork, origin = (dict(zip(COLUMNS, row, strict=True)) for row in found["rows"])
    assert (fork["session"], fork["parent"], fork["base"] > 1) == (name, "origin", True)
    assert (origin["status"], origin["kind"], origin["outcome"]) == ("closed", "answered", "ok")
    assert origin["tokens"] == 340 * 10
    assert origin["micro_usd"] > fork["micro_usd"] > 0
    assert len(json.loads(rows_json(MemoryReader(log), 1))["rows"]) == 1


def test_findings_are_counted_once_for_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    source, calls = ignored_report()._source, count()
    monkeypatch.setattr(sessions, "diagnose", lambda *given: (next(calls) and None) or diagnose(*given))
    known = KnownFindings(source.reader)
    facts, maybe, first = known.of([source.session_id])[source.session_id]
    assert (facts, maybe, bool(first)) == (0, 1, True) or facts == 1
    assert known.of([source.session_id]) == {source.session_id: [facts, maybe, first]}
    assert next(calls) == 1
    monkeypatch.setattr(sessions, "EVENTS_DIAGNOSED_MAX", 1)
    assert KnownFindings(source.reader).of([source.session_id]) == {source.session_id: []}


def test_the_words_of_a_server_cannot_end_their_element() -> None:
    page = sessions_page(booted({"logs": ["</script><script>alert(1)</script>"]}))
    assert page.count(b"</script>") == 2
    assert b"alert(1)" not in page
    assert b"@BOOT@" not in page
    assert not re.search(b'id="boot"|@BOOT@', page_of(ignored_report()))  # an export has no server
