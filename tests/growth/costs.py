"""The costs of a cluster to its server and its workers, as measured.

The processor times are those of a server on one machine with two processors, which the clients shared.
`benchmarks/growth_costs.py` and `benchmarks/postgres.py` measure them again; `docs/growth.md` explains them.
"""

from typing import NamedTuple


class Costs(NamedTuple):
    """Processor times of the server in microseconds, bytes of its log, and times of workers."""

    commit_us: int = 270  # of a statement that appends a batch, apart from its events
    event_us: int = 9
    renewal_us: int = 430
    claim_us: int = 140  # of each claimed session, in claims of 32
    takeover_us: int = 330
    resume_us: int = 500  # reading a session of 50 events
    report_us: int = 460  # of capacity, apart from
    report_each_us: int = 1  # for each worker of the model
    event_bytes: int = 500
    commit_bytes: int = 200
    sync_ms: int = 5  # `fdatasync` of the disk here
    open_ms: int = 3  # of a worker's processor, for a session that it resumes
    decide_ms: float = 0.2  # of a worker, for a report of capacity among 100 workers
    trip_ms: float = 0.5  # a round trip to the server in one data centre
