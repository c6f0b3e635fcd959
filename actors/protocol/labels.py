"""Labels: words for the provenance of what an agent has read, such as `untrusted` or `secret`.

Rules
  - The labels of an agent are one set. It grows with each answer that the agent is given: by the labels of
    the tool, those that the tool states for this result, those of a delegation's end, and those of a client.
  - A delegation begins with the labels that its parent had at the `Delegate`. Its end has those of the
    winner, or, if it failed, of all its racers. An end that no agent is given labels none.
  - A key of the shared state has the labels of those who wrote its value.
  - `TurnRequested` says the labels that are new since the request before. A reply cannot know of later ones.
"""

from typing import Final, TypeAlias

Labels: TypeAlias = tuple[str, ...]
"""A set of labels, in one order."""

NO_LABELS: Final[Labels] = ()
_NOTHING: Final[frozenset[str]] = frozenset()


def united(*all_of: Labels) -> Labels:
    """Return the labels that are in any of these sets."""
    if not any(all_of):  # nearly always
        return NO_LABELS
    return tuple(sorted(_NOTHING.union(*all_of)))
