"""The tables of followers: owners see live followers of their own sessions, and each follows for itself."""

from collections.abc import Iterator

import pytest

from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.followers import (
    ALL_TEXT,
    EVENTS,
    HOST_TEXT,
    Followed,
    FollowerRow,
    FollowerTables,
    queue_warnings,
)
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.meta import prepare
from callboard.runtime.log.postgres.tables import Tables
from tests.postgres_server import execute
from tests.runtime.log.postgres.places import OnServer

NO_CIPHER: Cipher | None = None


@pytest.fixture
def leases(place: OnServer) -> Iterator[LeaseTables]:
    link = Link(address_of(place.url))
    prepare(link, HashChain(None), None)
    yield LeaseTables(Tables(link), NO_CIPHER)
    link.close()


@pytest.fixture
def tables(leases: LeaseTables) -> FollowerTables:
    return leases.followers


def owned(leases: LeaseTables, *sessions: str) -> int:
    """Return the number of an owner that has these sessions."""
    owner = leases.register("w", (), 0, 10_000)
    for session in sessions:
        assert leases.hold(owner, session, "host", steal=False) == ""
    return owner


def test_an_owner_sees_the_followers_of_its_own_sessions(leases: LeaseTables, tables: FollowerTables) -> None:
    first, second = owned(leases, "a", "b"), owned(leases, "c")
    assert tables.newest() == 0
    (one, channel), (two, other) = tables.register("one"), tables.register("two")
    assert channel != other
    rows = tables.follow(one, {"a": HOST_TEXT, "c": EVENTS, "of nobody": EVENTS})
    assert tables.newest() == max(rows.values())
    (row,) = tables.follow(two, {"a": ALL_TEXT}).values()
    assert sorted(tables.of_owner(first)) == [
        Followed(rows["a"], "a", HOST_TEXT, channel),
        Followed(row, "a", ALL_TEXT, other),
    ]
    assert tables.of_owner(second) == [Followed(rows["c"], "c", EVENTS, channel)]
    tables.unfollow([rows["a"]])
    assert tables.of_owner(first) == [Followed(row, "a", ALL_TEXT, other)]
    tables.leave(two)
    assert tables.of_owner(first) == []
    assert tables.newest() == max(rows.values())


def test_a_follower_that_does_not_renew_is_left_out_and_later_forgotten(
    place: OnServer, leases: LeaseTables, tables: FollowerTables
) -> None:
    owner = owned(leases, "a")
    gone, _ = tables.register("gone")
    tables.follow(gone, {"a": EVENTS})
    execute(f"UPDATE {place.schema}.followers SET ends_ms = ends_ms - 16000")
    assert tables.of_owner(owner) == []
    assert tables.followers() == []
    assert tables.renew(gone)  # it was only late
    assert [one.session for one in tables.of_owner(owner)] == ["a"]
    execute(f"UPDATE {place.schema}.followers SET ends_ms = ends_ms - 80000")
    tables.register("next")
    assert not tables.renew(gone)
    assert tables.newest() == 0


def test_followers_are_counted_with_what_they_follow(tables: FollowerTables) -> None:
    number, _ = tables.register("one")
    tables.register("idle")
    tables.follow(number, {"a": HOST_TEXT, "b": EVENTS, "c": ALL_TEXT})
    found = tables.followers()
    assert [one._replace(left_ms=0) for one in found] == [
        FollowerRow("one", 0, 3, 2),
        FollowerRow("idle", 0, 0, 0),
    ]
    assert all(0 < one.left_ms <= 15_000 for one in found)
    assert queue_warnings(tables.queue_usage()) == []


def test_a_queue_that_fills_up_is_named_with_the_step_that_empties_it() -> None:
    assert queue_warnings(0.09) == []
    (said,) = queue_warnings(0.5)
    assert "is 50% full" in said
    assert "pg_terminate_backend" in said


def test_each_wish_includes_those_before_it() -> None:
    wishes = [EVENTS, HOST_TEXT, ALL_TEXT]
    assert sorted(set(wishes)) == wishes
