"""Profiles as the events of a log hold them, each read once: the runs of a campaign share most of theirs."""

from functools import lru_cache

import msgspec

from callboard.actors.protocol.profiles import Profile


@lru_cache(maxsize=1_024)
def profile_of(raw: bytes) -> Profile:
    """Return the profile in these bytes."""
    return msgspec.json.decode(raw, type=Profile)
