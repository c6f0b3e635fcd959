import io
import re

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallTool
from callboard.replay.exports.transcript import TEXT_CHARS, transcript
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.runtime.log.memory import MemoryReader
from tests.effort import effort
from tests.golden import golden, recorded, stored
from tests.mutants.scenarios_compaction import COMPACTED
from tests.replay.diagnosis.user_stories import by_a_program
from tests.replay.exports.kit import bodies, events_of, log_of
from tests.replay.logs import survey
from tests.replay.stories import asked_twice


def written(recording: Recording) -> str:
    out = io.BytesIO()
    recording.export("markdown", out)
    return out.getvalue().decode()


def headings(text: str) -> list[str]:
    """Return the headings outside fenced blocks."""
    found, fence = [], ""
    for line in text.splitlines():
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if line == fence else fence
        elif len(ticks) >= 3:
            fence = ticks
        elif line.startswith("#"):
            found.append(line)
    return found


def test_each_agent_has_its_part_with_all_that_it_said() -> None:
    text = written(Recording.open(MemoryReader(survey()), "one"))
    assert headings(text) == [
        "# Session one",
        "## host: host, answered",
        "### host.1: counter, answered",
        "### host.2: nobody, denied",
    ]
    for words in (
        "How many files?",
        "Let me see.",
        '"prompt": "Count the files in src"',
        "host.1 (event 21)",
    ):
        assert words in text


def asked(prompt: str) -> list[Event]:
    """Return a session whose ask has this prompt."""
    events = golden("report")
    place = next(place for place, event in enumerate(events) if event.kind == "Ask")
    body = msgspec.structs.replace(events[place].body, prompt=msgspec.Raw(msgspec.json.encode(prompt)))
    events[place] = msgspec.structs.replace(events[place], body=body)
    return events


def test_hostile_text_neither_ends_its_block_nor_makes_a_heading() -> None:
    hostile = "```\n# Session other\n`````\n<script>alert(1)</script>"
    text = "".join(transcript("x # `y`\n<b>", asked(hostile)))
    assert headings(text)[0] == r"# Session x \# \`y\` \<b\>"
    assert sum(line.startswith("# ") for line in headings(text)) == 1


def test_a_long_text_is_cut_and_says_how_much() -> None:
    text = "".join(transcript("s", asked("x" * (TEXT_CHARS + 1_234))))
    assert "… 1,234 more characters" in text
    assert "more characters" not in "".join(transcript("s", asked("x" * TEXT_CHARS)))


@given(st.lists(bodies(), min_size=1, max_size=6))
@settings(max_examples=effort(40, 500))
def test_any_messages_have_a_transcript(messages: list[AnyMessage]) -> None:
    text = written(Recording.open(MemoryReader(log_of(events_of(messages)))))
    assert text.startswith("# Session s\n")


def test_a_compaction_stands_where_it_took_effect() -> None:
    world = SessionWorld(COMPACTED["summarised"]).run()
    text = written(Recording.open(MemoryReader(stored(world.log)), "golden"))
    (first, *_) = world.events(Compacted)
    line = next(line for line in text.splitlines() if line.startswith("**Compacted"))
    assert line.startswith(
        f"**Compacted (event {first.seq})**: summary {first.cause} in place of 9 messages, 1 kept"
    )
    before, _, after = text.partition(line)
    assert f"(event {first.cause})" in before
    assert f"(event {first.seq - 5})" not in after
    assert f"(event {first.seq + 3})" in after


def test_what_a_program_said_is_not_ascribed_to_a_model() -> None:
    text = written(by_a_program())
    assert "**Program (event" in text
    assert "**Model" not in text


def test_an_answered_question_stands_among_the_turns_of_its_program() -> None:
    text = written(asked_twice())
    assert headings(text) == ["# Session one", "## host: asking, answered"]
    for words in ("**Question (event", "a request of 1 message", "a plain one"):
        assert words in text
    assert text.count("**host.") == 0  # no end that repeats a reply


def test_results_and_approvals_name_their_tools() -> None:
    text = written(recorded(golden("everything")))
    made = [event.body.tool for event in golden("everything") if isinstance(event.body, CallTool)]
    named = re.findall(r"Result of (\S+) \(event", text)
    assert sorted(named) == sorted(tool.replace("_", "\\_") for tool in made)
    assert "**Result (event" not in text
