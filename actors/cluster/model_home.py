"""The home of a model's capacity, and the part of it that one worker has. No I/O, no clock.

    worker: Part.report --> home: ModelHome.report --> worker: Part.take
            its calls             its share, tokens           its places

Rules
  - Tokens that a worker is given are spent: the bucket of the home does not wait for the calls that use
    them. What a worker does not need it gives back with its next report. It is lost with the worker.
  - The tokens in the bucket are divided as places are: equally among the sessions that lack some, or first
    among their tags.
  - With fewer places than twice the workers, they are given call by call: a worker gives each place back as
    its call ends, and asks for the next one.
  - An answer counts only for the last report. For an earlier one it says what the home no longer thinks.
"""

from collections.abc import Iterable
from typing import Final

from callboard.actors.cluster.shares import PLACES_MAX, Holding, Renewal, Shares
from callboard.actors.protocol.immutable import Value
from callboard.actors.session.capacity import Capacity, Demand
from callboard.actors.session.token_bucket import TokenBucket

CUT_MS: Final = 1_000  # between two reports, with which shares are cut again
ASK_MS: Final = 250  # between two questions for a place that is given call by call
SOON_MS: Final = 20  # before a report that another worker, or a call, waits for


class Grant(Value, frozen=True):
    """The answer to a report. is_call_by_call: each place goes back as its call ends."""

    share: int = 0
    tokens: int = 0
    is_call_by_call: bool = False


def strictest(limits: Iterable[Capacity]) -> Capacity:
    """Return the smallest of each limit: workers of two releases may know different ones."""
    found = tuple(limits)
    calls = [one.calls for one in found if one.calls is not None]
    tokens = [one.tokens_per_minute for one in found if one.tokens_per_minute is not None]
    return Capacity(min(calls, default=None), min(tokens, default=None))


class ModelHome:
    """The places and tokens of one model. model_timeout_ms: the longest time of a call of any worker.

    level, at: of the bucket, by the server's clock; a new bucket is full.
    Raises MisuseError for more than `PLACES_MAX` places.
    """

    def __init__(
        self,
        limits: Capacity,
        model_timeout_ms: int,
        holdings: Iterable[Holding] = (),
        at: int = 0,
        level: int | None = None,
    ) -> None:
        self._has_places = limits.calls is not None
        self.shares = Shares(limits.calls or PLACES_MAX, model_timeout_ms, holdings)
        self.bucket = TokenBucket(limits.tokens_per_minute or 0, at, level)

    def report(self, renewal: Renewal, unused: int, now: int) -> Grant:
        """Take a worker's report. unused: tokens that it gives back. now: by the server's clock."""
        self.bucket.refill(now)
        share = self.shares.renew(renewal, now)
        if share is None:
            return Grant()
        if not self._has_places:
            return Grant(0, self._tokens(renewal, unused, now))
        is_scarce = self.shares.limit < 2 * len(self.shares.live(now))
        return Grant(share, self._tokens(renewal, unused, now), is_scarce)

    def _tokens(self, renewal: Renewal, unused: int, now: int) -> int:
        if not self.bucket.rate:
            return 0
        self.bucket.put_back(unused)
        lacks = {name: one.lacks for name, one in self.shares.live(now).items()}
        parts = self.shares.divided(max(0, self.bucket.tokens), lacks, now)
        tokens = parts.get(renewal.sharer, 0)
        self.bucket.take(tokens)
        return tokens


class Part:
    """The part of a model's capacity that a worker has for a tag. share: the places that it acts by.

    Its line (`actors/session/capacity`) must have the share's places whenever it gives some.
    """

    def __init__(self, worker: int, tag: str = "") -> None:
        self.worker, self.tag = worker, tag
        self.number = 0
        self.share = 0
        self.is_call_by_call = False
        self._heard = 0  # the last report that was answered
        self._said = Demand()
        self._said_share = 0
        self._is_short = False  # the home had less than this worker wanted
        self._sent_ms = -CUT_MS

    @property
    def is_idle(self) -> bool:
        """Return True if it has no place, and the home knows that it wants none."""
        knows = self._heard == self.number and self._said == Demand() and not self._said_share
        return knows and not self.share

    def due_in_ms(self, demand: Demand, now: int) -> int | None:
        """Return the time until the next report; None if there is nothing to say. now: of any clock."""
        if demand == Demand() and self.is_idle:
            return None  # idle, as the home knows
        pause_ms = CUT_MS
        lacks_places = demand.waiting > 0 and demand.in_flight >= self.share
        if self.is_call_by_call:
            if demand.in_flight < self.share:
                pause_ms = SOON_MS
            elif lacks_places:
                pause_ms = ASK_MS
        elif self.share < self._said_share or (not self._is_short and (lacks_places or demand.tokens)):
            pause_ms = SOON_MS
        return max(0, self._sent_ms + pause_ms - now)

    def report(self, demand: Demand, now: int) -> Renewal:
        """Return the next report, without the end of the lease, which the home knows. now: as above."""
        self.number += 1
        if self.is_call_by_call:
            self.share = min(self.share, demand.in_flight)
        self._said, self._said_share, self._sent_ms = demand, self.share, now
        return Renewal(
            self.worker,
            self.number,
            self.share,
            demand.in_flight,
            demand.waiting,
            0,
            demand.sessions,
            demand.tokens,
            self.tag,
        )

    def take(self, number: int, grant: Grant) -> int:
        """Act by the answer to a report. Return the tokens that it adds."""
        if number != self.number:
            return 0
        self._heard = number
        self.share, self.is_call_by_call = grant.share, grant.is_call_by_call
        wanted = self._said.in_flight + self._said.waiting
        self._is_short = grant.share < wanted or grant.tokens < self._said.tokens
        return grant.tokens
