"""What bounds a schema, a value and the work of a check; each figure beside its reason.

Measured figures are of one 2-core machine with CPython 3.11 and jsonschema 4.26 (docs of each constant).
"""

from typing import Final

# --- what a schema may be ------------------------------------------------------------

SCHEMA_BYTES_MAX: Final = 64 * 1024
"""Bytes of a schema's text. Refused by its length alone, before anything is parsed."""

SCHEMA_DEPTH_MAX: Final = 32
"""Levels of nesting of a schema's text; two of them are used by each nested object."""

SUBSCHEMAS_MAX: Final = 1_000
"""Subschemas that a schema may write down, and that may look at one value once references are followed."""

CHAIN_MAX: Final = 32
"""References and combinators in a row that look at the same value; each costs four stack frames."""

MULTIPLE_OF_MIN: Final = 1e-9
"""The least `multipleOf`. Below it doubles have no digits left to be a multiple with."""

PATTERN_CHARS_MAX: Final = 2_000
"""Characters of one regular expression."""

PATTERN_MEMORY: Final = 4 * 1024 * 1024
"""Bytes that RE2 may use for one expression: enough for `\\p{L}{1,100}`, which is 120,000 instructions."""

# --- what a value may be -------------------------------------------------------------

VALUE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a report's text."""

VALUE_DEPTH_MAX: Final = 64
"""Levels of nesting of a report."""

ITEMS_MAX: Final = 100_000
"""Entries of one array or object in a report."""

# --- what is said --------------------------------------------------------------------

PROBLEMS_MAX: Final = 10
"""Problems in one answer. A model mends the first ones and tries again."""

TEXT_CHARS_MAX: Final = 300
"""Characters of a problem's message, and of its path."""

ERRORS_READ_MAX: Final = 100
"""Errors taken from the validator before it is stopped."""

# --- what may be done on the event loop ----------------------------------------------

INLINE_SCHEMA_BYTES: Final = 8 * 1024
"""A longer schema is read by the worker. The worst of this length take 5 ms."""

INLINE_VALUE_BYTES: Final = 64 * 1024
"""A longer value is read by the worker. Decoding this much takes 0.5 ms at most."""

INLINE_VISITS: Final = 10_000
"""Values times subschemas that the fast path may visit, 0.2 to 0.5 us each."""

INLINE_VALUES: Final = 2_000
"""Values in a report that jsonschema may be started on, on the loop."""

INLINE_STEPS: Final = 1_000
"""Steps of jsonschema on the loop; a step takes 2 to 5 us."""

INLINE_PATTERN_WORK: Final = 20_000
"""RE2 instructions that may be compiled on the loop, as estimated; 0.1 to 0.7 us each."""

# --- what is kept --------------------------------------------------------------------

CACHED_SCHEMAS: Final = 256
"""Schemas kept ready."""

CACHED_BYTES: Final = 1024 * 1024
"""Bytes of their texts together; what is made from a text takes some twenty times as much."""

# --- the worker ----------------------------------------------------------------------

WORKERS_MAX: Final = 2
"""Worker processes of one checker; further checks queue."""

START_S: Final = 30.0
"""Seconds a worker may take to start. It takes 0.25 s on an idle machine."""

WORKER_MEMORY: Final = 2 * 1024 * 1024 * 1024
"""Bytes of address space of a worker, its stack included, where the platform can bound it."""

WORKER_STACK: Final = 128 * 1024 * 1024
"""Bytes of stack of a worker's thread: three times what RECURSION_MAX frames take, 1.1 KB each."""

RECURSION_MAX: Final = 40_000
"""Stack frames of a worker. The deepest value under the longest chain takes 64 * 32 * 4 = 8,192."""
