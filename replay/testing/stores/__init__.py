"""The contract of every event log, as a test suite for any store."""

import pytest

# Here, before any of them is imported, so that a failed case shows the values that it compared.
_PARTS = ("catalog", "forks", "reading", "writing")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))
