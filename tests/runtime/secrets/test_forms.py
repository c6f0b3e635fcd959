import base64

from callboard.runtime.secrets.forms import encodings_of, plain_forms_of


def test_a_value_without_signs_has_itself_and_its_base64() -> None:
    value, *encoded = sorted(encodings_of("k3ylong42"), key=len)
    assert value == "k3ylong42"
    assert len(encoded) == 3, "one for each place in three bytes"
    assert base64.b64encode(b"k3ylong42").decode() in encoded


def test_quotes_are_doubled_and_spaces_are_pluses() -> None:
    assert {"it''s long", "it'\\''s long"} <= set(encodings_of("it's long"))
    assert b"it's+long" in plain_forms_of("it's long")
