import json
import threading
from collections.abc import Callable

import msgspec
import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.runtime.sanitize import check_json, to_json
from callboard.runtime.secrets.redactor import FOUND_MAX, Redactor, _compiled
from callboard.runtime.secrets.refs import KEY_PATTERNS, SecretPattern
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.secrets.unescaping import placeholder

CANARY = 'ca"na\\ry-vä lue/17'
HIDDEN = placeholder("CANARY")


def looking(*patterns: SecretPattern, **values: str) -> Redactor:
    redactor = Redactor(patterns)
    for name, value in (values or {"CANARY": CANARY}).items():
        redactor.learn(name, value)
    return redactor


def redacted(value: object) -> object:
    return msgspec.json.decode(looking().json(to_json(value)))


def test_a_value_becomes_its_placeholder_everywhere_in_a_text() -> None:
    assert looking().text(f"{CANARY} and {CANARY}.") == f"{HIDDEN} and {HIDDEN}."


def test_text_without_secrets_is_the_same_object() -> None:
    text, value = "nothing to hide \n here", to_json({"a": ["nothing \n here"]})
    assert looking().text(text) is text
    assert looking().json(value) is value
    assert Redactor().json(to_json({"a": CANARY})) is not None
    assert Redactor().text(CANARY) == CANARY


def test_a_text_that_is_searched_while_a_value_is_learned_shows_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redactor = looking(SecretPattern("name", "Agent [A-Z]+"))
    seen: list[str] = []

    def meanwhile(pattern: str) -> "re2._Regexp":
        seen.append(redactor.text("Agent SMITH"))
        return _compiled(pattern)

    monkeypatch.setattr("callboard.runtime.secrets.redactor._compiled", meanwhile)
    redactor.learn("DOOR", "open-sesame")
    assert seen == ["[secret:name]"] * 4


def test_what_stands_beside_a_value_does_not_change_what_a_pattern_finds() -> None:
    # Only values are looked for across the line ends of base64.
    key = "sk-" + "ant-" + "a1B2c3D4" * 8
    redactor = looking(SecretPattern("key", KEY_PATTERNS["anthropic-key"]))
    for beside in ("", CANARY):
        assert redactor.text(f"{beside}\n{key}\nHello").endswith("\n[secret:key]\nHello")


def test_strings_keys_and_numbers_of_json_are_searched() -> None:
    assert redacted({"a": [CANARY, {CANARY: 1}], "b": f"x{CANARY}y"}) == {
        "a": [HIDDEN, {HIDDEN: 1}],
        "b": f"x{HIDDEN}y",
    }
    numbers = looking(PIN="48151623")
    assert bytes(numbers.json(check_json('{"pin": 48151623, "n": 4815162}'))) == (
        b'{"pin": "[secret:PIN]", "n": 4815162}'
    )


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text).join('""')


@pytest.mark.parametrize("escape", [json.dumps, _escaped])
def test_escapes_hide_nothing(escape: Callable[[str], str]) -> None:
    text = f'{{"a" : {escape(CANARY)}, "b":1}}'
    assert bytes(looking().json(check_json(text))) == b'{"a" : "[secret:CANARY]", "b":1}'
    assert bytes(looking().json(check_json(f"[{{{escape(CANARY)}: 1}}]"))) == b'[{"[secret:CANARY]": 1}]'


def test_unchanged_json_keeps_its_bytes_order_and_spacing() -> None:
    text = '{"z": "\\u00e9\\/", "secret" :"' + "open-sesame" + '" ,\n "a": 1.50e1 }'
    assert bytes(looking(DOOR="open-sesame").json(check_json(text))).decode() == text.replace(
        "open-sesame", "[secret:DOOR]"
    )


def test_keys_that_become_equal_are_numbered() -> None:
    pattern = SecretPattern("id", "EMP-[0-9]{6}")
    value = check_json('{"EMP-000001": 1, "EMP-000002": {"x": "EMP-000003"}, "n": 1}')
    assert msgspec.json.decode(Redactor([pattern]).json(value)) == {
        "[secret:id]": 1,
        "[secret:id] 2": {"x": "[secret:id]"},
        "n": 1,
    }


def test_only_the_group_of_a_pattern_is_taken_out() -> None:
    redactor = Redactor([SecretPattern("pin", "(?:pin|PIN)[:=] *([0-9]{4})")])
    assert redactor.text("pin: 1234, PIN=9999") == "pin: [secret:pin], PIN=[secret:pin]"


def test_secrets_that_overlap_are_one() -> None:
    redactor = looking(SHORT="sesame-open", LONG="open-sesame-open-wide")
    assert redactor.text("open-sesame-open-wide") == "[secret:LONG]"
    chained = looking(A="abcdef-ghijkl", B="ghijkl-mnopqr")
    assert chained.text("<abcdef-ghijkl-mnopqr>") == "<[secret:A]>"


@given(st.integers(0, 80), st.text("ab \n", max_size=60))
def test_a_cut_leaves_no_part_of_a_secret(cut: int, before: str) -> None:
    kept = looking(DOOR="open-sesame").kept(before + "open-sesame" * 3 + " end", cut)
    assert len(kept) <= cut or len(before) + 37 <= cut
    whole = before + "[secret:DOOR]" * 3 + " end"
    assert whole.startswith(kept)


def test_a_cut_in_a_key_of_a_known_form_leaves_no_part_of_it() -> None:
    redactor = Redactor([SecretPattern("key", "key-[a-z]{30,}")])
    text = "see key-" + "q" * 100
    for cut in range(len(text)):
        assert "qqq" not in redactor.kept(text, cut) or cut >= len(text)


def test_text_far_behind_a_cut_is_not_searched() -> None:
    redactor = looking()
    huge = "x" * 50_000_000
    assert redactor.kept(huge, 10) == "x" * 10


def test_values_too_short_to_differ_from_text_are_refused() -> None:
    with pytest.raises(MisuseError, match="6 to"):
        Redactor().learn("PIN", "1234")


def test_learning_goes_on_while_others_search() -> None:
    redactor, wrong = looking(), []

    def search() -> None:
        for _ in range(200):
            if redactor.text(f"a {CANARY} b") != f"a {HIDDEN} b":
                wrong.append(1)

    thread = threading.Thread(target=search)
    thread.start()
    for number in range(20):
        redactor.learn(f"N{number}", f"another-value-{number}")
    thread.join()
    assert not wrong
    assert redactor.text("another-value-7") == "[secret:N7]"


def test_a_traceback_is_returned_without_the_secret() -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        told = looking().told(error)
    assert "ValueError" in told
    assert "Traceback" in told
    assert CANARY not in told


def test_text_with_half_a_surrogate_pair_is_searched_too() -> None:
    assert looking(DOOR="open-sesame").text("\ud800 open-sesame") == "\ufffd [secret:DOOR]"


def test_json_that_is_searched_stays_json() -> None:
    nasty = {'q"uote': 'a"b\\c', CANARY: ["\u2028", "\\", '\\"', "é😀"], "n": [1, -2.5e-7, None, True]}
    assert redacted(nasty) == {HIDDEN if key == CANARY else key: value for key, value in nasty.items()}
    assert isinstance(looking().json(Json(b"null")), msgspec.Raw)


@pytest.mark.parametrize("unit", ["open-sesame ", "open%2dsesame ", "AKIAABCDEFGHIJKLMNOP "])
def test_of_a_text_of_thousands_of_secrets_none_is_left(unit: str) -> None:
    redactor = Secrets(["open-sesame"]).redactor
    found = redactor.text("begin " + unit * (FOUND_MAX + 100) + "end")
    assert found.startswith("begin [secret:")
    assert not redactor.finds(found)
    assert "sesame" not in found
    assert "AKIA" not in found
    assert found.count("[secret:") <= FOUND_MAX + 1
    few = redactor.text(unit * (FOUND_MAX // 10) + "end")
    assert few.count("[secret:") == FOUND_MAX // 10
    assert few.endswith("end")


def test_of_json_with_thousands_of_texts_with_secrets_none_is_left_and_its_shape_stays() -> None:
    redactor = Secrets(["open-sesame"]).redactor
    rows = [{"id": at, "key": f"open-sesame {at}", f"open-sesame {at}": True} for at in range(FOUND_MAX)]
    value = Json(msgspec.json.encode({"rows": rows, "end": ["open-sesame", 7]}))
    found = redactor.json(value)
    assert b"sesame" not in bytes(found)
    assert not redactor.finds(bytes(found).decode())
    read = msgspec.json.decode(found)
    assert [len(row) for row in read["rows"]] == [3] * FOUND_MAX
    assert read["rows"][0]["key"] == "[secret:1] 0"
    assert read["rows"][-1]["key"].startswith("[secret:")
    assert all("id" in row for row in read["rows"])
    assert len(read["end"]) == 2


@given(
    st.integers(0, 70_000), st.integers(0, 70_000), st.sampled_from(["%2d", "\\u002d", "&#45;", "\\\\u002D"])
)
@settings(max_examples=25)
def test_a_value_with_escapes_is_found_anywhere_in_a_long_text(before: int, after: int, sign: str) -> None:
    redactor = Secrets(["open-sesame"]).redactor
    text = "%20" * (before // 3) + f" open{sign}sesame " + "%20" * (after // 3)
    found = redactor.text(text)
    assert "sesame" not in found
    assert found == text.replace(f"open{sign}sesame", "[secret:1]")
