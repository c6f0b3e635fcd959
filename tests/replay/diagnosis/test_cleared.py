"""Calls that were made again since a compaction had taken their results out of the conversation."""

from collections.abc import Iterable

from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.cleared import ClearedAgain
from callboard.replay.diagnosis.finding import Returned, ToolCall


def says(*steps: str | AnyMessage, effect: str = "read") -> list[str]:
    """Diagnose one agent that reads pages, each in a reply of its own, and compactions between."""
    check = ClearedAgain()
    for seq, step in enumerate(steps, 1):
        if isinstance(step, str):
            check.take(Event(seq, 0, "model", "host", 0, ModelReplied(seq)))
            call = ToolCall(seq, "host", "page", effect, step.encode())  # type: ignore[arg-type]  # an effect
            check.returned(call, Returned(seq, "ok", 0, b'""'))
        else:
            check.take(Event(seq, 0, "host", "host", 0, step))
    return [one.says for one in check.findings()]


def pages(*numbers: int) -> Iterable[str]:
    return [f'{{"number":{number}}}' for number in numbers]


def test_a_call_that_is_repeated_after_its_result_was_cleared_is_named() -> None:
    found = says(*pages(1, 2, 3, 4), Compacted(5, 3, "clear", results=2), *pages(1, 2, 1))
    assert found == [
        "host called page again 2 times with the same arguments, after a compaction had taken the result out "
        "of its conversation"
    ]


def test_results_that_stayed_and_calls_with_an_effect_are_not_named() -> None:
    assert says(*pages(1, 2, 3, 4), Compacted(5, 3, "clear", results=2), *pages(3, 4)) == []
    assert says(*pages(1, 1)) == []
    assert says(*pages(1, 2, 3, 4), Compacted(5, 3, "clear", results=2), *pages(1), effect="write") == []


def test_a_summary_takes_results_away_too() -> None:
    summary = ModelReplied(4), Compacted(3, 3, "summary", summary=4)
    assert len(says(*pages(1, 2, 3), *summary, *pages(1))) == 1


def test_a_program_that_repeats_a_call_without_a_compaction_is_not_named() -> None:
    check = ClearedAgain()
    for seq in (1, 2):  # a program calls tools without a reply of a model
        check.returned(ToolCall(seq, "host", "page", "read", b"{}"), Returned(seq, "ok", 0, b'""'))
    assert list(check.findings()) == []
