"""The fixed values of `actors/protocol`: a change of one is a change of what logs mean."""

from tests.actors.fixed import differences


def test_numbers_tables_defaults_and_texts_are_those_that_logs_were_recorded_with() -> None:
    assert differences("protocol") == [], "if that is meant: python -m tests.actors.fixed"
