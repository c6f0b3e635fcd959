"""The view of an agent that delegates, for context functions: every part prints as its text.

As for policies (`runtime/models/readable.py`): `"found" in str(view.messages)` finds words of a message.
"""

from functools import cached_property

from callboard.actors.protocol.immutable import Json
from callboard.actors.session.contexts import ContextRequest
from callboard.runtime.models.readable import PrintedList, printed


class ReadableContext(ContextRequest):
    """A view as context functions read it."""

    _plain: ContextRequest

    @classmethod
    def of(cls, view: ContextRequest) -> "ReadableContext":
        """Return the view whose parts print."""
        readable = object.__new__(cls)
        own = readable.__dict__ = view.__dict__.copy()
        own["_plain"] = view
        own.pop("conversation", None)
        del own["messages"], own["system"]
        return readable

    @property
    def plain(self) -> ContextRequest:
        """Return the view with parts that msgspec encodes."""
        return self._plain

    @cached_property
    def system(self) -> Json:  # type: ignore[override]  # a field there, which no function sets
        """Return the system prompt, which prints."""
        return printed(self._plain.system)

    @cached_property
    def messages(self) -> tuple[Json, ...]:  # type: ignore[override]  # as above
        """Return the conversation, oldest first, which prints."""
        return PrintedList(map(printed, self._plain.messages))

    def __str__(self) -> str:
        return str(self.messages)

    __repr__ = __str__
