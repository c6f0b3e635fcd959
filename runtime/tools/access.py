"""The access of one call: its rights, the labels that it has read so far, and the uses that it made.

`ctx.files`, `ctx.http`, `ctx.secret` and memories all ask here before they act, and say here what they read.

Rules
  - A use is recorded before it happens. So a file that is written while a process ends has an owner.
  - Once the call has ended nothing can be used by it any more: its answer has told all of its uses.
"""

import threading
from collections.abc import Iterable
from typing import Final

from callboard.actors.protocol.errors import ToolError
from callboard.actors.protocol.labels import NO_LABELS, Labels, united
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.uses import Use, capability_refusal, use_refusal

USES_MAX: Final = 10_000
"""Different uses of one call, so that its answer stays small."""

_OVER: Final = "the call has its answer already, and uses nothing any more"
_LOCK: Final = threading.Lock()  # one for all calls: it is held for a moment


class Access:
    """The access of one call. All methods may be called from any thread.

    rights: of the agent, one layer for each bundle. labels: of the agent at its call.
    tool_labels: that the tool always states.
    """

    def __init__(
        self, rights: Layers = (), labels: Labels = NO_LABELS, tool_labels: Labels = NO_LABELS
    ) -> None:
        self.rights = rights
        self.result_labels: Labels = NO_LABELS
        self._given = (labels, tool_labels)
        self._uses: dict[Use, None] = {}
        self._is_over = False

    @property
    def labels(self) -> Labels:
        """Return the labels of what the call writes: of its agent, its tool and all that it has read."""
        return united(*self._given, self.result_labels)

    @property
    def uses(self) -> tuple[Use, ...]:
        """Return the uses so far, each once, in order."""
        with _LOCK:
            return tuple(self._uses)

    @property
    def is_used(self) -> bool:
        """Return True if the call has used or read anything, or stated a label."""
        return bool(self._uses or self.result_labels)

    def took(self, labels: Iterable[str]) -> None:
        """Add the labels of something that the call has read. Its agent has them once it returns."""
        if labels:
            self.result_labels = united(self.result_labels, tuple(labels))

    def refusal(self, entry: str, name: str = "") -> str:
        """Return the words of a refusal of a use now; empty if it is permitted.

        entry: a key of `uses.CAPABILITY`. name: empty to ask only for the capability of the entry.
        """
        if self._is_over:
            return _OVER
        if not self.rights:
            return ""
        if not name:
            return capability_refusal(self.rights, entry, self.labels)
        return use_refusal(self.rights, entry, name, self.labels)

    def use(self, entry: str, name: str, digest: str = "", labels: Labels = NO_LABELS) -> None:
        """Check a use and record it. Parameters are those of `Use`. Raises ToolError."""
        with _LOCK:  # no thread of the call reads a label between the check and the record
            if refusal := self.refusal(entry, name):
                raise ToolError(refusal)
            self._record(Use(entry, name, digest, labels))

    def read(self, entry: str, name: str, labels: Labels, digest: str = "") -> None:
        """Record that a use brought labels."""
        if labels:
            with _LOCK:
                self.took(labels)
                self._record(Use(entry, name, digest, labels))

    def end(self) -> None:
        """End the access: the call has its answer."""
        with _LOCK:
            self._is_over = True

    def _record(self, use: Use) -> None:
        """Record a use, under the lock."""
        if self._is_over:
            raise ToolError(_OVER)
        if use not in self._uses and len(self._uses) >= USES_MAX:
            raise ToolError(f"one call may use at most {USES_MAX:,} names; make another call for the rest")
        self._uses[use] = None
