"""Labels as callers write them."""

from collections.abc import Iterable

from callboard.actors.protocol.bundle_entries import name_entry
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.labels import Labels


def labels_of(labels: Iterable[str]) -> Labels:
    """Return labels in one order, each once. Raises MisuseError for one that is not a name."""
    try:
        found = sorted({name_entry(one) for one in ((labels,) if isinstance(labels, str) else labels)})
    except (TypeError, ValueError, AttributeError) as error:
        raise MisuseError(f"labels={labels!r:.80} is a list of names: {error}") from None
    return tuple(found)
