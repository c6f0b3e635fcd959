"""A runtime whose log is on a PostgreSQL server: sessions, forks, restarts, and limits of the server."""

import asyncio
from collections.abc import Iterator

import pytest

from callboard import Agent, Runtime, ScriptedModel, call, say, tool
from callboard.errors import SessionFailed, StoreError
from callboard.replay.page.building import LivePage
from callboard.replay.recording import Recording, sessions
from callboard.runtime.log.reading import open_reader
from tests.pages import ROOT, blocks
from tests.postgres_server import execute
from tests.runtime.log.postgres.places import OnServer, on_server


@tool(effect="write")
def note(text: str) -> str:
    """Note a text."""
    return f"noted {text}"


HOST = Agent("host", tools=[note])
STEPS = [call("note", text="a"), say("done")]


def a_runtime(url: str, turns: int = 1, **options: object) -> Runtime:
    return Runtime(url, model=ScriptedModel(STEPS * turns), **options)  # type: ignore[arg-type]  # of tests


@pytest.fixture
def place() -> Iterator[OnServer]:
    with on_server() as place:
        yield place


def test_a_session_is_recorded_resumed_and_forked(place: OnServer) -> None:
    async def begin() -> str:
        async with a_runtime(place.url) as runtime:
            session = await runtime.open(HOST)
            assert (await session.ask("go")).text == "done"
            return session.session_id

    async def go_on(name: str) -> str:
        async with a_runtime(place.url, 2) as runtime:
            session = await runtime.resume(name, HOST)
            assert (await session.ask("again")).text == "done"
            fork = await runtime.fork(name, HOST)
            return fork.session_id

    name = asyncio.run(begin())
    fork = asyncio.run(go_on(name))
    assert {row.session_id: row.parent for row in sessions(place.url)} == {name: "", fork: name}
    for one in (name, fork):
        with Recording.open(place.url, one) as recording:
            assert recording.verify().is_ok


def test_a_followed_page_grows_with_the_session(place: OnServer) -> None:
    async def work() -> None:
        async with a_runtime(place.url, 2) as runtime:
            session = await runtime.open(HOST)
            await session.ask("go")
            with open_reader(place.url) as reader:
                page = LivePage(reader, session.session_id)
                lines = b"".join(page.page()).count(b"\n")
                first = (await runtime.log.head(session.session_id)).seq
                await session.ask("again")
                more = page.more(0, first)
                assert b"again" in more
                assert lines
                assert page.more(more.count(b"\n"), (await runtime.log.head(session.session_id)).seq) == b""

    asyncio.run(work())


def test_connections_that_the_server_closes_are_made_again_between_asks(place: OnServer) -> None:
    cut = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name = 'callboard' AND datname = current_database()"
    )

    async def work() -> None:
        async with a_runtime(place.url, 3) as runtime:
            session = await runtime.open(HOST)
            for _ in range(3):
                assert (await session.ask("go")).is_ok
                assert execute(cut)

    asyncio.run(work())
    with Recording.open(place.url) as recording:
        assert recording.verify().is_ok


def test_a_full_disk_of_the_server_stops_the_session_and_resume_goes_on(place: OnServer) -> None:
    schema = place.schema
    full = (
        f"CREATE FUNCTION {schema}.full_disk() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left' USING ERRCODE = '53100'; END $$; "
        f"CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.events EXECUTE FUNCTION {schema}.full_disk()"
    )

    async def work() -> tuple[str, int]:
        async with a_runtime(place.url, 2) as runtime:
            session = await runtime.open(HOST)
            assert (await session.ask("go")).is_ok
            head = (await runtime.log.head(session.session_id)).seq
            execute(full)
            with pytest.raises(SessionFailed, match="make room on the server's disk"):
                await session.ask("again")
            return session.session_id, head

    name, head = asyncio.run(work())
    assert sessions(place.url)[0].head == head
    execute(f"DROP FUNCTION {schema}.full_disk CASCADE")

    async def go_on() -> None:
        async with a_runtime(place.url, 4) as runtime:
            session = await runtime.resume(name, HOST)
            assert (await session.ask("again")).is_ok

    asyncio.run(go_on())
    with Recording.open(place.url, name) as recording:
        assert recording.verify().is_ok


def test_short_time_limits_of_the_role_break_no_session(place: OnServer) -> None:
    limits = ("idle_session_timeout", "idle_in_transaction_session_timeout")

    async def work() -> None:
        async with a_runtime(place.url, 2) as runtime:
            session = await runtime.open(HOST)
            for _ in range(2):
                assert (await session.ask("go")).is_ok
                await asyncio.sleep(0.05)  # in which the server closes both connections

    try:
        for limit in limits:
            execute(f"ALTER ROLE owner SET {limit} = '20ms'")
        asyncio.run(work())
    finally:
        for limit in limits:
            execute(f"ALTER ROLE owner RESET {limit}")


def test_an_address_that_is_none_is_refused_without_its_password() -> None:
    for url in ("mysql://me:geheim@db/agents", "postgresql://me:geheim@db:port/agents"):
        with pytest.raises(Exception, match=r"not a store|cannot be read") as raised:
            Runtime(url)
        assert "geheim" not in str(raised.value)

    async def open_it() -> None:
        async with Runtime("postgresql://me:geheim@127.0.0.1:1/agents"):
            pytest.fail("opened")

    with pytest.raises(StoreError) as failed:
        asyncio.run(open_it())
    assert "geheim" not in f"{failed.value!r} {failed.value.__cause__!r} {failed.value.__context__!r}"


def test_the_page_about_servers_runs(place: OnServer, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks((ROOT / "docs" / "postgres.md").read_text()):
        if block.language == "python":
            exec(block.text.replace("postgresql://app@db.example/agents", place.url), {})
    assert capsys.readouterr().out == "There are 3 files.\nNone\n"
