import json

import pytest

from callboard.runtime.json_exponents import has_exponents, read_exponents


def test_texts_of_many_large_exponents_are_told_from_others() -> None:
    assert has_exponents(b"[" + b"1e308," * 1_001 + b"0]")
    assert not has_exponents(b"[" + b"1e308," * 900 + b"0]")
    assert not has_exponents(b"[" + b"1e30," * 5_000 + b"0]")


@pytest.mark.parametrize("text", ['[1e308, null, "null", "\\u006eull"]', "[4.9e-324]", "{}"])
def test_a_text_is_read_as_python_reads_it(text: str) -> None:
    assert read_exponents(text.encode()) == json.loads(text)


@pytest.mark.parametrize("text", ["[1e999]", "[null, -1e999]", "[NaN]", "[Infinity]"])
def test_numbers_beyond_a_float_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        read_exponents(text.encode())
