"""The official JSON-Schema-Test-Suite, draft 2020-12, required tests.

It lies in tests/data, with its licence (MIT). Every schema of it is either
refused for a reason of ours, or every one of its tests comes out as the suite says. No test is left out.
"""

import json
from collections import Counter
from functools import cache

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry

from callboard.runtime.schemas.compiled import Unfit, compile_schema
from callboard.runtime.schemas.engine import Engine, TooMuch
from tests.realdata import DATA
from tests.runtime.schemas.kit import refusals, report, report_request

SUITE = DATA / "json-schema-test-suite" / "draft2020-12"

REFUSED_FOR = {
    "must start with # (nothing is fetched)": (20, 44),
    "must be a JSON object": (2, 18),
    "leave $schema out": (2, 5),
}
"""Numbers of refused schemas and of their tests, by the first problem."""

DIFFERENCES = {
    "pattern: pattern with Unicode property escape requires unicode mode": (
        r"jsonschema takes \p{Letter} for no regular expression",
        "accepted: ECMA-262 has it, and jsonschema-rs searches with it in both places",
    ),
    "patternProperties: patternProperties with Unicode property escape": (
        r"jsonschema takes \p{Letter} for no regular expression",
        "accepted: ECMA-262 has it, and jsonschema-rs searches with it in both places",
    ),
}
"""Cases that jsonschema and jsonschema-rs answer differently: the difference, and the decision."""

WRONG_IN_BOTH = {
    "vocabulary: schema that uses custom metaschema with with no validation vocabulary": "refused"
}
"""Cases that both answer otherwise than the suite, although both take the schema."""


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
    assert (schemas, tests) >= (359, 1_232)


def test_schemas_are_refused_only_for_what_we_do_not_want() -> None:
    schemas: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for name, schema, examples in cases():
        if refused := refusals(schema):
            reason = next((words for words in REFUSED_FOR if words in refused[0][1]), f"{name}: {refused}")
            schemas[reason] += 1
            tests[reason] += len(examples)
    assert {reason: (schemas[reason], tests[reason]) for reason in schemas} == REFUSED_FOR


def test_the_loop_says_nothing_else_than_the_worker() -> None:
    loop, answered = Engine(is_bounded=True), 0
    for name, schema, examples in cases():
        for example in examples:
            request = report_request(schema, example["data"])
            try:
                answer = loop.check(request)
            except TooMuch:
                continue
            assert answer == report(schema, example["data"]), name
            answered += 1
    assert answered >= 766, "699 valid reports, 67 tests of refused schemas"


def of_jsonschema(schema: object, values: list[object]) -> list[bool | str]:
    try:
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema, registry=Registry())
        return [validator.is_valid(value) for value in values]
    except SchemaError:
        return ["refused"]
    except Exception as error:  # its class for a reference is private
        return [str(error)]


def of_jsonschema_rs(schema: object, values: list[object]) -> list[bool | str]:
    if isinstance(schema, bool):
        return [schema] * len(values)
    assert isinstance(schema, dict)
    try:
        return [compile_schema(schema, is_linear=False).is_valid(value) for value in values]
    except Unfit as error:
        return [str(error)]


def test_every_difference_of_the_two_is_known_and_decided() -> None:
    different, wrong = set(), set()
    for name, schema, examples in cases():
        values = [example["data"] for example in examples]
        one, other = of_jsonschema(schema, values), of_jsonschema_rs(schema, values)
        if isinstance(one[0], str) and one[0] != "refused":
            assert refusals(schema), name  # a remote reference: both raise, in words of their own
            assert isinstance(other[0], str), name
        elif one != other:
            different.add(name)
        elif one != [example["valid"] for example in examples]:
            wrong.add(name)
            assert refusals(schema), name
    assert different == set(DIFFERENCES)
    assert wrong == set(WRONG_IN_BOTH)


def test_an_accepted_schema_is_valid_under_the_meta_schema() -> None:
    for name, schema, _ in cases():
        if not refusals(schema) and name not in DIFFERENCES:
            Draft202012Validator.check_schema(schema)
