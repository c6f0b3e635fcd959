"""How much work a check may do: counted while it runs, because no bound known before is both safe and tight.

One step is one keyword of one subschema applied to one value, one entry of an object or array that a
keyword goes through, or one error on its way up: 2 to 4 us of jsonschema each.
"""

from callboard.runtime.schemas.acceptance import TooMuch


class Budget:
    """Steps that are left; None for any number."""

    __slots__ = ("_left",)

    def __init__(self, steps: int | None = None) -> None:
        self._left = steps

    def refill(self, steps: int | None) -> None:
        """Start anew."""
        self._left = steps

    def spend(self, steps: int) -> None:
        """Take some steps. Raises TooMuch if they are not there."""
        if self._left is not None:
            self._left -= steps
            if self._left < 0:
                raise TooMuch
