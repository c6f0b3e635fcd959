"""The redaction of posts that come from outside of the deciders."""

from itertools import islice

from callboard.actors.protocol.addresses import PORTS
from callboard.actors.session.core import PostGroup
from callboard.runtime.secrets.registry import Secrets


def admitted_groups(secrets: Secrets, submitted: list[PostGroup]) -> list[PostGroup]:
    """Redact the submitted posts of ports and clients."""
    # Deciders only repeat text that was redacted when a port or client submitted it.
    foreign = [post for sender, _, posts in submitted if sender in PORTS for post in posts]
    admitted = secrets.admit(foreign)
    if admitted is foreign:  # no secret was found, as nearly always
        return submitted
    rest = iter(admitted)
    return [
        (sender, cause, tuple(islice(rest, len(posts))) if sender in PORTS else posts)
        for sender, cause, posts in submitted
    ]
