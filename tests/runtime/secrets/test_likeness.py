"""The search for places that look like a value misses none that a reading of all escapes finds."""

import base64
import random
from collections.abc import Callable

import pytest

from callboard.runtime.secrets.likeness import encodings_of, plain_forms_of
from callboard.runtime.secrets.redactor import FOUND_MAX, STEPS_MAX, Redactor
from callboard.runtime.secrets.unescaping import Plain, steps_of
from tests.effort import effort

# Words that several have, values that others begin with, a single word, one with what looks like an escape.
VALUES = (
    "hunter2-is-my",
    "hunter2-is-my-password",
    "my-password",
    "p@ssword",
    "aaa-aaa",
    "a%41b\\n-c",
    "é😀 &<'\"> ü",
    "11 22 33",
    "two\nlines of it",
)
NAMES = {'"': "quot", "&": "amp", "<": "lt", ">": "gt", "'": "apos"}
MARKS = {"\n": "n", "\t": "t"}


def units(one: str, form: str) -> str:
    data = one.encode("utf-16-be")
    return "".join(form % int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))


ESCAPES: tuple[Callable[[str], str], ...] = (
    lambda one: one,
    lambda one: units(one, "\\u%04x"),
    lambda one: units(one, "\\u%04X"),
    lambda one: "".join(f"%{byte:02X}" for byte in one.encode()),
    lambda one: "".join(f"%{byte:02x}" for byte in one.encode()),
    lambda one: f"&#{ord(one)};",
    lambda one: f"&#x{ord(one):x};",
    lambda one: f"&#X000{ord(one):X};" if ord(one) < 0x1000 else one,
    lambda one: f"\\U{ord(one):08x}",
    lambda one: f"\\u{{{ord(one):x}}}",
    lambda one: f"\\x{ord(one):02x}" if ord(one) < 0x100 else one,
    lambda one: f"\\{ord(one):03o}" if ord(one) < 0x100 else one,
    lambda one: f"&{NAMES[one]};" if one in NAMES else one,
    lambda one: "\\" + MARKS.get(one, one) if one.isascii() and not one.isalnum() else one,
)


def escaped(text: str, chance: random.Random, of_letters: tuple[float, ...] = (0.0, 0.3, 1.0)) -> str:
    """Return a text with escapes of any form, in up to three rounds. Letters and digits of escapes stay."""
    share = chance.choice(of_letters)
    for round_ in range(chance.randint(1, 3)):
        forms = chance.sample(ESCAPES, chance.randint(1, 3))
        text = "".join(
            chance.choice(forms)(one)
            if not one.isalnum() or (not round_ and chance.random() < share)
            else one
            for one in text
        )
    return text


def piece(chance: random.Random) -> str:
    """Return a piece of a text: a value, a part of one, or something else, escaped or not."""
    value = chance.choice(VALUES)
    match chance.randrange(6):
        case 0:
            return escaped(value, chance)
        case 1:
            return escaped(value[: chance.randint(1, len(value))], chance)
        case 2:
            return escaped(value[:-1] + chance.choice("xyz-"), chance)
        case 3:
            return value
        case 4:
            written = base64.encodebytes(("filler " * chance.randint(0, 9) + value).encode()).decode()
            return escaped(written, chance, (0.0,)) if chance.random() < 0.5 else written
        case _:
            return chance.choice(
                ("\\", "%", "&#", " ", "\n", "\\\\", "%25", "&amp;", "%4", "\\u00", "words ")
            )


def texts(count: int) -> list[str]:
    chance = random.Random(27)
    return ["".join(piece(chance) for _ in range(chance.randint(1, 8))) for _ in range(count)]


def looking(*values: str) -> Redactor:
    redactor = Redactor()
    for place, value in enumerate(values):
        redactor.learn(str(place), value)
    return redactor


def places(redactor: Redactor, data: bytes) -> list[tuple[int, int]]:
    """Return the places of secrets that a reading of all escapes of the text finds."""
    plain = Plain(data)
    forms = [*{form for value in VALUES for form in plain_forms_of(value)}]
    encoded = [form.encode() for form in redactor.literals]
    found = []
    for level, text in enumerate(plain.levels):
        for form in (*forms, *encoded):
            at = text.find(form)
            while at >= 0:
                found.append(plain.came_from(level, at, at + len(form)))
                at = text.find(form, at + len(form))
    return found


def test_no_place_is_missed_that_a_reading_of_all_escapes_finds_and_none_is_made_up() -> None:
    redactor = looking(*VALUES)
    counts = [0, 0]
    for text in texts(effort(120, 20_000)):
        data = text.encode()
        spans = redactor.spans(data)
        wanted = places(redactor, data)
        for start, end in wanted:
            assert any(span.start <= start and end <= span.end for span in spans), (text, start, end)
        assert redactor.finds(text) == bool(spans)
        counts[bool(spans)] += 1
        for span in spans:
            own = data[span.start : span.end]
            joined = [said.replace(b"\r", b"").replace(b"\n", b"") for said in (own, *Plain(own).levels)]
            wrapped = any(form.encode() in said for form in redactor.literals for said in joined)
            assert wrapped or places(redactor, own) or b"two" in own, text
    assert min(counts) > sum(counts) / 40


# Texts of a stranger who knows words of the values, or all of one, with all escapes.
UNITS = [
    "hunter2 password is my \\u0041",
    "hunter2-is-my " + "\\\\" * 50,
    "hunter2%2dis%2dmy ",
    "hunter2%252dis-my-passwore",
    "p\\u0041ssword ",
    "p&#64;ssworc ",
    "%41",
    "\\\\",
    "a" * 60 + "\n" + '\\"' * 9,
    base64.encodebytes(b"hunter2-is-my" * 30).decode(),
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("size", [16_384, 262_144])
def test_escapes_are_read_up_to_a_bound_however_long_the_text(
    unit: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def plain(data: bytes) -> Plain:
        read.append(steps_of(data))
        return Plain(data)

    redactor = looking(*VALUES)
    monkeypatch.setattr("callboard.runtime.secrets.redactor.Plain", plain)
    text = unit * (size // len(unit))
    spans = redactor.spans(text.encode())
    assert sum(read) <= STEPS_MAX
    assert len(spans) <= 4 * FOUND_MAX
    assert not redactor.finds(redactor.text(text))


def test_a_value_without_signs_has_itself_and_its_base64() -> None:
    value, *encoded = sorted(encodings_of("k3ylong42"), key=len)
    assert value == "k3ylong42"
    assert len(encoded) == 3, "one for each place in three bytes"
    assert base64.b64encode(b"k3ylong42").decode() in encoded


def test_quotes_are_doubled_and_spaces_are_pluses() -> None:
    assert {"it''s long", "it'\\''s long"} <= set(encodings_of("it's long"))
    assert b"it's+long" in plain_forms_of("it's long")
