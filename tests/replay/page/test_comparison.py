"""The comparison of two sessions for a page: shared events, pairs, and what a fork saved."""

import io
import json
from itertools import takewhile
from typing import Any

from callboard.replay.exports.writing import Job, export
from callboard.replay.page.comparison import comparison, in_order, shared_events
from callboard.replay.page.packing import unpacked
from callboard.replay.reading import Source
from callboard.runtime.log.memory import MemoryReader
from tests.replay.page.forks import CHANGED, fork_log, origin_and_fork
from tests.replay.stories import edited_prompt


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
