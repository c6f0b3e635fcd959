"""Commands on a log that a PostgreSQL server keeps: they print what they print for the same log in a file."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from callboard.cli import summary_view
from callboard.cli.main import cli
from callboard.cli.mcp_recordings import Recordings
from callboard.replay.recording import Recording, sessions
from callboard.runtime.log.reading import open_reader
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.postgres_server import Server, execute, shared

SCHEMA = "of_commands"


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == code, done.output
    return done


def stored(log: str) -> dict[str, list[str]]:
    """Return the digests of all sessions of a log, and the parent of each."""
    with open_reader(log) as reader:
        return {
            row.session_id: [row.parent, *(one.digest.hex() for one in reader.events(row.session_id))]
            for row in reader.sessions()
        }


async def fork_first(path: Path) -> None:
    log = SQLiteLog(path)
    await log.open()
    (row, *_) = [one for one in await log.sessions() if one.head > 10]
    await log.fork("a fork", row.created_ms + 1, "forked", row.session_id, 7)
    await log.close()


@pytest.fixture(scope="module")
def places(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Put the same sessions, one of them a fork, into a file and onto a server."""
    server, folder = shared(), tmp_path_factory.mktemp("server")
    path, exported = folder / "own.db", folder / "all.jsonl"
    path.write_bytes(recorded.read_bytes())
    asyncio.run(fork_first(path))
    run("export", "--all", "--log", str(path), "-o", str(exported))
    said = run("import", str(exported), "--log", with_password(server)).output
    assert "filled in the usage of 3" in run("usage", "--fill", "--log", with_password(server)).output
    assert "imported into postgresql://owner@/" in said
    assert "geheim" not in said
    yield str(path), with_password(server)
    execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def with_password(server: Server) -> str:
    return server.url(SCHEMA).replace("owner@", "owner:geheim@")


def test_sessions_go_from_a_file_to_a_server_and_back_as_they_are(
    places: tuple[str, str], tmp_path: Path
) -> None:
    path, url = places
    assert stored(url) == stored(path)
    run("export", "--all", "--log", url, "-o", str(tmp_path / "back.jsonl"))
    run("import", str(tmp_path / "back.jsonl"), "--log", str(tmp_path / "back.db"))
    assert stored(str(tmp_path / "back.db")) == stored(path)
    assert "4 sessions" in run("verify", "--all", "--log", url).output


@pytest.mark.parametrize(
    "command",
    ["sessions", "sessions --json", "tree", "show", "events", "search files", "usage", "diagnose",
     "events --json", "export", "export --format html", "request 5", "why 7", "approvals", "budgets"],
)  # fmt: skip
def test_a_command_prints_the_same_for_both(
    places: tuple[str, str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, url = places
    monkeypatch.setattr(summary_view, "now_ms", lambda: 1_800_000_000_000)  # of "the last event was ... ago"
    words = command.split()
    (in_file, on_server) = (CliRunner().invoke(cli, [*words, "--log", log]) for log in (path, url))
    assert in_file.exit_code == 0, in_file.output
    named = on_server.output.replace("postgresql://owner@/", "")
    assert "geheim" not in on_server.output
    assert plain(named) == plain(in_file.output)


def plain(text: str) -> str:
    """Return a text without the addresses of logs."""
    lines = (line.split(" --log ")[0] for line in text.splitlines())
    return "\n".join(line for line in lines if '"log":' not in line)


def test_recordings_and_tools_for_assistants_take_the_address(places: tuple[str, str]) -> None:
    path, url = places
    with Recording.open(url) as here, Recording.open(path) as there:
        assert here.verify().is_ok
        assert list(here.events) == list(there.events)
    assert [row.session_id for row in sessions(url)] == [row.session_id for row in sessions(path)]
    served = Recordings(lambda: open_reader(url))
    assert "a fork" in asyncio.run(served.sessions())
    assert "all as recorded" in asyncio.run(served.verify())


def test_doctor_looks_at_the_server(places: tuple[str, str]) -> None:
    said = CliRunner().invoke(cli, ["doctor", "--json", "--log", places[1]]).output
    facts = json.loads(said)["log"]
    assert facts["sessions"] == "4 sessions"
    assert f"?schema={SCHEMA}" in facts["server"]
    assert len(sessions(facts["server"])) == 4  # so a printed command finds the log
    assert "geheim" not in said


def test_sessions_are_deleted_on_a_server(places: tuple[str, str]) -> None:
    url = places[1]
    assert "deleted" in run("delete", "a fork", "--yes", "--log", url).output
    assert "bytes less than before" in run("vacuum", "--log", url).output
    assert len(sessions(url)) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sessions", "--log", "mysql://me:geheim@db/agents"], "mysql:// is not a store"),
        (["sessions", "--log", "postgresql://me:geheim@127.0.0.1:1/agents"], "check that the server runs"),
        (["sessions", "--log", "postgresql://me:gehe/im@db/agents"], "a `/` in them is written %2F"),
        (["sessions", "--log", "postgresql://me:geheim@db/agents?sslmod=x"], "'sslmod' is not a parameter"),
        (["memory", "postgresql://me:geheim@127.0.0.1:1/agents"], "the memory's server cannot be used"),
        (["export", "--format", "db", "-o", "a.db"], "callboard import all.jsonl"),
        (["cancel", "s"], "no worker and no program runs session s, so nothing can be cancelled"),
    ],
)
def test_a_refusal_names_the_next_step_and_no_password(
    places: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if not any("//" in word for word in words):
        words = [*words, "--log", places[1]]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code != 0
    assert said in done.output
    assert "gehe" not in done.output
