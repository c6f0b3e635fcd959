"""The connection of the leases: open while its block runs, and a typed error outside of it."""

import asyncio

import pytest

from callboard.actors.protocol.errors import StoreFailed, StoreUnreadable
from callboard.runtime.log.postgres import link
from callboard.runtime.log.postgres.cluster import Leases
from tests.runtime.log.postgres.places import OnServer


def test_leases_are_used_inside_their_block_only(place: OnServer) -> None:
    async def scene() -> None:
        leases = Leases(place.url)
        with pytest.raises(StoreFailed, match="not open"):
            await leases.change(lambda one: one.workers())
        async with leases:
            assert await leases.change(lambda one: one.workers()) == []
        with pytest.raises(StoreFailed, match="not open"):  # its thread has ended: it would never answer
            await leases.change(lambda one: one.workers())
        with pytest.raises(StoreFailed, match="not open"):
            await leases.finish(1, "s")

    asyncio.run(scene())


def test_leases_that_cannot_connect_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.0)

    async def scene() -> None:
        leases = Leases("postgresql://u@/db?host=/nowhere")
        with pytest.raises(StoreUnreadable, match="check that the server runs"):
            await leases.__aenter__()
        assert not leases.is_open

    asyncio.run(scene())


def test_a_change_that_fails_changes_nothing(place: OnServer) -> None:
    async def scene() -> None:
        async with Leases(place.url) as leases:

            def fails(one: object) -> None:
                one.register("w", ["a"], 1, 1_000)  # type: ignore[attr-defined]  # the tables
                raise ValueError("no")

            with pytest.raises(ValueError, match="no"):
                await leases.change(fails)
            assert await leases.change(lambda one: one.workers()) == []

    asyncio.run(scene())
