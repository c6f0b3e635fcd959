"""The messages of a session as its log keeps them: `event.message` is one of these."""

from callboard.actors.protocol import (
    client_messages,
    compaction_messages,
    messages,
    port_messages,
    step_messages,
)
from callboard.lazy_names import classes_of, lazy_names

_HOMES = classes_of(client_messages, compaction_messages, messages, port_messages, step_messages)

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
