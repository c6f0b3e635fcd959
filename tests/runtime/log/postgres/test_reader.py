"""PostgresReader: beside writers, over cut connections, closed twice."""

import pytest

from callboard.actors.protocol.errors import StoreFailed, WrongKey
from callboard.runtime.log.reading import open_reader
from tests.postgres_server import execute
from tests.runtime.log.kit import added, events, run
from tests.runtime.log.postgres.places import OnServer, on_server


def fill(place: OnServer, key: bytes | None = None) -> None:
    async def work() -> None:
        log = place.log(key)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 300))
        await log.close()

    run(work)


def test_a_reader_goes_on_when_the_server_closes_its_connection(place: OnServer) -> None:
    """Do as a pooler, or a limit of idle connections, does: between any two pages."""
    fill(place)
    with open_reader(place.url) as reader:
        for pages in (1, 2):
            seen = 0
            for page in reader.checked_pages("s", 300):
                seen += len(page)
                execute(
                    "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity "
                    "WHERE application_name = 'callboard' AND datname = current_database()"
                )
            assert (seen, pages > 0) == (300, True)


def test_a_closed_reader_says_so(place: OnServer) -> None:
    fill(place)
    reader = place.reader()
    reader.close()
    reader.close()
    with pytest.raises(StoreFailed, match="not open"):
        reader.sessions()


def test_a_reader_of_a_keyed_log_checks_the_key() -> None:
    with on_server() as place:
        fill(place, b"a key")
        with open_reader(place.url, b"a key") as reader:
            assert reader.verify_chain("s").seq == 300
            assert reader.key_check()
        with place.reader() as reader, pytest.raises(WrongKey):
            reader.verify_chain("s")
