"""The fixed values of `actors/supervisor`: a change of one is a change of what logs mean."""

from tests.actors.fixed import differences


def test_numbers_tables_and_defaults_are_those_that_logs_were_recorded_with() -> None:
    assert differences("supervisor") == [], "if that is meant: python -m tests.actors.fixed"
