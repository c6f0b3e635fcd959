"""Who may act on a page: the exact origin, JSON, and a token that stands in a header."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.page_kit import ACT_HEADERS, HEADERS, ORIGIN, PORT, TOKEN, Site

CANCEL = {"id": "request-1", "does": {"command": "cancel", "session": "one", "seen": 1}}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": None}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": ORIGIN + "/"}, 403),
        ({"Origin": f"https://127.0.0.1:{PORT}"}, 403),
        ({"Origin": f"http://localhost:{PORT}"}, 403),  # another origin than that of the page
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"X_Callboard_Act": None}, 403),
        ({"X_Callboard_Act": ""}, 403),
        ({"X_Callboard_Act": "act-tokem"}, 403),
        ({"X_Callboard_Act": TOKEN}, 403),  # who has the address alone may only look
        ({"Content_Type": None}, 415),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": "application/json; charset=utf-8"}, 409),  # it passes, and no process owns the log
        ({}, 409),
    ],
)
def test_l13_an_act_needs_the_origin_the_type_and_the_token(
    recorded: Path, headers: dict[str, str | None], status: int
) -> None:
    async def scene() -> None:
        got = await Site(recorded).post(CANCEL, **headers)
        assert got.status == status
        assert status == 409 or got.body == b""

    asyncio.run(scene())


def test_l13_an_act_has_one_address_and_one_method_and_no_token_in_its_query(recorded: Path) -> None:
    async def scene() -> None:
        site, place = Site(recorded), f"/{TOKEN}/act"
        assert (await site.asked("GET", place, HEADERS)).status == 404
        assert (await site.asked("PUT", place, ACT_HEADERS)).status == 405
        assert (await site.asked("POST", f"/{TOKEN}/rows", ACT_HEADERS, b"{}")).status == 404
        assert (await site.asked("POST", "/wrong/act", ACT_HEADERS, b"{}")).status == 404
        bare = {name: value for name, value in ACT_HEADERS.items() if name != "X-Callboard-Act"}
        assert (await site.asked("POST", place, bare, b"{}", "token=act-token")).status == 403
        twice = Site(recorded, acts=False)
        assert (await twice.post(CANCEL)).status == 405  # it only shows

    asyncio.run(scene())
