"""The library `ray`, imported when it is used, and a connection to the user's cluster, which is required.

Ray would start a cluster of its own on this machine where none is connected. Here that is an error, because
its work would be placed on the wrong machine.
"""

import os
from typing import Any, Final

from callboard.actors.protocol.errors import MissingExtra, MisuseError

NAMESPACE: Final = "callboard"
"""The namespace of Ray in which the shards have their names."""


def driver() -> Any:
    """Return the module `ray`, with its usage statistics off. Raises MissingExtra."""
    # Ray reads it as it is imported, and a process that is started by it inherits it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra(
            "shards and tools on Ray need the library `ray` on each node, also where only a worker runs: "
            "pip install 'callboard[ray]'"
        ) from None
    return ray


def connected() -> Any:
    """Return the module `ray`, connected to a cluster. Raises MissingExtra, MisuseError."""
    ray = driver()
    if not ray.is_initialized():
        raise MisuseError(
            'this process is not connected to a Ray cluster: call ray.init(address="auto") first, '
            "or start the process in the cluster"
        )
    return ray
