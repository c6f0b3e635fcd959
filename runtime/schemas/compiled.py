"""Schemas compiled by jsonschema-rs: 0.8 us for a small report with one regular expression.

It holds the interpreter while it works and cannot be stopped, so the event loop asks it only for checks
that step_budget.py calls cheap. By default it fetches `http` and `file` addresses; here it is offline.
"""

import sys
from functools import lru_cache
from typing import Final

from jsonschema_rs import Draft202012Validator, FancyRegexOptions, ReferencingError, RegexOptions

from callboard.runtime.schemas.json_text import INLINE_PATTERN_BYTES

# Regular expressions that take time linear in the text: neither look-around nor back-references.
_LINEAR: Final = RegexOptions(size_limit=INLINE_PATTERN_BYTES, dfa_size_limit=5 * INLINE_PATTERN_BYTES)

# A search that reaches the backtrack limit counts as "no match", which `not` turns into a match:
# the worker's time ends it instead.
_ANY: Final = FancyRegexOptions(backtrack_limit=sys.maxsize)


class Unfit(ValueError):
    """jsonschema-rs cannot use this schema; the message says why."""


def compile_schema(schema: dict[str, object], *, is_linear: bool) -> Draft202012Validator:
    """Compile a schema. Raises Unfit. is_linear: refuse every expression that may take long."""
    try:
        return Draft202012Validator(
            schema,
            validate_formats=False,  # annotations in this draft
            mask="the value",  # messages must not grow with the value
            offline=True,
            pattern_options=_LINEAR if is_linear else _ANY,
        )
    except (ValueError, ReferencingError) as error:
        raise Unfit(str(error).partition("\n")[0]) from None


@lru_cache(maxsize=1_000)
def compile_keyword(keyword: str, wanted: str | float) -> Draft202012Validator:
    """Compile a schema of one keyword. Raises Unfit."""
    return compile_schema({keyword: wanted}, is_linear=False)
