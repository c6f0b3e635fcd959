"""Every ending has one status and one explanation."""

import typing

from callboard.actors.protocol.endings import EXPLAINED, STATUS, OutcomeKind, Status


def test_the_tables_cover_every_kind_and_nothing_else() -> None:
    kinds = set(typing.get_args(OutcomeKind))
    assert set(STATUS) == kinds
    assert set(EXPLAINED) == kinds
    assert set(STATUS.values()) == set(typing.get_args(Status))


def test_only_reports_and_answers_are_ok_and_only_cancels_and_lost_races_are_no_failure() -> None:
    assert {kind for kind, status in STATUS.items() if status == "ok"} == {"reported", "answered"}
    assert {kind for kind, status in STATUS.items() if status == "cancelled"} == {"cancelled", "lost_race"}


def test_explanations_complete_the_sentence_the_delegation_failed() -> None:
    assert all(text and text[0].islower() and not text.endswith(".") for text in EXPLAINED.values())
