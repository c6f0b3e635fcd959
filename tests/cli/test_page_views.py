"""What the pages of a server ask for: sessions of several logs, costs and variants."""

import asyncio
import json
from pathlib import Path
from urllib.parse import urlencode

import pytest

from callboard.cli.page_views import Place
from tests.cli.page_kit import ACT_TOKEN, Site, rows_of
from tests.replay.page.test_live_pair import BLOCK


def test_each_log_has_its_own_sessions_and_findings(recorded: Path, own_log: Path) -> None:
    async def scene() -> None:
        site = Site(recorded, own_log)
        rows = rows_of(await site.get("rows", "log=1"))
        assert [row["session"] for row in rows] == [
            row["session"] for row in rows_of(await site.get("rows", "log=0"))
        ]
        names = [row["session"] for row in rows]
        found = await site.get("findings", urlencode({"log": 1, "sessions": "\n".join(names)}))
        assert sorted(json.loads(found.body)) == sorted(names)
        assert len(rows_of(await site.get("rows", "log=0&limit=1"))) == 1
        page = (await site.get()).body
        assert b'id="headings"' in page
        assert ACT_TOKEN.encode() not in page  # it is there in base64, beside the names of the logs
        pair = await site.get("session", urlencode({"session": names[0], "beside": names[1]}))
        assert len(BLOCK.findall(pair.body)) == 2

    asyncio.run(scene())


def test_sessions_are_searched_for_a_text_in_their_events(recorded: Path) -> None:
    async def scene() -> None:
        site = Site(recorded)
        names = [row["session"] for row in rows_of(await site.get("rows"))]

        async def holding(text: str, *sessions: str) -> dict[str, list[object]]:
            query = urlencode({"text": text, "sessions": "\n".join(sessions)})
            found: dict[str, list[object]] = json.loads((await site.get("holding", query)).body)
            return found

        prompts = {row["session"]: row["title"] for row in rows_of(await site.get("rows"))}
        for name, prompt in prompts.items():
            found = (await holding(prompt[5:25], *names))[name]
            assert found == [2, 2, " ".join(prompt.split()), "Ask"]
        assert (await holding("turnreq", names[0]))[names[0]][2:] == ["TurnRequested"] * 2
        assert await holding("in no session", *names) == {name: [] for name in names}
        gone = (await holding("text", "nobody"))["nobody"]
        assert (gone[:2], "nobody" in str(gone[2])) == ([0, 0], True)

    asyncio.run(scene())


def test_a_server_of_one_session_begins_with_it(recorded: Path) -> None:
    async def scene() -> None:
        site = Site(recorded, acts=False, shown=Place(0, "20250101-survey"))
        assert b'id="data"' in (await site.get()).body
        assert (await site.get("more", "lines=0&events=0")).status == 200
        assert (await site.get("waiting")).status == 404  # it only shows

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("name", "query", "status", "said"),
    [
        ("rows", "log=9", 410, "no log of this number"),
        ("rows", "log=x", 410, "log is not a number"),
        ("rows", "limit=-1", 410, "limit is not a number"),
        ("session", "session=nobody", 410, "nobody"),
        ("more", "session=nobody&lines=0&events=0", 410, "nobody"),
        ("findings", "sessions=nobody", 410, "nobody"),
        ("variants", "session=nobody", 410, "nobody"),
        ("holding", "sessions=20250101-survey&text=", 422, "search"),
        ("cost", "session=20250101-survey&at=999", 422, "events 1 to 28"),
        ("cost", "session=20250101-survey&changes=1", 422, "cannot be changed"),
        ("cost", "session=20250101-survey&at=3&tokens=x", 410, "tokens is not a number"),
        ("cost", "session=20250101-survey&at=3&cost_usd=-1", 422, "number of US dollars"),
        ("cost", "session=20250101-survey&at=3&cost_usd=nan", 422, "number of US dollars"),
        ("secrets", "", 404, ""),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_in_words(
    recorded: Path, name: str, query: str, status: int, said: str
) -> None:
    async def scene() -> None:
        got = await Site(recorded).get(name, query)
        assert got.status == status
        assert said in got.body.decode()

    asyncio.run(scene())


def test_the_cost_of_a_fork_is_stated_for_its_limits(recorded: Path) -> None:
    async def scene() -> None:
        query = urlencode({"session": "20250101-survey", "at": 3, "tokens": 50_000, "cost_usd": "0.5"})
        found = json.loads((await Site(recorded).get("cost", query)).body)
        assert (found["base"], found["calls"], found["tokens_max"]) == (3, 0, 50_000)
        assert found["micro_usd_max"] is not None

    asyncio.run(scene())
