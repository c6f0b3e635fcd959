import ast
import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import msgspec
import pytest

from callboard.actors.protocol.client_messages import Ask, Resumed
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Delegate, ReportJudged, TurnRequested
from callboard.actors.protocol.port_messages import (
    CallTool,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import ModelFailure, SchemaProblem
from callboard.cli.event_lines import summary_of
from callboard.cli.terminal_escape import safe_line
from callboard.replay.descriptions import CHARS_MAX, DESCRIPTIONS, title_of, words_of
from callboard.replay.exports.transcript import transcript
from callboard.replay.formats import whole_prompt
from callboard.replay.recording import Recording
from callboard.replay.steps import is_failure
from callboard.runtime.log.memory import MemoryReader
from tests.replay.logs import survey
from tests.replay.page.kit import PageData, page_of
from tests.tables import table

ROOT = Path(__file__).parents[2]


def raw(value: object) -> Json:
    return Json(msgspec.json.encode(value))


def example(kind: type) -> object:
    """Make a value of this type with its required fields only."""
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if get_origin(kind) is tuple:
        return ()
    if issubclass(kind, msgspec.Struct):
        needed = [one for one in msgspec.structs.fields(kind) if one.required]
        return kind(**{one.name: example(one.type) for one in needed})
    return raw({"name": "x"}) if kind is msgspec.Raw else kind()


def test_every_kind_of_event_has_one_description() -> None:
    assert set(DESCRIPTIONS) == set(get_args(AnyMessage))
    for kind, one in DESCRIPTIONS.items():
        fields = {field.name for field in msgspec.structs.fields(kind)}
        assert one.title.strip(), kind
        assert fields.issuperset(one.links), kind


def test_the_page_the_terminal_and_the_transcript_say_an_event_in_the_same_words() -> None:
    recording = Recording.open(MemoryReader(survey()))
    page, events = PageData(page_of(recording)), [*recording.events]
    assert len(page.words) == len(events) + 1
    for event in events:
        said = " ".join(words_of(event.body).split())
        assert said.startswith(page.words[event.seq][1:].removesuffix("…"))
        assert summary_of(event.body) == safe_line(said, CHARS_MAX)
        assert page.words[event.seq][0] == ("!" if is_failure(event) else ">")
        assert page.summary["kinds"][event.kind][0] == DESCRIPTIONS[type(event.body)].topic
    shown = "".join(transcript("s", events))
    for event in events:
        if isinstance(event.body, Ask | ToolReturned):
            assert re.search(rf"{title_of(event.body)}( of \S+)? \(event {event.seq}\)", shown)


def _kinds() -> set[str]:
    return {kind.__name__ for kind in get_args(AnyMessage)}


@pytest.mark.parametrize("folder", ["replay", "callboard/cli", "runtime/log"])
def test_no_view_has_words_of_its_own_for_kinds_of_events(folder: str) -> None:
    """Find tables from kinds to functions that make a text: there is one, that of the descriptions."""
    found = []
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                names = {ast.unparse(key).rpartition(".")[2] for key in node.keys if key is not None}
                makes = [
                    value
                    for value in node.values
                    if isinstance(value, ast.Lambda) and isinstance(value.body, ast.JoinedStr)
                ]
                if len(names & _kinds()) > 2 and makes:
                    found.append(str(path.relative_to(ROOT)))
    assert found == []
    for path in (ROOT / folder).rglob("*.js"):
        assert not re.findall(rf"\b(?:{'|'.join(_kinds())}): \(", path.read_text()), path


@table("kind", get_args(AnyMessage), ids=lambda kind: str(kind.__name__))
def test_every_kind_of_message_has_words_that_fit_on_a_line(kind: type[AnyMessage]) -> None:
    message = example(kind)
    assert isinstance(message, kind)
    assert len(summary_of(message).splitlines()) <= 1


def test_a_prompt_is_told_and_whether_there_is_a_schema() -> None:
    assert summary_of(Ask("1", raw("How\nmany?"))) == "How many?"
    assert summary_of(Delegate(1, 0, ("a", "b"), raw("Go."), raw({}))) == "to a, b: Go. (with a schema)"


def test_a_reply_is_told_with_its_text_and_its_calls() -> None:
    blocks = [
        {"type": "text", "text": "Hm."},
        {"type": "tool_use", "id": "1", "name": "look", "input": {"at": 1}},
    ]
    reply = ModelReplied(1, 1, "ok", raw(blocks), usage=Usage(input_tokens=3))
    assert summary_of(reply) == 'Hm. | look {"at":1}'


def test_a_failure_is_told_with_its_code() -> None:
    reply = ModelReplied(1, 1, "error", failure=ModelFailure("overloaded_error", "later"))
    assert summary_of(reply) == "error: overloaded_error: later; usage not known"
    cut = ModelReplied(1, 1, "detached", usage=Usage())
    assert summary_of(cut) == "detached: the process ended before the answer"


def test_a_verdict_is_told_with_its_problems() -> None:
    judged = ReportJudged(1, 0, "invalid", (SchemaProblem("/count", "must be an integer"),))
    assert summary_of(judged) == "invalid; /count: must be an integer"


def test_a_turn_is_told_with_its_need_and_its_wait() -> None:
    assert summary_of(TurnRequested(2, 3, Need(12_345), "", after_ms=1_500)) == (
        "turn 2, attempt 3, needs at most 12.3k tokens, after 1.5s"
    )


def test_foreign_text_is_safe_and_cut() -> None:
    said = summary_of(CallTool(1, 0, "look", "read", raw({"path": "\u202e" + "x" * 500})))
    assert "\u202e" not in said
    assert said.endswith("…")


def test_a_prompt_of_blocks_is_its_texts() -> None:
    assert whole_prompt(raw([{"type": "text", "text": "one"}, {"type": "image"}])) == "one\n[image]"
    assert whole_prompt(raw(None)) == ""


def test_a_resume_is_told_with_when_its_agents_hold() -> None:
    assert summary_of(Resumed(1, "host", (raw({}),))) == "with 1 agent profile of now"
    assert summary_of(Resumed(2, extend_ms=5_000, left_out_ms=5_000)) == (
        "deadlines 5.0s later, 5.0s left out for programs"
    )
    later = Resumed(1, "host", (raw({}),), from_next_ask=True)
    assert summary_of(later) == "with 1 agent profile of now from the next ask on"


def test_a_result_that_is_given_again_names_its_origin() -> None:
    assert summary_of(ToolReturned(1, 0, output=raw("seen"), cached_from="s-1#7")) == "as s-1#7: seen"


def test_the_start_of_a_call_says_whether_it_waits_for_a_recorded_answer() -> None:
    starts = (ToolStarted(1, 2), ToolStarted(1, 2, reused=7))
    assert [summary_of(one) for one in starts] == [
        "turn 1, call 2",
        "turn 1, call 2, waits for recorded event 7",
    ]
