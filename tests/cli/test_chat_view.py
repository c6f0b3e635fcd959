import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import ModelReplied
from callboard.cli.chat_view import Transcript, text_length


def reply(text: str) -> ModelReplied:
    return ModelReplied(1, 1, "ok", Json(msgspec.json.encode([{"type": "text", "text": text}])))


def test_text_is_given_once_as_it_comes() -> None:
    transcript = Transcript()
    transcript.add("one ")
    transcript.add("two")
    assert transcript.take() == "one two"
    transcript.add(" three")
    assert transcript.take() == " three"
    assert transcript.take() == ""


def test_each_reply_ends_its_line() -> None:
    transcript = Transcript()
    transcript.add("Let me see.")
    transcript.end_reply(reply("Let me see."))
    transcript.add("Done.")
    transcript.end_reply(reply("Done."))
    assert transcript.take() == "Let me see.\nDone.\n"


def test_the_break_is_in_the_right_place_when_the_event_comes_late() -> None:
    transcript = Transcript()
    transcript.add("Let me see.")
    transcript.add("Done.")
    transcript.end_reply(reply("Let me see."))
    assert transcript.take() == "Let me see.\nDone."


def test_a_reply_that_ends_with_a_line_break_gets_no_second() -> None:
    transcript = Transcript()
    transcript.add("Done.\n")
    transcript.end_reply(reply("Done.\n"))
    assert transcript.take() == "Done.\n"


def test_a_reply_that_failed_ends_where_it_broke_off() -> None:
    transcript = Transcript()
    transcript.add("Half an ans")
    transcript.end_reply(ModelReplied(1, 1, "error"))
    transcript.add("A whole answer.")
    assert transcript.take() == "Half an ans\nA whole answer."


def test_a_reply_without_text_breaks_nothing() -> None:
    transcript = Transcript()
    transcript.end_reply(reply(""))
    transcript.add("Text.")
    assert transcript.take() == "Text."


def test_text_can_be_held_back_from_a_position_on() -> None:
    transcript = Transcript()
    transcript.add("Let me see.")
    transcript.end_reply(reply("Let me see."))
    transcript.add("Done.")
    assert transcript.take(transcript.ended) == "Let me see.\n"
    assert transcript.take() == "Done."


def test_the_length_of_unreadable_content_is_not_known() -> None:
    assert text_length(Json(b"3")) is None
    assert text_length(Json(b'[{"type":"text","text":7},{"type":"text","text":"ab"}]')) == 2
