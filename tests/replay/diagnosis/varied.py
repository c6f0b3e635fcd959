"""Shared parts of the stories that vary one cause: in its wording, its tools and its language."""

from collections.abc import Callable
from typing import NamedTuple

from callboard.actors.protocol.profiles import Profile
from callboard.replay.diagnosis.finding import FindingKind
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scenario import profile

READS = ("look", "list_orders", "search_tickets", "hole_seite", "query", "fetch_url", "read_mail", "get_file")
WRITES = (
    *("save", "send_mail", "delete_rows", "transfer", "http_post"),
    *("run_shell", "überweise", "post_message"),
)


class Varied(NamedTuple):
    """A session, and the finding that names its cause; None for a healthy one."""

    name: str
    make: Callable[[], Recording]
    kind: FindingKind | None = None


def people() -> tuple[Profile, ...]:
    return profile("host", ["worker"], READS, writes=WRITES), profile("worker", tools=READS, writes=WRITES)


def names_the_cause(story: Varied) -> None:
    """Check that the diagnosis names the cause once, and nothing else."""
    found = story.make().diagnose()
    assert [one.kind for one in found] == [story.kind] * (story.kind is not None), [one.says for one in found]
    assert all(one.agent in one.says for one in found)
