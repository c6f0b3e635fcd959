import asyncio
import io
import threading
from pathlib import Path

import pytest

from callboard.actors.protocol.events import Event
from callboard.cli.live import LiveTree, StdoutCapture, diverted, watching
from callboard.runtime.runtime import Runtime
from tests.cli.recorded import rows_of, script, survey_host


@pytest.fixture(scope="module")
def events(recorded: Path) -> list[Event]:
    return rows_of(recorded, "20250101-survey")


def test_plain_lines_tell_of_each_start_end_and_denial_once(events: list[Event]) -> None:
    out = io.StringIO()
    with LiveTree(out, title="a survey") as view:
        for event in events:
            view.add(event)
    lines = [line.partition("] ")[2] or line for line in out.getvalue().splitlines()]
    assert lines[0] == "a survey"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["start", "host:"],
        ["start", "host.1"],
        ["denied", "host.2"],
        ["end", "host.1"],
        ["end", "host:"],
    ]


def test_a_picture_is_drawn_over_itself_and_its_last_stays(events: list[Event]) -> None:
    out = io.StringIO()
    with LiveTree(out, is_live=True) as view:
        for event in events:
            view.add(event)
            view.refresh()
    first, _, last = out.getvalue().rpartition("\x1b[1A")
    assert "3 agents" in last
    assert "2 agents" in first
    assert first.count("\x1b[1A") > 20


def test_text_printed_meanwhile_goes_above_the_picture(events: list[Event]) -> None:
    out = io.StringIO()
    with LiveTree(out, is_live=True) as view, diverted(view):
        for event in events[:12]:
            view.add(event)
        view.refresh()
        print("a tool says \x1b[2J something")
        view.refresh()
    shown = out.getvalue()
    assert "  | a tool says ␛[2J something" in shown
    assert shown.index("a tool says") < shown.rindex("host.1")


def test_tools_on_threads_may_print_while_the_picture_changes(events: list[Event]) -> None:
    out = io.StringIO()
    with LiveTree(out, is_live=True) as view:
        threads = [
            threading.Thread(target=lambda: [print("x" * 50, file=view.capture) for _ in range(20)])
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for event in events:
            view.add(event)
            view.refresh()
        for thread in threads:
            thread.join()
    assert out.getvalue().count("x" * 50) == 60


def test_a_picture_that_cannot_be_drawn_ends_nothing(
    events: list[Event], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("callboard.cli.live.tree_lines", lambda *_: 1 / 0)
    out = io.StringIO()
    with LiveTree(out, is_live=True) as view:
        view.add(events[0])
        view.refresh()
        view.refresh()
    assert capsys.readouterr().err.count("the tree cannot be drawn (ZeroDivisionError") == 1


def test_a_tools_progress_is_its_agents_state_until_the_next_event(events: list[Event]) -> None:
    with LiveTree(io.StringIO()) as view:
        for event in events[:14]:
            view.add(event)
        view.progress("host.1", "page 3\r\nof 9")
        assert view.tree.nodes["host.1"].state == "page 3 of 9"
        view.progress("host.9", "nobody")
        view.add(events[16])
        assert view.tree.nodes["host.1"].state == "waiting for a turn"


def test_a_session_is_watched_until_its_ask_has_ended() -> None:
    out = io.StringIO()

    async def main() -> None:
        async with Runtime(":memory:", model=script()) as runtime:
            session = await runtime.open(survey_host())
            async with watching(session, out, title="live") as view:
                await session.ask("How many files?")
            assert view.tree.nodes["host"].is_over
            await session.close()

    asyncio.run(main())
    assert "live" in out.getvalue()
    assert "end    host: answered" in out.getvalue()


def test_an_aside_hands_on_whole_lines() -> None:
    said: list[str] = []
    capture = StdoutCapture(said.append)
    print("one\ntwo", end="", file=capture)
    assert said == ["one"]
    capture.flush()
    assert said == ["one", "two"]
    capture.write("x" * 10_001)
    assert len(said[-1]) == 10_001
    assert capture.writable()
    assert (capture.encoding, capture.errors) == ("utf-8", "strict")
