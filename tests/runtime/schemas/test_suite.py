"""The official JSON-Schema-Test-Suite, draft 2020-12, required tests.

It lies beside the repository (../shared/realdata, MIT) and is not part of it. Every schema of it is either
refused for a reason of ours, or every one of its tests comes out as the suite says. No test is left out.
"""

import json
from collections import Counter
from functools import cache

import pytest
from jsonschema import Draft202012Validator

from callboard.runtime.schemas.fast import compile_fast
from callboard.runtime.schemas.jsontext import parse
from tests.realdata import REALDATA
from tests.runtime.schemas.kit import accepted, refusals, report, text

SUITE = REALDATA / "json-schema-test-suite" / "tests" / "draft2020-12"

pytestmark = pytest.mark.skipif(
    not SUITE.is_dir(), reason="the JSON-Schema-Test-Suite (shared/realdata) is not beside the repository"
)

REFUSED_FOR = {
    "remove $id": 47,
    "must start with # (nothing is fetched)": 17,
    "RE2 cannot use this regular expression, invalid character class range: \\p{Letter}": 2,
    "must be a JSON object": 2,
    "instead of $dynamicRef": 1,
    "leave $schema out": 1,
}
"""Schemas that are refused, by what is said first."""


@cache
def cases() -> list[tuple[str, object, list[dict[str, object]]]]:
    return [
        (f"{path.stem}: {case['description']}", case["schema"], case["tests"])
        for path in sorted(SUITE.glob("*.json"))
        for case in json.loads(path.read_text("utf-8"))
    ]


def test_every_test_of_every_accepted_schema_comes_out_as_the_suite_says() -> None:
    wrong, schemas, tests = [], 0, 0
    for name, schema, examples in cases():
        if refusals(schema):
            continue
        schemas += 1
        for example in examples:
            tests += 1
            answer = report(schema, example["data"])
            if answer.status != ("ok" if example["valid"] else "invalid"):
                wrong.append((name, example["description"], answer))
    assert wrong == []
    assert (schemas, tests) >= (313, 1_138)


def test_schemas_are_refused_only_for_what_we_do_not_want() -> None:
    found: Counter[str] = Counter()
    for name, schema, _ in cases():
        if refused := refusals(schema):
            reason = next((words for words in REFUSED_FOR if words in refused[0][1]), f"{name}: {refused}")
            found[reason] += 1
    assert dict(found) == REFUSED_FOR


def test_the_fast_path_agrees_wherever_it_is_used() -> None:
    compiled = 0
    for name, schema, examples in cases():
        check = None if refusals(schema) else compile_fast(accepted(schema))
        if check is not None:
            compiled += 1
            for example in examples:
                assert check(parse(text(example["data"]))) is example["valid"], (name, example)
    assert compiled >= 120


def test_what_is_accepted_is_valid_under_the_meta_schema() -> None:
    for name, schema, _ in cases():
        if not refusals(schema):
            Draft202012Validator.check_schema(schema)
            assert name
