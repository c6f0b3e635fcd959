"""The rule of leases: until when a worker may act without news from the server.

    sent           3/4                 7/8          lease end
     |- may start --|- only finishes ---|- calls are -|- others may take over -->
     |  renewed each quarter            |  aborted    |  its sessions

The server counts a lease from the moment at which it carries out the renewal. The worker counts from the
moment at which it *sent* it, which is earlier, so that the worker's end never comes behind the server's. The
last eighth is left for clocks that run at different speeds, and for calls that take time to abort.
"""

from typing import Final, Literal

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value

LEASE_MS: Final = 10_000
LEASE_MS_MIN: Final = 400  # below that, a pause of the garbage collector ends leases

Standing = Literal["acts", "finishes", "aborts", "lost"]
"""The rights of a worker: it may start work, only finish running work, only abort it, or nothing."""


class Lease(Value, frozen=True):
    """The lease of a worker, as it measures it. sent_ms: when it sent its last renewal that succeeded.

    Raises MisuseError for a lease that is too short to be renewed.
    """

    sent_ms: int
    lease_ms: int = LEASE_MS

    def __post_init__(self) -> None:
        if self.lease_ms < LEASE_MS_MIN:
            raise MisuseError(f"a lease of {self.lease_ms} ms: give at least {LEASE_MS_MIN} ms")

    def standing(self, now: int) -> Standing:
        """Return what the worker may do now. A clock that went back proves nothing, so nothing starts."""
        passed = now - self.sent_ms
        if passed >= self.lease_ms:
            return "lost"
        if passed >= self.lease_ms * 7 // 8:
            return "aborts"
        return "acts" if 0 <= passed < self.lease_ms * 3 // 4 else "finishes"

    def renews_in_ms(self, now: int) -> int:
        """Return the time until the next renewal is due; 0 if it is due."""
        return max(0, min(self.sent_ms - now, 0) + self.lease_ms // 4)

    def renewed(self, sent_ms: int) -> "Lease":
        """Return the lease after a renewal that the server has confirmed. sent_ms: when it was sent."""
        return Lease(sent_ms, self.lease_ms)


def may_take_over(ends_ms: int, server_ms: int) -> bool:
    """Return whether sessions of a lease may be claimed by others. Both times are of the server's clock."""
    return server_ms >= ends_ms


def capacity_free_at(ends_ms: int, model_timeout_ms: int) -> int:
    """Return when the places of a lost worker are free: its last call may start just before the end."""
    return ends_ms + model_timeout_ms
