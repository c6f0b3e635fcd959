"""A Ray cluster of one head and two nodes on loopback, for tests: `with started() as cluster`."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from callboard.runtime.cluster.ray_driver import NAMESPACE, driver

ROOT: Final = Path(__file__).parent.parent.parent
SWITCH: Final = "RAY_TESTS"
SKIP: Final = "needs callboard[ray]: make ray-tests"
HEALTH: Final = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}
"""As docs/ray.md recommends: a node counts as lost after 1.5 to 2 s instead of 15."""
_STORE_BYTES: Final = 80 << 20


@contextlib.contextmanager
def started(**environment: str) -> Iterator[Any]:
    """Start it and connect this process. environment: of the processes on all nodes. Yield the cluster."""
    os.environ.update(environment)
    os.environ["PYTHONPATH"] = str(ROOT)
    # Ray takes the outer address of the machine for 127.0.0.1, except where it knows a single machine only.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    ray = driver()
    from ray.cluster_utils import Cluster

    given = {"node_ip_address": "127.0.0.1", "object_store_memory": _STORE_BYTES}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**given, "num_cpus": 0, "include_dashboard": False, "_system_config": HEALTH},
    )
    try:
        for _ in range(2):
            cluster.add_node(**given, num_cpus=4)
        ray.init(
            address=cluster.address, namespace=NAMESPACE, _node_ip_address="127.0.0.1", log_to_driver=False
        )
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
