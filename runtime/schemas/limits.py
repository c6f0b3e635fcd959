"""Bounds of schemas, of values and of the work of a check; each figure beside its reason.

Measured figures are of one 2-core machine with CPython 3.11, jsonschema 4.26 and jsonschema-rs 0.60.
"""

from typing import Final

# --- schemas ---------------------------------------------------------------------------

SCHEMA_BYTES_MAX: Final = 64 * 1024  # of a schema's text; a longer one is refused before it is parsed
SCHEMA_DEPTH_MAX: Final = 32  # levels of nesting of a schema's text; each nested object uses two of them
SUBSCHEMAS_MAX: Final = 1_000  # subschemas that a schema may write down
STEPS_PER_VALUE_MAX: Final = 10**9  # estimated; more comes from doubling by references and takes minutes
MULTIPLE_OF_MIN: Final = 1e-9  # below it doubles have no digits left to be a multiple with

# --- values ----------------------------------------------------------------------------

VALUE_BYTES_MAX: Final = 1024 * 1024  # bytes of a report's text
VALUE_DEPTH_MAX: Final = 64  # levels of nesting of a report

# --- answers ---------------------------------------------------------------------------

PROBLEMS_MAX: Final = 10  # in one answer; a model fixes the first ones and tries again
TEXT_CHARS_MAX: Final = 300  # characters of a problem's message, and of its path
ERRORS_READ_MAX: Final = 100  # errors taken from jsonschema before it is stopped

# --- the event loop --------------------------------------------------------------------

INLINE_SCHEMA_BYTES: Final = 8 * 1024  # the worker reads a longer schema; the worst of these take 5 ms
INLINE_VALUE_BYTES: Final = 64 * 1024  # the worker reads a longer value; decoding these takes 0.5 ms at most
# Estimated steps of jsonschema-rs on the loop: mostly 0.03 us each, 0.25 us in an `enum` of objects.
INLINE_STEPS: Final = 100_000
INLINE_PATTERNS: Final = 16  # regular expressions compiled on the loop: 0.7 ms each at worst
# Memory of one expression compiled on the loop. The worst of this size searches 8 KB in 19 ms.
INLINE_PATTERN_BYTES: Final = 20_000

# --- remembered schemas ----------------------------------------------------------------

CACHED_SCHEMAS: Final = 256  # schemas kept ready
CACHED_BYTES: Final = 1024 * 1024  # of their texts; a compiled schema takes some twenty times as much

# --- the worker ------------------------------------------------------------------------

WORKERS_MAX: Final = 2  # worker processes of one checker; further checks queue
START_S: Final = 30.0  # seconds a worker may take to start; it takes 0.25 s on an idle machine
# Bytes of address space of a worker, its stack included, where the platform can bound it.
WORKER_MEMORY: Final = 2 * 1024 * 1024 * 1024
# Bytes of stack of a worker's thread: three times the need of RECURSION_MAX frames, 1.1 KB each.
WORKER_STACK: Final = 128 * 1024 * 1024
# Stack frames of a worker. The deepest value under 32 references in a row takes 64 * 32 * 4 = 8,192.
RECURSION_MAX: Final = 40_000
