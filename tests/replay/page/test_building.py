"""The page around the data: its policy, its parts, and nothing of the session in its markup."""

import asyncio
import base64
import io
import json
import re
from collections.abc import Callable
from hashlib import sha256
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import CorruptLog, MisuseError
from callboard.actors.protocol.events import Event
from callboard.replay.exports.writing import Job, export
from callboard.replay.page.building import (
    _ASSETS,
    FIRST_MODULES,
    MODULES,
    LivePage,
    comparison,
    in_order,
    script_text,
    shared_events,
)
from callboard.replay.page.packing import unpacked
from callboard.replay.reading import Source
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, Head
from tests.golden import golden
from tests.replay.exports.kit import events_of, log_of
from tests.replay.page.forks import CHANGED, fork_log, origin_and_fork
from tests.replay.page.kit import PageData, page_of
from tests.replay.stories import edited_prompt, ignored_report


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
    assert sorted({*MODULES, *FIRST_MODULES}) == sorted(path.name for path in _ASSETS.glob("*.js"))
    for modules in (MODULES, FIRST_MODULES):
        check_order(modules)


def check_order(modules: tuple[str, ...]) -> None:
    for place, name in enumerate(modules):
        text = (_ASSETS / name).read_text()
        for imported in re.findall(r'^import .* from "\./(.*)";$', text, re.MULTILINE):
            assert imported in modules[:place], f"{name} imports {imported}"
        begun = re.findall(r"^\s*import\b", text, re.MULTILINE)
        assert len(begun) == len(re.findall(r"^import .*;$", text, re.MULTILINE)), name
    assert not re.search(r"^(?:import|export) ", script_text(modules), re.MULTILINE)


@pytest.mark.parametrize(("modules", "count"), [(MODULES, 100), (FIRST_MODULES, 20)])
def test_no_name_is_declared_by_two_modules(modules: tuple[str, ...], count: int) -> None:
    declared = re.findall(
        r"^(?:async )?(?:const|let|function|class) (\w+)", script_text(modules), re.MULTILINE
    )
    assert len(declared) > count
    assert [name for name in set(declared) if declared.count(name) > 1] == []


def test_no_module_parses_text_as_markup_or_code() -> None:
    sinks = r"(?:inner|outer|Adjacent|set)HTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    for modules in (MODULES, FIRST_MODULES):
        assert not re.search(sinks, script_text(modules))


def test_a_page_shows_one_session() -> None:
    with pytest.raises(MisuseError, match="one session"):
        export("html", Job([], is_all=True), io.BytesIO())


Write = Callable[[int], None]


def written(events: list[Event], session_id: str) -> tuple[MemoryLog, Write]:
    """Return an empty log, and a function that writes the events up to a seq."""
    log = MemoryLog()
    head = 0

    async def start() -> int:
        await log.open()
        return await log.create(session_id, 1_700_000_000_000, "a title")

    epoch = asyncio.run(start())

    def write(upto: int) -> None:
        nonlocal head
        part = events[head:upto]
        if part:
            asyncio.run(log.append([Append(session_id, head, epoch, part)]))
        head += len(part)

    return log, write


def lines_of(page: bytes) -> list[bytes]:
    return unpacked(page.split(b'id="data">')[1].split(b"<")[0])


def bodies_in(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line.startswith(b"{")]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8))
def test_a_page_that_grew_has_the_lines_of_the_whole_page(steps: list[int]) -> None:
    recording = ignored_report()
    events = list(recording.events)
    log, write = written(events, "one")
    write(3)
    live = LivePage(MemoryReader(log), "one")
    lines, count = lines_of(b"".join(live.page()))[:-1], 3
    for step in [*steps, len(events), 0]:
        count = min(len(events), count + step)
        write(count)
        more = live.more(len(lines), len(bodies_in(lines)))
        lines += more.split(b"\n")[:-1] if more else []
        assert len(bodies_in(lines)) == count
    assert sorted(lines) == sorted(lines_of(page_of(recording))[:-1])
    assert bodies_in(lines) == [row.body for row in recording.rows]


def test_the_last_line_of_an_answer_has_the_columns_that_the_page_lacks() -> None:
    recording = ignored_report()
    events = list(recording.events)
    log, write = written(events, "one")
    write(10)
    live = LivePage(MemoryReader(log), "one")
    have = lines_of(b"".join(live.page()))
    write(len(events))
    *_, last = live.more(len(have) - 1, 10).split(b"\n")
    found, whole = json.loads(last[1:]), PageData(page_of(recording)).summary
    for name in ("times", "senders", "recipients", "causes"):
        assert found[name] == whole[name][10:]
    for name in ("agents", "spans", "findings", "names", "start"):
        assert found[name] == whole[name]
    assert found["is_followed"] is True


def test_nothing_new_is_an_empty_answer_and_a_closed_session_is_over() -> None:
    events = golden("everything")
    log, write = written(events, "golden")
    write(20)
    live = LivePage(MemoryReader(log), "golden")
    have = lines_of(b"".join(live.page()))
    assert live.more(len(have) - 1, 20) == b""
    write(len(events))
    live.more(len(have) - 1, 20)
    have = lines_of(b"".join(live.page()))
    assert json.loads(have[-1][1:])["is_over"] is True
    assert live.more(len(have) - 1, len(events)) == b""


@pytest.mark.parametrize("asked", [(10**6, 0), (0, 10**6), (-1, 0)])
def test_numbers_that_no_page_has_are_refused(asked: tuple[int, int]) -> None:
    log, write = written(list(ignored_report().events), "one")
    write(5)
    live = LivePage(MemoryReader(log), "one")
    with pytest.raises(ValueError, match="does not have"):
        live.more(*asked)


@given(st.integers(3, 15), st.integers(1, 9), st.booleans())
def test_an_event_that_does_not_continue_the_chain_never_gets_into_the_page(
    shown: int, later: int, is_cut: bool
) -> None:
    log, write = written(list(ignored_report().events), "one")
    write(shown)
    live = LivePage(MemoryReader(log), "one")
    have = lines_of(b"".join(live.page()))[:-1]
    write(shown + later)
    rows = log._sessions["one"].rows
    if is_cut:
        damage(log, rows[: shown - 1])
    else:
        at = len(rows) - 1
        damage(log, [*rows[:at], rows[at].replace(b"supervisor", b"supervisoR").replace(b"host", b"hosT")])
    for _ in range(2):
        with pytest.raises(CorruptLog):
            live.more(len(have), shown)
    with pytest.raises(CorruptLog):
        live.page().__next__()


def damage(log: MemoryLog, rows: list[bytes]) -> None:
    """Put other rows in the place of those of session one."""
    session = log._sessions["one"]
    session.rows = rows
    if len(rows) < session.head.seq:
        session.head = Head(len(rows), session.head.digest)


def test_a_session_that_grows_is_checked_from_where_the_page_is_and_not_from_its_start() -> None:
    events = list(ignored_report().events)
    log, write = written(events, "one")
    write(20)
    live = LivePage(MemoryReader(log), "one")
    log._sessions["one"].rows[:10] = [b""] * 10  # which no reader can read any more
    write(len(events))
    assert live.more(0, 0).count(b"\n") >= len(events)


def sources() -> tuple[Source, Source]:
    log, name = fork_log()
    reader = MemoryReader(log)
    return Source.upto(reader, "origin"), Source.upto(reader, name)


def as_json(found: dict[str, object]) -> Any:
    return json.loads(json.dumps(found))


def test_the_shared_events_are_those_with_the_same_digests() -> None:
    origin, fork = sources()
    rows = zip(*(recording.rows for recording in origin_and_fork()), strict=False)
    same = len(list(takewhile(lambda pair: pair[0].digest == pair[1].digest, rows)))
    assert shared_events(origin, fork) == shared_events(fork, origin) == same > 0
    assert shared_events(origin, origin) == origin.head.seq
    log, _ = fork_log()
    assert shared_events(Source.upto(MemoryReader(log), "origin", 5), fork) == 5


def test_an_origin_stands_left_of_its_fork() -> None:
    origin, fork = sources()
    assert in_order(origin, fork) == in_order(fork, origin) == (origin, fork)


def test_pairs_are_the_same_events_of_both_sessions() -> None:
    origin, fork = sources()
    found = comparison(origin, fork)
    mine, theirs = origin_and_fork()
    shared, seqs = found["shared"], [0, 0]
    assert isinstance(shared, int)
    count = 0
    for steps in as_json(found)["pairs"]:
        seqs = [seq + step for seq, step in zip(seqs, steps, strict=True)]
        left, right = mine.event(seqs[0]), theirs.event(seqs[1])
        assert (left.kind, left.sender, left.recipient) == (right.kind, right.sender, right.recipient)
        assert left.seq > shared < right.seq
        count += 1
    assert count >= 10


def test_the_first_difference_is_the_changed_result() -> None:
    origin, fork = sources()
    found = as_json(comparison(origin, fork))
    kind, agent, left, right, path, before, after = found["differences"][0]
    assert (kind, agent, path) == ("ToolReturned", f"host.{CHANGED}", "body.output")
    assert (before, after) == ("30 degrees", "999 degrees")
    mine, theirs = origin_and_fork()
    assert (mine.event(left).kind, theirs.event(right).kind) == ("ToolReturned", "ToolReturned")
    assert found["differing"][0] == [left, right]
    assert [one[0] for one in found["totals"]] == ["answered", "answered"]


def test_what_a_fork_saved_and_paid_is_all_that_it_used() -> None:
    origin, fork = sources()
    saved = as_json(comparison(origin, fork))["saved"]
    _, theirs = origin_and_fork()
    replies = [event.body for event in theirs.events if event.kind == "ModelReplied"]
    tokens = sum(getattr(one, "usage").tokens for one in replies)  # noqa: B009  # of any message
    parts = [saved["shared"], saved["reused"], saved["made"]]
    assert [sum(one[place] for one in parts) for place in (0, 1)] == [len(replies), tokens]
    assert saved["made"][0] == 2  # the changed child's report, and the host's answer
    assert saved["tools"] == 0
    assert saved["reused_tools"] >= 1


def test_two_runs_share_nothing_and_saved_nothing() -> None:
    one, other = (edited_prompt(words)._source for words in ("Find it.", "look it up."))
    found = as_json(comparison(one, other))
    assert (found["shared"], found["saved"]) == (0, None)
    assert found["profiles"]
    assert found["count"] == len(found["differing"]) > 0


def test_the_page_has_the_bodies_of_shared_events_once() -> None:
    origin, fork = sources()
    out = io.BytesIO()
    export("html", Job([fork, origin]), out)
    page = out.getvalue()
    parts = page.split(b'type="application/octet-stream"')[1:]
    blocks = [part.split(b">", 1)[1].split(b"<")[0] for part in parts]
    left, right = map(unpacked, blocks)
    shared = shared_events(origin, fork)
    assert right[0] == b"<%d" % shared
    bodies = [sum(line.startswith(b"{") for line in lines) for lines in (left, right)]
    assert bodies == [origin.head.seq, fork.head.seq - shared]
    summary = json.loads(right[-1][1:])
    assert summary["is_right"] is True
    assert summary["beside"]["shared"] == shared
