import base64
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.replay.testing.schedule import BadSchedule, Schedule, fingerprint, parse

CHAINS = st.lists(st.text(max_size=12), max_size=60).map(tuple)


@pytest.mark.slow
@given(CHAINS, st.none() | st.integers(0, 1_000), st.integers(1, 5_000), st.text(max_size=20))
def test_every_schedule_comes_back_from_its_text(
    strands: tuple[str, ...], healed_at: int | None, steps: int, scenario: str
) -> None:
    schedule = Schedule(strands, healed_at, steps)
    assert parse(schedule.text(scenario), scenario) == schedule


def test_its_text_is_one_word_that_no_shell_changes_and_short() -> None:
    strands = tuple(f"inbox host.{number % 5}" for number in range(200))
    text = Schedule(strands).text("demo")
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
    assert len(text) < 150


def test_a_schedule_of_another_scenario_is_refused() -> None:
    text = Schedule(("a",)).text("one")
    with pytest.raises(BadSchedule, match=f"of scenario {fingerprint('one')}, but this one is .* \\(two\\)"):
        parse(text, "two")


def test_a_schedule_of_another_version_is_refused() -> None:
    with pytest.raises(BadSchedule, match="starts with '1' and a dot, and this one starts with '2'"):
        parse("2." + Schedule(("a",)).text()[2:])


def packed(body: object) -> str:
    raw = zlib.compress(msgspec.msgpack.encode(body))
    return f"1.{fingerprint('')}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        f"1.{fingerprint('')}.",
        f"1.{fingerprint('')}.!!!",
        Schedule(("a", "b")).text()[:-4],
        packed([["a"], [0, 1], None, 200]),
        packed([["a"], [-1], None, 200]),
        packed([["a"], "0", None, 200]),
    ],
)
def test_a_value_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(BadSchedule, match="copy the whole line"):
        parse(text)


@pytest.mark.slow
def test_a_value_that_unpacks_to_more_than_any_schedule_is_refused() -> None:
    text = packed(b"\0" * 60_000_000)  # here, because each process of the suite collects all tests
    with pytest.raises(BadSchedule, match="copy the whole line"):
        parse(text)


@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    for candidate in (text, f"1.{fingerprint('')}.{text}"):
        try:
            parse(candidate)
        except BadSchedule:
            continue


def test_a_schedule_of_format_1_stays_readable() -> None:
    golden = "1.dd56de41.eNqbMnlJsYFd8prMvKT8CoWM_OISPcPVaYmlOSUKyUWJxRlTGBgZmJg1AD-JDdM"
    schedule = Schedule(("s0>c", "inbox host.1", "s0>c", "fault crash"), 3, 40)
    assert parse(golden, "golden") == schedule
    assert parse(schedule.text("golden"), "golden") == schedule
