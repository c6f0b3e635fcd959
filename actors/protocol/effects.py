"""The effects of tools."""

from typing import Literal, TypeAlias

Effect: TypeAlias = Literal["read", "idempotent", "write"]
"""The effect of a tool on the world: none, one that may be repeated under a key, or one that may not."""
