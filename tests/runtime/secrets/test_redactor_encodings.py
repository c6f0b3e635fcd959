import base64
import html
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.redactor import Redactor, encodings_of

VALUES = st.text(st.characters(codec="utf-8"), min_size=10, max_size=40).filter(
    lambda v: len(v.strip()) >= 10
)
AROUND = st.text(st.characters(codec="utf-8"), max_size=5)


def finds(value: str, text: str) -> bool:
    redactor = Redactor()
    redactor.learn("X", value)
    return redactor.finds(clean_text(text))


@pytest.mark.slow
@given(VALUES, AROUND, AROUND)
def test_a_value_is_found_as_common_encoders_write_it(value: str, before: str, after: str) -> None:
    whole = before + value + after
    assert finds(value, whole)
    assert finds(value, json.dumps(whole))
    assert finds(value, json.dumps(whole, ensure_ascii=False))
    assert finds(value, json.dumps(json.dumps(whole, ensure_ascii=False), ensure_ascii=False))
    assert finds(value, urllib.parse.quote(whole, safe=""))
    assert finds(value, urllib.parse.quote(whole))
    assert finds(value, f"q={urllib.parse.quote_plus(whole)}&b=1")
    assert finds(value, html.escape(whole))


@pytest.mark.slow
@given(VALUES, st.binary(max_size=7), st.binary(max_size=7))
def test_a_value_is_found_in_base64_wherever_it_lies(value: str, before: bytes, after: bytes) -> None:
    whole = before + value.strip().encode() + after
    assert finds(value, base64.b64encode(whole).decode())
    assert finds(value, base64.urlsafe_b64encode(whole).decode())


@pytest.mark.parametrize(
    "value",
    ["plain-value", 'it\'s "both" here', "it's a 'quote'", "back\\slash\\n", "tab\there", "é😀 unicode"],
)
def test_a_value_is_found_as_python_shows_it(value: str) -> None:
    assert finds(value, f"KeyError({value!r})")


def test_lower_case_escapes_of_addresses_are_found() -> None:
    assert finds("p/ss?w=rd", "user:p%2fss%3fw%3drd@host")


def test_an_encoding_is_long_enough_to_differ_from_other_text() -> None:
    assert min(len(form) for form in encodings_of("sixsix")) >= 6
    assert encodings_of("abc-def-ghi")[0] == max(encodings_of("abc-def-ghi"), key=len)
