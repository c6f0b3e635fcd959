"""`unevaluatedProperties` and `unevaluatedItems`: what no other keyword of the same value has looked at.

jsonschema's own functions send names through Python's `re` and look indexes up in lists (quadratic).
Parts count as looked at by `$ref`, `allOf` and `dependentSchemas` whether those hold or not: if one does
not hold, the value is invalid anyway, and its properties should not be called unknown on top of that.
"""

from collections.abc import Iterator

from jsonschema.exceptions import ValidationError

from callboard.runtime.schemas.prepare import Reference
from callboard.runtime.schemas.vocabulary import Errors, Keyword, Matcher, Schema, Validator, unknown
from callboard.runtime.schemas.wording import count


class Unevaluated(Matcher):
    """The two keywords."""

    def table(self) -> dict[str, Keyword]:
        """Both by name."""
        return {"unevaluatedProperties": self._properties, "unevaluatedItems": self._items}

    def _properties(self, validator: Validator, subschema: object, value: object, schema: Schema) -> Errors:
        if not isinstance(value, dict):
            return
        seen = self._names_seen(validator, value, schema, is_asked=True)
        extras = [name for name in value if name not in seen]
        if subschema is not False:
            for name in extras:
                yield from validator.descend(value[name], subschema, path=name)
        elif extras:
            yield ValidationError(unknown(extras, {name: True for name in value if name in seen}))

    def _items(self, validator: Validator, subschema: object, value: object, schema: Schema) -> Errors:
        if not isinstance(value, list):
            return
        seen = self._items_seen(validator, value, schema, is_asked=True)
        extras = [index for index in range(len(value)) if index not in seen]
        if subschema is not False:
            for index in extras:
                yield from validator.descend(value[index], subschema, path=index)
        elif extras:
            more = count(len(extras), "item")
            yield ValidationError(f"{more} more than allowed, the first is item {extras[0]}")

    def _names_seen(
        self, validator: Validator, value: dict[str, object], schema: object, is_asked: bool = False
    ) -> set[str]:
        """The names that a subschema looks at; of the one that asks, apart from the asking keyword."""
        if not isinstance(schema, dict):
            return set()
        if "additionalProperties" in schema or ("unevaluatedProperties" in schema and not is_asked):
            return set(value)
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        seen = {name for name in value if name in known or self.is_any_in(patterns, name)}
        for name, subschema in schema.get("dependentSchemas", {}).items():
            if name in value:
                seen |= self._names_seen(validator, value, subschema)
        for subschema in _that_hold(validator, value, schema):
            seen |= self._names_seen(validator, value, subschema)
        return seen

    def _items_seen(
        self, validator: Validator, value: list[object], schema: object, is_asked: bool = False
    ) -> set[int]:
        """The positions that a subschema looks at; of the one that asks, apart from the asking keyword."""
        if not isinstance(schema, dict):
            return set()
        if "items" in schema or ("unevaluatedItems" in schema and not is_asked):
            return set(range(len(value)))
        seen = set(range(len(schema.get("prefixItems", ()))))
        if "contains" in schema:
            inner = validator.evolve(schema=schema["contains"])
            seen |= {index for index, each in enumerate(value) if inner.is_valid(each)}
        for subschema in _that_hold(validator, value, schema):
            seen |= self._items_seen(validator, value, subschema)
        return seen


def _that_hold(validator: Validator, value: object, schema: dict[str, object]) -> Iterator[object]:
    """The subschemas beneath a schema that look at the same value and whose findings count."""

    def holds(subschema: object) -> bool:
        return validator.evolve(schema=subschema).is_valid(value)

    reference = schema.get("$ref")
    if isinstance(reference, Reference):
        yield reference.target
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = schema.get(keyword)
        for branch in branches if isinstance(branches, list) else ():
            if keyword == "allOf" or holds(branch):
                yield branch
    if "if" in schema:
        if holds(schema["if"]):
            yield schema["if"]
            yield schema.get("then")
        else:
            yield schema.get("else")
