import base64
import csv
import html
import io
import json
import re
import shlex
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.likeness import encodings_of
from callboard.runtime.secrets.redactor import Redactor
from tests.tables import table

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


@table(
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


QUOTED = 'it\'s "half" 50% of $7-long'
LINES = "first-line-of-it\nsecond-line-of-it"


def in_csv(value: str) -> str:
    file = io.StringIO()
    csv.writer(file).writerow(["a", value])
    return file.getvalue()


def in_base64(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


# What programs print of a secret, found in reports against other tools that mask them.
WRITTEN: dict[str, tuple[str, Callable[[str], str]]] = {
    "CSV": (QUOTED, in_csv),
    "SQL": (QUOTED, lambda value: "'" + value.replace("'", "''") + "'"),
    "a shell, by shlex": (QUOTED, shlex.quote),
    "a shell, by closing the quotes": (QUOTED, lambda value: "'" + value.replace("'", "'\\''") + "'"),
    "a batch file": (QUOTED, lambda value: value.replace("%", "%%")),
    "make": (QUOTED, lambda value: value.replace("$", "$$")),
    "printf %q": (QUOTED, lambda value: re.sub(r"([^A-Za-z0-9])", r"\\\1", value)),
    "a regular expression": (QUOTED, re.escape),
    "octal numbers": (QUOTED, lambda value: re.sub(r"[^A-Za-z0-9]", lambda m: f"\\{ord(m[0]):03o}", value)),
    "Rust": (QUOTED, lambda value: re.sub(r"[^A-Za-z0-9]", lambda m: f"\\u{{{ord(m[0]):x}}}", value)),
    "C": (QUOTED, lambda value: re.sub(r"[^A-Za-z0-9]", lambda m: f"\\U{ord(m[0]):08x}", value)),
    "lines of Windows": (LINES, lambda value: value.replace("\n", "\r\n")),
    "lines of Unix": (LINES.replace("\n", "\r\n"), lambda value: value.replace("\r\n", "\n")),
    "base64 of a short one": ("k3y-42", lambda value: base64.b64encode(value.encode()).decode()),
    "base64 behind one byte": ("k3y-42", lambda value: base64.b64encode(b"x" + value.encode()).decode()),
    "base64 between others": ("k3y-42", lambda value: in_base64(f"ab{value}c")),
    "per cents of per cents": ("a%35b%zz-secret", lambda value: quoted_twice(value)),
}


@table("name", WRITTEN)
def test_a_value_is_found_as_programs_write_it(name: str) -> None:
    value, written = WRITTEN[name]
    redactor = Redactor()
    redactor.learn("KEY", value)
    text = f"before {written(value)} behind"
    found = redactor.text(text)
    assert "[secret:KEY]" in found
    assert found.startswith("before ")
    assert found.endswith(" behind")
    other = f"before {written(value[::-1])} behind"
    assert redactor.text(other) == other


def quoted_twice(value: str) -> str:
    once = urllib.parse.quote(value, safe="")
    return urllib.parse.quote(once, safe="")
