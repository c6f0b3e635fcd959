"""The quick look never passes over a key, and nothing is found or missed because of it."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.refs import KEY_PATTERNS, RUN_CHARS, SecretPattern, may_hold_key
from callboard.runtime.secrets.registry import Secrets
from tests.effort import effort
from tests.runtime.secrets.test_key_patterns import KEYS
from tests.tables import table

KNOWN_PATTERNS = [SecretPattern(name, pattern) for name, pattern in KEY_PATTERNS.items()]


@pytest.mark.parametrize("name", KEY_PATTERNS)
# 40: with a 7, Q, q, dash, underscore or dot left out of the runs, some pattern fails by its seventh example.
# too_slow: drawing a private key takes 0.4 s on a busy machine.
@settings(max_examples=effort(10, 200), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_text_that_matches_a_key_pattern_passes_the_prefilter(name: str, data: st.DataObject) -> None:
    pattern = KEY_PATTERNS[name].replace(
        "(?i:aws_?secret_?access_?key)", "[aA][wW][sS]_?SECRET_?access_?[kK]ey"
    )
    text = data.draw(st.from_regex(pattern, fullmatch=True)).encode()
    assert may_hold_key(text)
    assert may_hold_key(b'{"output": "' + text + b'"}')


@table("name", KEY_PATTERNS)
def test_the_examples_of_keys_pass_the_prefilter(name: str) -> None:
    assert all(may_hold_key((start + rest).encode()) for start, rest in KEYS[name])


def test_most_text_of_agents_does_not_pass_the_prefilter() -> None:
    assert not may_hold_key(b'["model_replied",1,"ok",[{"type":"text","text":"All 3 files are fine."}]]')
    assert not may_hold_key(b"x" * (RUN_CHARS - 1))


@given(
    st.lists(
        st.sampled_from([start + rest for pairs in KEYS.values() for start, rest in pairs])
        | st.text(max_size=30),
        max_size=6,
    )
)
def test_a_redactor_with_the_prefilter_finds_as_much_as_one_without(parts: list[str]) -> None:
    quick = Redactor(KNOWN_PATTERNS)
    slow = Redactor([*KNOWN_PATTERNS, SecretPattern("never", "zq[0-9]{3}never-there")])
    assert (quick._are_keys, slow._are_keys) == (True, False)
    text = " ".join(parts)
    assert quick.text(text) == slow.text(text)
    assert quick.finds(text) == slow.finds(text)


def test_a_short_value_or_a_form_of_ones_own_turns_it_off() -> None:
    for secrets in (Secrets(["open-sesame"]), Secrets([SecretPattern("badge", "EMP-[0-9]{6}")])):
        assert secrets.redactor.text("open-sesame EMP-123456") != "open-sesame EMP-123456"
    long = Secrets(["k" * 40])
    assert long.redactor._are_keys
    assert long.redactor.text(f"it is {'k' * 40}") == "it is [secret:1]"
