from callboard.replay.recording import Recording
from callboard.replay.reports import sibling_reports
from callboard.runtime.log.memory import MemoryReader
from tests.replay.logs import survey
from tests.replay.stories import CLERKS, poisoned_sum


def test_siblings_stand_together_with_a_column_for_each_field() -> None:
    (siblings,) = sibling_reports(poisoned_sum().events)
    assert (siblings.parent, siblings.profile) == ("host", "clerk")
    assert siblings.columns == ["refund_cents", "order"]
    assert len(siblings.reports) == CLERKS


def test_an_answer_in_words_is_one_column_and_a_denial_says_why() -> None:
    found = sibling_reports(Recording.open(MemoryReader(survey()), "one").events)
    by_profile = {siblings.profile: siblings.reports[0] for siblings in found}
    assert by_profile["counter"].values == {"": "3 files"}
    assert "nobody" in str(by_profile["nobody"].values[""])
