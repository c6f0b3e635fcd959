"""The views of the page server: pages of sessions, the list of all, open questions, costs, variants.

Everything here reads logs, and is used in one thread: a session of megabytes must not hold up an act.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.actors.session.fork_plan import begun_by_profile, plan_changed
from callboard.actors.session.place_names import is_number
from callboard.cli.fork_command import Variant, variant_json, variant_of
from callboard.replay.forks import ForkCost, fork_cost, lineage
from callboard.replay.page.building import LivePage, booted
from callboard.replay.page.live_pair import LivePair
from callboard.replay.page.sessions import KnownFindings, held_by, rows_json, sessions_page
from callboard.replay.recording import Recording
from callboard.runtime.clock import now_ms
from callboard.runtime.control.offline import open_questions, shown
from callboard.runtime.control.wire import ShownApproval
from callboard.runtime.log.protocol import LogReader
from callboard.runtime.log.session_rows import SessionRow

_PAGES_MAX: Final = 4
"""Sessions whose pages are kept: one of 50,000 events takes some 60 MB."""

_VARIANTS_MAX: Final = 50
_LISTED_MAX: Final = 100  # sessions whose findings are asked for at once
_SEARCHED_MAX: Final = 20  # sessions that are searched for one question
_CHANGED: Final = Json(b'"?"')  # in place of a value that is not typed yet

Asked = Mapping[str, str]
"""The query of a request: the last value of each name."""


class Place(NamedTuple):
    """A session of a log, by its number, and the one it stands beside; empty for none."""

    log: int
    session: str
    beside: str = ""


class PageViews:
    """The views of some logs. Use it in one thread, the one that opens the logs too.

    names: of the logs, as a person knows them. openers: of their readers. shown: the only session that the
    server shows; None if it begins with all. words: what every page is told.
    """

    def __init__(
        self,
        names: Sequence[str],
        openers: Sequence[Callable[[], LogReader]],
        shown: Place | None,
        words: Mapping[str, object],
    ) -> None:
        self._names = names
        self._openers = openers
        self._shown = shown
        self._words = words
        self._readers: dict[int, LogReader] = {}
        self._questions: dict[Place, tuple[int, list[ShownApproval]]] = {}
        self._findings: dict[int, KnownFindings] = {}
        self._pages: OrderedDict[Place, LivePage] = OrderedDict()

    def close(self) -> None:
        """Close the logs."""
        for reader in self._readers.values():
            reader.close()

    # --- pages --------------------------------------------------------------------

    def page(self, asked: Asked) -> bytes:
        """Return the page of a session, or that of all sessions if none is asked for."""
        place = self.place(asked)
        if not place.session:
            return sessions_page(booted({**self._words, "logs": self._names}))
        words = {**self._words, "log": place.log, "session": place.session, "beside": place.beside}
        return b"".join(self._live(place).page(booted(words)))

    def more(self, asked: Asked) -> bytes:
        """Return what a page lacks; nothing if it has all."""
        page = self._live(self.place(asked))
        lines, events = number(asked, "lines"), number(asked, "events")
        if isinstance(page, LivePair):
            return page.more(lines, events, number(asked, "compared"))
        return page.more(lines, events)

    def place(self, asked: Asked) -> Place:
        """Return the place that a query names. Raises ValueError for a log that is not there."""
        if "session" not in asked and self._shown is not None:
            return self._shown
        log = number(asked, "log") if "log" in asked else 0
        if log >= len(self._openers):
            raise ValueError("there is no log of this number")
        return Place(log, asked.get("session", ""), asked.get("beside", ""))

    def _live(self, place: Place) -> LivePage:
        if place not in self._pages:
            reader = self.reader(place.log)
            pair = LivePair(reader, place.session, place.beside) if place.beside else None
            self._pages[place] = pair or LivePage(reader, place.session)
        self._pages.move_to_end(place)
        while len(self._pages) > _PAGES_MAX:
            self._pages.popitem(last=False)
        return self._pages[place]

    def reader(self, log: int) -> LogReader:
        """Return the reader of a log."""
        if log not in self._readers:
            self._readers[log] = self._openers[log]()
        return self._readers[log]

    # --- what pages ask for ---------------------------------------------------------

    def rows(self, asked: Asked) -> bytes:
        """Return the sessions of a log; with `limit` the newest ones."""
        limit = number(asked, "limit") if "limit" in asked else None
        return rows_json(self.reader(self.place(asked).log), limit)

    def findings(self, asked: Asked) -> bytes:
        """Return the findings of the sessions that a query names, in lines."""
        log = self.place(asked).log
        known = self._findings.setdefault(log, KnownFindings(self.reader(log)))
        return msgspec.json.encode(known.of(asked.get("sessions", "").split("\n")[:_LISTED_MAX]))

    def holding(self, asked: Asked) -> bytes:
        """Return which of the sessions that a query names, in lines, hold a text: see `held_by`."""
        reader = self.reader(self.place(asked).log)
        names = asked.get("sessions", "").split("\n")[:_SEARCHED_MAX]
        return msgspec.json.encode({name: held_by(reader, name, asked.get("text", "")) for name in names})

    def row(self, place: Place) -> SessionRow | None:
        """Return the row of a session; None if the log has none of this id."""
        rows = self.reader(place.log).sessions()
        return next((row for row in rows if row.session_id == place.session), None)

    def recorded_questions(self, place: Place) -> list[ShownApproval]:
        """Return the open questions of a session that no process runs."""
        row = self.row(place)
        if row is None or row.status == "closed":
            return []
        if place not in self._questions or self._questions[place][0] != row.head:
            self._questions = {place: (row.head, self._read_questions(place))}  # a page asks each second
        return self._questions[place][1]

    def _read_questions(self, place: Place) -> list[ShownApproval]:
        rows = Recording.open(self.reader(place.log), place.session).rows
        return [shown(place.session, one) for one in open_questions(place.session, rows, now_ms())]

    def cost(self, asked: Asked) -> bytes:
        """Return the cost of the fork that a query describes. Raises CallboardError for an impossible one."""
        place = self.place(asked)
        events = Recording.open(self.reader(place.log), place.session).events
        changed = [number({"seq": one}, "seq") for one in filter(None, asked.get("changes", "").split(","))]
        profiles = list(filter(None, asked.get("instructions", "").split("\n")))
        at = number(asked, "at") if asked.get("at") else None
        begun = begun_by_profile(events, profiles)
        planned = plan_changed(place.session, events, at, dict.fromkeys(changed, _CHANGED), begun)
        tokens = number(asked, "tokens") if asked.get("tokens") else None
        return msgspec.json.encode(
            _cost_json(fork_cost(events, planned.base, changed, profiles, tokens, _dollars(asked)))
        )

    def variants(self, asked: Asked) -> bytes:
        """Return the figures of a session and of its forks, the newest first."""
        place = self.place(asked)
        reader = self.reader(place.log)
        rows = reader.sessions()
        forks = lineage(rows, place.session).forks
        found = [self._variant(reader, one.session_id) for one in forks[:_VARIANTS_MAX]]
        starts = {one.session_id: one.seq for one in forks}
        status = {row.session_id: row.status for row in rows}
        return msgspec.json.encode(
            {
                "origin": variant_json(self._variant(reader, place.session)),
                "forks": [
                    {**variant_json(one), "at": starts[one.session], "status": status[one.session]}
                    for one in found
                ],
                "left_out": max(0, len(forks) - len(found)),
            }
        )

    def _variant(self, reader: LogReader, session_id: str) -> Variant:
        return variant_of(session_id, Recording.open(reader, session_id).events)


def number(asked: Asked, name: str) -> int:
    """Return a number of a query. Raises ValueError."""
    text = asked.get(name, "")
    if not is_number(text):
        raise ValueError(f"{name} is not a number")
    return int(text)


def _dollars(asked: Asked) -> float | None:
    text = asked.get("cost_usd", "")
    with contextlib.suppress(ValueError):
        if text and 0 <= float(text) < 2**53:
            return float(text)
    if text:
        raise MisuseError("cost_usd is a number of US dollars, such as 0.50")
    return None


def _cost_json(cost: ForkCost) -> dict[str, object]:
    return {
        "base": cost.base,
        "agents": cost.agents,
        "calls": cost.calls,
        "tools": cost.tools,
        "tokens": cost.usage.tokens,
        "micro_usd": cost.usage.micro_usd,
        "used_tokens": cost.used.tokens,
        "used_micro_usd": cost.used.micro_usd,
        "tokens_max": cost.tokens_max,
        "micro_usd_max": cost.micro_usd_max,
    }
