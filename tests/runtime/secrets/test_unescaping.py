"""Values in the forms that real encoders write, and the places that they are found at."""

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.sanitize import check_json, clean_text
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.stream_buffer import StreamBuffer
from callboard.runtime.secrets.unescaping import GROWTH_MAX, Plain
from tests.effort import effort
from tests.tables import table

VALUE = "p<w>&'q\"+s/w=r d;é😀\\zz9-Token"


def unit(character: str, form: str = "04x") -> str:
    """Return an escape of JSON, with two for a character beyond 16 bits."""
    data = character.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(data[at : at + 2]):{form}}" for at in range(0, len(data), 2))


def go_json(text: str) -> str:
    """encoding/json: HTML's characters and the two separators are escaped, in lower case."""
    return re.sub("[<>&\u2028\u2029]", lambda found: unit(found[0]), json.dumps(text, ensure_ascii=False))


def dotnet_json(text: str) -> str:
    """System.Text.Json: the default encoder allows basic Latin without quotes, `&`, `+`, `<`, `>`."""
    written = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', "\\u0022")
    return '"' + re.sub("[&+<>`'\x7f-\U0010ffff]", lambda found: unit(found[0], "04X"), written) + '"'


def php_json(text: str) -> str:
    """json_encode: slashes have a backslash, and all beyond ASCII is escaped."""
    return json.dumps(text).replace("/", "\\/")


def encode_uri_component(text: str) -> str:
    """ECMA-262: letters, digits and `-_.!~*'()` stay."""
    return urllib.parse.quote(text, safe="-_.!~*'()")


def lower(text: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text)


def go_html(text: str) -> str:
    """html.EscapeString: decimal references for quotes."""
    return html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def lines(text: str) -> str:
    """base64 of MIME (RFC 2045): lines of 76 characters."""
    return base64.encodebytes(text.encode()).decode()


def json_of(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


FORMS: dict[str, Callable[[str], str]] = {
    "JSON of Go": go_json,
    "JSON of .NET": dotnet_json,
    "JSON of PHP": php_json,
    "JSON of Python": json.dumps,
    "JSON in JSON": lambda text: json_of(json_of(text)),
    "JSON of Go in JSON of .NET in JSON": lambda text: json_of(dotnet_json(go_json(text))),
    "encodeURIComponent": encode_uri_component,
    "a form": lambda text: f"q={urllib.parse.quote_plus(text)}&r=1",
    "a form in lower case": lambda text: lower(urllib.parse.quote_plus(text)),
    "HTML of Go": go_html,
    "HTML of Python": html.escape,
    "HTML with hexadecimal references": lambda text: html.escape(text).replace("&quot;", "&#x22;"),
    "base64 in lines": lines,
    "base64 in lines, with CR, in JSON": lambda text: json.dumps(lines(text).replace("\n", "\r\n")),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "an address in JSON in a page": lambda text: html.escape(json_of(encode_uri_component(text))),
    "an address, encoded twice": lambda text: encode_uri_component(encode_uri_component(text)),
    "repr of Python": repr,
}
BEFORE, AFTER = "It was said before that ", " and so it goes on, for some more words: a=b."


def looking(value: str = VALUE) -> Redactor:
    redactor = Redactor()
    redactor.learn("X", value)
    return redactor


@table("form", FORMS)
@table("times", [1, 40])
def test_a_value_is_found_in_the_forms_of_real_encoders_and_nothing_of_it_is_left(
    form: str, times: int
) -> None:
    filler = "words " * (times - 1)
    written = clean_text(FORMS[form](f"{BEFORE}{filler}{VALUE}{AFTER}"))
    redactor = looking()
    found = redactor.text(written)
    assert "[secret:X]" in found
    if "base64" not in form:  # there the ends also hold bits of the letters beside them
        assert found.replace("[secret:X]", "") in {
            FORMS[form](f"{BEFORE}{filler}~{AFTER}").replace("~", ""),
            FORMS[form](f"{BEFORE}{filler}~{AFTER}").replace("~", "").replace('"', "'"),
        }
    assert redactor.json(check_json(json.dumps({"a": [written]}))) != check_json(json.dumps({"a": [written]}))


@table("form", FORMS)
@table("size", [1, 3, 7])
def test_live_text_in_pieces_shows_nothing_of_a_value_in_such_a_form(form: str, size: int) -> None:
    written = clean_text(FORMS[form](f"{BEFORE}{VALUE}{AFTER}"))
    shown: list[str] = []
    stream = StreamBuffer(looking(), shown.append)
    for at in range(0, len(written), size):
        stream.take(written[at : at + size])
    stream.end()
    assert "".join(shown) == looking().text(written)


@table("form", FORMS)
def test_a_value_like_a_key_is_found_in_each_form(form: str) -> None:
    value = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY=="
    assert "[secret:X]" in looking(value).text(FORMS[form](f"{BEFORE}{value}{AFTER}"))


@pytest.mark.slow
@settings(max_examples=effort(150, 5_000))
@given(
    st.text(st.characters(codec="utf-8"), min_size=8, max_size=30).filter(lambda one: len(one.strip()) >= 8),
    st.sampled_from(sorted(set(FORMS) - {"repr of Python"})),
    st.text(st.sampled_from("ab <&"), max_size=4),
)
def test_any_value_is_found_in_any_form(value: str, form: str, beside: str) -> None:
    written = clean_text(FORMS[form](beside + value + beside))
    assert looking(value).finds(written) or value != clean_text(value)


@given(st.text(st.sampled_from("a\\u0041%42&#;x67quotnéd83e"), max_size=60))
def test_the_places_of_a_plain_text_lead_back_in_order(text: str) -> None:
    data = text.encode()
    plain = Plain(data)
    for level, found in enumerate(plain.levels):
        places = [plain.came_from(level, at, at + 1) for at in range(len(found))]
        assert all(0 <= start < end <= len(data) for start, end in places)
        assert places == sorted(places)
        assert len(data) <= GROWTH_MAX * len(found)


def test_a_text_without_a_run_of_the_value_is_not_unescaped(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def plain(data: bytes) -> Plain:
        made.append(data)
        return Plain(data)

    monkeypatch.setattr("callboard.runtime.secrets.redactor.Plain", plain)
    redactor = looking("open-sesame")
    made.clear()
    assert not redactor.finds('{"a": "\\u003c and %2b"}')
    assert not made
    assert redactor.finds("open\\u002dsesame")
    assert made
