import io
import os
import signal

import pytest

from callboard.cli import progress
from callboard.cli.progress import Progress, reporting
from callboard.replay.testing.statistics import CampaignProgress, Statistics

GLANCE = CampaignProgress(runs=1_204, orders=611, situations=84, faults=312, kinds=14)


class Screen(io.StringIO):
    """A terminal of 80 columns, and a file to write past it."""

    def __init__(self, number: int = -1) -> None:
        super().__init__()
        self._number = number

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._number < 0:
            raise io.UnsupportedOperation("fileno")
        return self._number


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show the progress each time."""
    monkeypatch.setattr(progress, "_DRAWN_EVERY_S", -1.0)
    monkeypatch.setattr(progress, "_PRINTED_EVERY_S", -1.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def test_a_glance_is_one_line_with_what_matters_most_first() -> None:
    told = Progress(io.StringIO(), 10_000).line(GLANCE, 2.0)
    assert told == "1,204 of 10,000 runs, 602/s, 2.0s, 611 orders, 84 situations, 312 faults of 14 kinds"
    assert Progress(io.StringIO()).line(CampaignProgress(), 0.0) == "0 runs, 0ms, 0 orders, 0 situations"


@pytest.mark.usefixtures("_often")
def test_on_a_terminal_the_line_is_drawn_over_itself_cut_and_wiped_away() -> None:
    screen = Screen()
    shows = Progress(screen, 10_000)
    assert shows.begins(GLANCE)
    assert shows.begins(GLANCE)
    first, second = screen.getvalue().split("\x1b[K")[:2]
    assert first.startswith("\r1,204 of 10,000 runs, ")
    assert (len(first), second[:7]) == (80, "\r1,204 ")
    shows.clear()
    shows.clear()
    assert screen.getvalue().endswith("\r\x1b[K")
    assert screen.getvalue().count("\x1b[K") == 3


@pytest.mark.usefixtures("_often")
def test_elsewhere_it_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    shows = Progress(io.StringIO())
    seen = Statistics()
    seen.runs = 7
    assert shows.begins(seen)
    assert capsys.readouterr().err.startswith("7 runs, ")


def test_no_progress_is_shown_of_a_campaign_that_is_over_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert Progress(io.StringIO()).begins(Statistics())
    assert capsys.readouterr().err == ""


def test_ctrl_c_once_stops_the_campaign_and_twice_leaves() -> None:
    ours, theirs = os.pipe()
    before = signal.getsignal(signal.SIGINT)
    with os.fdopen(theirs, "wb"), reporting(Progress(Screen(theirs))) as shows:
        signal.raise_signal(signal.SIGINT)
        assert (shows.is_stopped, shows.begins(Statistics()), shows.begins(GLANCE)) == (True, False, False)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before
    with os.fdopen(ours, "rb") as told:
        assert told.read().startswith(b"stopping after the current run")


def test_it_also_stops_where_nothing_can_be_printed() -> None:
    with reporting(Progress(Screen())) as shows:
        signal.raise_signal(signal.SIGINT)
        assert shows.is_stopped


def test_what_runs_print_is_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(Progress(io.StringIO())):
        print("from a policy")
    assert capsys.readouterr() == ("", "from a policy\n")
