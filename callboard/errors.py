"""Every exception that callboard raises on purpose. All are a `CallboardError`.

The message of each says what to do next.
"""

from callboard.actors.protocol import errors
from callboard.lazy_names import classes_of, lazy_names

_HOMES = classes_of(errors)

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
