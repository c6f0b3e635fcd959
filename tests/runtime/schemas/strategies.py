"""Values and schemas made by Hypothesis, small enough to collide often."""

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

names = st.sampled_from(["a", "b", "c"])
numbers = st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5, -2.5, 1e20, 10**20])
scalars = st.none() | st.booleans() | numbers | st.sampled_from(["", "a", "ab", "é😀"])
values = st.recursive(
    scalars,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(names, each, max_size=3),
    max_leaves=8,
)
types = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
sizes = st.integers(0, 2) | st.just(1.0)
plain = st.fixed_dictionaries(
    {},
    optional={
        "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
        "enum": st.lists(scalars, max_size=3),
        "const": scalars,
        "required": st.lists(names, unique=True, max_size=2),
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], numbers),
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], sizes),
        **dict.fromkeys(["minProperties", "maxProperties"], sizes),
    },
)


def with_parts(each: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    parts = st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(names, each, max_size=3),
            "additionalProperties": each,
            "items": each,
            "anyOf": st.lists(each, min_size=1, max_size=3),
            "allOf": st.lists(each, min_size=1, max_size=2),
            "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"]),
            "title": st.just("x"),
        },
    )
    return st.builds(lambda one, two: {**one, **two}, plain, parts)


def with_every_part(each: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    some, named = st.lists(each, min_size=1, max_size=3), st.dictionaries(names, each, max_size=2)
    parts = st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(["oneOf", "prefixItems"], some),
            **dict.fromkeys(["not", "if", "then", "else", "contains", "propertyNames"], each),
            **dict.fromkeys(["unevaluatedItems", "unevaluatedProperties"], each | st.just(False)),
            **dict.fromkeys(["minContains", "maxContains"], st.integers(0, 2)),
            "dependentSchemas": named,
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b$", "[bc]"]), each, max_size=2),
            "dependentRequired": st.dictionaries(names, st.lists(names, unique=True), max_size=2),
            "uniqueItems": st.booleans(),
            "pattern": st.sampled_from(["a", "^a?$"]),
        },
    )
    return st.builds(lambda one, two: {**one, **two}, with_parts(each), parts)


_DEFINITIONS = {"one": {"type": ["string", "integer"]}, "two": {"required": ["a"], "minItems": 1}}


def _rooted(schema: object) -> dict[str, object]:
    return {"allOf": [schema], "$defs": _DEFINITIONS}


all_schemas = st.recursive(plain | st.booleans(), with_every_part, max_leaves=8).map(_rooted)
"""Schemas of all keywords that look at values, but for `multipleOf`, which jsonschema computes in doubles."""

_KEYWORDS = sorted(
    set(Draft202012Validator.VALIDATORS) - {"$ref", "$dynamicRef", "pattern", "patternProperties"}
    | {"$defs", "then", "else", "title", "description", "deprecated", "examples", "$comment", "$anchor"}
    | {"minContains", "maxContains", "format", "contentEncoding", "contentSchema", "default"}
)
_one = st.sampled_from([{}, True, False, {"type": "string"}])
_odd: st.SearchStrategy[object] = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.0, 1.5, -0.5, 10**30, "", "string", "a/b", [], {}, ["x", "x"]]
)
_shaped = st.sampled_from(
    [["string"], ["string", "null"], ["a", "b"], [1], {"a": ["b"]}, {"a": ["b", "b"]}, {"a": 1}]
)
_held = st.lists(_one | _odd, max_size=2) | st.dictionaries(st.sampled_from("ab"), _one | _odd, max_size=2)

odd_schemas = st.dictionaries(st.sampled_from(_KEYWORDS), _odd | _shaped | _one | _held, max_size=2)
"""Schemas whose keywords have values of any shape."""
