from callboard.replay.testing.input_rules.breaking import first_broken, need


def test_a_check_stops_at_the_first_rule_that_is_broken() -> None:
    def check() -> None:
        need(True, "kept")
        need(False, "first")
        need(False, "second")

    assert first_broken(check) == "first"


def test_a_check_that_ends_has_broken_nothing() -> None:
    assert first_broken(lambda: need(True, "kept")) == ""
