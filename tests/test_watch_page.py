"""docs/watch.md has the loggers and metrics that there are."""

import re

from callboard.runtime.log.telemetry.attributes import CONTENT_CHARS_MAX
from callboard.runtime.log.telemetry.formats import CONTENT_TYPE, SERIES_MAX
from callboard.runtime.log.telemetry.metrics import INSTRUMENTS
from callboard.runtime.log.telemetry.records import LOGGERS, OWN_LOGGERS
from callboard.runtime.log.telemetry.spans import CONVENTIONS
from callboard.runtime.telemetry.pipe import ITEMS_MAX
from tests.pages import ROOT

PAGE = (ROOT / "docs" / "watch.md").read_text()


def test_the_table_of_loggers_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(callboard\.[a-z]+)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [*LOGGERS.items(), *OWN_LOGGERS.items()]


def test_every_logger_of_the_code_is_in_the_table() -> None:
    named = re.compile(r'getLogger\("(callboard[.\w]*)"\)')
    files = [path for folder in ("runtime", "callboard", "replay") for path in (ROOT / folder).rglob("*.py")]
    found = {name for path in files for name in named.findall(path.read_text())}
    assert found - {"callboard"} == set(OWN_LOGGERS)


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (
            one.prometheus,
            one.kind,
            ", ".join(f"`{label.replace('.', '_')}`" for label in one.labels) or "none",
            one.about,
        )
        for one in INSTRUMENTS
    ]


def test_the_figures_of_the_page_are_those_of_the_code() -> None:
    version = CONTENT_TYPE.partition("; charset")[0]
    for figure in (
        f"{ITEMS_MAX:,} items",
        f"{CONTENT_CHARS_MAX:,} characters",
        f"{SERIES_MAX:,} sets",
        version,
    ):
        assert figure in PAGE
    assert f"version {CONVENTIONS}," in PAGE
