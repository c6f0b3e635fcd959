"""The settings of a server on which "no effect twice" depends."""

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.health import Health, Replica, health_of
from tests.tables import table

SOUND = Health("on", "on", "on", "", (), has_failover=False)
SYNC = Replica("b", "sync", 0, None)


def rows_of(settings: tuple[str, ...], replicas: Sequence[tuple[Any, ...]] = ()) -> Any:
    return lambda query: list(replicas) if "pg_stat_replication" in query else [settings]


@table(
    ("changed", "words"),
    [
        ({}, []),
        ({"synchronous_commit": "remote_apply"}, []),
        ({"synchronous_commit": "off"}, ["synchronous_commit is off"]),
        ({"synchronous_commit": "local"}, ["synchronous_commit is local"]),
        ({"synchronous_commit": "remote_write"}, ["synchronous_commit is remote_write"]),
        ({"fsync": "off", "full_page_writes": "off"}, ["fsync is off", "full_page_writes is off"]),
        ({"has_failover": True}, ["no replica is synchronous"]),
        ({"has_failover": True, "standbys": "b", "replicas": (SYNC,)}, []),
        ({"standbys": "b", "replicas": (SYNC._replace(mode="quorum"),)}, []),
        ({"standbys": "b", "replicas": (SYNC._replace(mode="async"),)}, [r"(b) is connected"]),
        ({"standbys": "b"}, ["each append waits"]),
        ({"standbys": "b", "replicas": (SYNC._replace(mode=""),)}, []),  # the role may not see it
    ],
)
def test_each_setting_that_can_lose_an_acknowledged_event_has_a_warning(
    changed: dict[str, Any], words: list[str]
) -> None:
    found = SOUND._replace(**changed).warnings()
    assert len(found) == len(words)
    assert all(word in warning for word, warning in zip(words, found, strict=True))


@pytest.mark.parametrize(
    ("url", "replicas", "has_failover"),
    [
        ("postgresql://app@db/agents", [], False),
        ("postgresql://app@a,b/agents", [], True),
        ("postgresql://app@/agents?host=/run/a,/run/b", [], True),
        ("postgresql://app@db/agents", [("b", "async", 7, None)], True),
    ],
)
def test_a_failover_is_possible_with_a_replica_or_a_second_server(
    url: str, replicas: list[tuple[Any, ...]], has_failover: bool
) -> None:
    found = health_of(rows_of(("on", "on", "on", ""), replicas), address_of(url))
    assert found.has_failover is has_failover
    assert found.replicas == tuple(Replica(*row) for row in replicas)
