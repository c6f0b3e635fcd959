"""Shares of capacity as `callboard cluster status` lists them."""

from typing import Final

from callboard.runtime.log.postgres.places import PlacesRow

SHARES: Final = ("model", "tag", "worker", "places", "in flight", "waiting", "free")


def place_row(one: PlacesRow) -> tuple[str, ...]:
    """Return a worker's places for a tag, its calls, and when the places of a lost worker are free."""
    free_ms = one.left_ms + one.timeout_ms
    free = "" if one.left_ms > 0 else f"in {max(0, free_ms) / 1_000:.1f} s"
    held = "no limit" if one.limit is None else f"{one.held}/{one.limit}"
    return (
        one.model,
        one.tag,
        one.name or f"number {one.worker}",
        held,
        str(one.in_flight),
        str(one.waiting),
        free,
    )
