"""What the demonstration's agents must report: JSON schemas, draft 2020-12."""

from typing import Final

Schema = dict[str, object]

_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}


def _object(**properties: object) -> Schema:
    """An object with exactly these properties, all of them."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Schema, at_most: int = 50) -> Schema:
    return {"type": "array", "items": items, "maxItems": at_most}


_EVIDENCE: Final = _list(
    _object(
        file={"type": "string", "minLength": 1, "description": "relative to the folder"},
        line={**_COUNT, "description": "0 for the file as a whole"},
        why={"type": "string", "minLength": 1},
    )
)
_BASES: Final = ["used", "configured", "run", "declared"]

TESTING_SCHEMA: Final = {
    **_object(
        framework={"type": "string", "minLength": 1, "description": "the main one, or none"},
        language=_TEXT,
        basis={"enum": [*_BASES, "none"], "description": "the strongest kind of evidence"},
        evidence=_EVIDENCE,
        frameworks=_list(
            _object(
                framework=_TEXT, language=_TEXT, basis={"enum": _BASES}, test_files=_COUNT, evidence=_EVIDENCE
            )
        ),
        helpers=_list(_TEXT),
        notes=_list(_TEXT),
    ),
    "if": {"properties": {"framework": {"const": "none"}}},
    "then": {"properties": {"basis": {"const": "none"}}},
    "else": {"properties": {"evidence": {"minItems": 1}, "basis": {"enum": _BASES}}},
}
"""Of the testing framework: a framework needs evidence, and none is said in so many words."""

ENTRY_SCHEMA: Final = {
    **_object(
        entry_point={"type": "string", "minLength": 1, "description": "what is run, or none"},
        kind={"type": "string", "minLength": 1},
        strategy=_TEXT,
        evidence=_EVIDENCE,
        others=_list(_object(entry_point=_TEXT, kind=_TEXT, file=_TEXT)),
        notes=_list(_TEXT),
    ),
    "if": {"properties": {"kind": {"const": "none"}}},
    "then": {"properties": {"entry_point": {"const": "none"}}},
    "else": {"properties": {"evidence": {"minItems": 1}}},
}
"""Of the entry point: "none" for a library."""

MODULE_SCHEMA: Final = _object(
    path=_TEXT,
    summary={"type": "string", "minLength": 1, "maxLength": 500},
    files=_COUNT,
    lines=_COUNT,
    languages=_list(_object(language=_TEXT, files=_COUNT, bytes=_COUNT, lines=_COUNT)),
    definitions=_list(_TEXT),
)
"""Of one module."""

MODULES_SCHEMA: Final = _object(modules=_list(MODULE_SCHEMA), left_out=_list(_TEXT), left_out_more=_COUNT)
"""Of all modules: those that were summarised, and those beyond the bound."""

DEPTH_SCHEMA: Final = _object(
    levels={**_COUNT, "description": "how many diggers there were, the first included"},
    refused={"type": "string", "minLength": 1, "description": "in the runtime's words"},
)
"""Of the digger."""
