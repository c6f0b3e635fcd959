"""JSON loses the secrets that its texts have one by one, and no key comes to be there twice."""

import json
import random

import pytest

from callboard.actors.protocol.immutable import Json
from callboard.runtime.sanitize import check_json
from callboard.runtime.secrets.json_texts import unescaped
from callboard.runtime.secrets.redactor import FOUND_MAX, Redactor
from callboard.runtime.secrets.refs import SecretPattern
from callboard.runtime.secrets.registry import Secrets
from tests.effort import effort
from tests.tables import table

TEXTS = (
    "open-sesame",
    "open-sesame ",
    "open%2dsesame",
    'open"sesame',
    "a\\b",
    "",
    "abcdefgh",
    "[secret:1]",
    "[secret:1] 2",
    "90210777",
    "AKIAABCDEFGHIJKLMNOP",
    "x" * 300,
    "\n\t é",
)


def value(chance: random.Random, depth: int = 0) -> object:
    kind = chance.randrange(9 if depth < 4 else 5)
    if kind < 3:
        return chance.choice(TEXTS)
    if kind < 5:
        return chance.choice([1, -2.5, 90210777, True, None, 123456789])
    if kind < 7:
        return [value(chance, depth + 1) for _ in range(chance.randrange(6))]
    return {chance.choice((*TEXTS, str(at))): value(chance, depth + 1) for at in range(chance.randrange(6))}


def alone(redactor: Redactor, value: object) -> object:
    """Return a value whose texts and numbers were searched one by one; an object as pairs."""
    match value:
        case str():
            return redactor.text(value)
        case bool() | None:
            return value
        case int() | float():
            written = json.dumps(value)
            found = redactor.text(written)
            return value if found == written else found
        case list():
            return [alone(redactor, one) for one in value]
        case dict():
            return [(redactor.text(key), alone(redactor, one)) for key, one in value.items()]
        case _:
            raise AssertionError(value)


def paired(pairs: list[tuple[str, object]]) -> object:
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), keys
    return pairs


def same(found: object, wanted: object) -> bool:
    """Return whether a value is the wanted one, apart from the numbers of its keys."""
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], tuple):
        assert isinstance(found, list)
        return len(found) == len(wanted) and all(
            key.startswith(start) and same(one, other)
            for (key, one), (start, other) in zip(found, wanted, strict=True)
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    return found == wanted


REDACTORS = {
    "values": Secrets(["open-sesame", "90210777", 'open"sesame']).redactor,
    "a pattern of one's own": Redactor([SecretPattern("short", "[0-9]{3}"), SecretPattern("id", "op[a-z]")]),
}


@pytest.mark.parametrize("name", REDACTORS)
@pytest.mark.parametrize("escapes", [True, False])
def test_json_is_redacted_as_its_texts_are_one_by_one(name: str, escapes: bool) -> None:
    chance, redactor = random.Random(27), REDACTORS[name]
    for _ in range(effort(120, 10_000)):
        given = value(chance)
        written = json.dumps(given, ensure_ascii=escapes, indent=chance.choice((None, 1)))
        found = json.loads(bytes(redactor.json(check_json(written))), object_pairs_hook=paired)
        assert same(found, alone(redactor, given)), written


def test_a_text_without_secrets_keeps_its_bytes_beside_one_that_has_some() -> None:
    text = '[ "\\u00e9\\/", 1.50e1 ,"open-sesame", {"a" : "\\u0061"}]'
    found = bytes(REDACTORS["values"].json(check_json(text))).decode()
    assert found == text.replace("open-sesame", "[secret:1]")


@pytest.mark.parametrize("count", [FOUND_MAX // 2, 3 * FOUND_MAX])
def test_keys_with_secrets_stay_as_many_and_none_is_a_key_that_is_there(count: int) -> None:
    made = {f"open-sesame{at}": at for at in range(count)}
    there = {f"[secret:one of more than 1,000 in a value] {at}": -1 for at in range(1, 9)}
    given = Json(json.dumps([{**made, **there, "open-sesame": 0, "open%2dsesame": 0}]).encode())
    found = bytes(REDACTORS["values"].json(given))
    (read,) = json.loads(found, object_pairs_hook=lambda pairs: paired(pairs) and dict(pairs))
    assert len(read) == count + len(there) + 2
    assert b"sesame" not in found


# Of small parts there are half a million in a megabyte; one of them has a secret.
@table("unit", ["1", '""', '"a"', '{"a":1}', '"abcdefgh"', '"\\\\"'])
def test_only_the_parts_near_a_secret_are_taken_apart(unit: str) -> None:
    redactor, searched = REDACTORS["values"], []
    data = b"[" + (unit + ",").encode() * 20_000 + b'"open-sesame"]'

    class Counting(Redactor):
        def spans(self, data: bytes) -> list[object]:  # type: ignore[override]  # it only counts
            searched.append(len(data))
            return redactor.spans(data)  # type: ignore[return-value]  # as above

    counting = Counting()
    counting.learn("1", "open-sesame")
    assert bytes(counting.json(check_json(data))) == data.replace(b"open-sesame", b"[secret:1]")
    assert len(searched) == 2
    assert searched[1] < 300


def test_what_json_says_has_a_line_for_each_text() -> None:
    assert unescaped([b'["a\\n\\"\\\\', b'", 1]']) == [b'[\na\n"\\', b"\n, 1]"]
