"""Pages of recordings, and the session that stands in a page, read by its rules and nothing else."""

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from callboard.replay.page.packing import unpacked
from callboard.replay.recording import Recording

_DATA = re.compile(rb'id="data">([A-Za-z0-9+/=]*)</script>')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def page_of(recording: Recording) -> bytes:
    """Export a recording as a page."""
    out = io.BytesIO()
    recording.export("html", out)
    return out.getvalue()


def write_page(recording: Recording, folder: Path, name: str = "page.html") -> Path:
    """Write a page into a folder."""
    path = folder / name
    recording.export("html", path)
    return path


class PageData:
    """The data of a page. changes: (seq, new values by path, dropped paths), as they stand there."""

    def __init__(self, page: bytes) -> None:
        found = _DATA.findall(page)
        assert len(found) == 1, "a page has one block of data, in base64"
        lines = [line.decode() for line in unpacked(found[0])]
        self.bodies = ["", *(line for line in lines if line.startswith("{"))]
        self.words = ["", *(line for line in lines if line[:1] in (">", "!"))]
        self.shared = [json.loads(line[1:]) for line in lines if line.startswith("=")]
        self.summary: dict[str, Any] = json.loads(lines[-1].removeprefix("*"))
        self.changes = [_change(json.loads(line)) for line in lines if line.startswith("[")]

    def envelopes(self) -> list[tuple[int, int, str, str, int]]:
        """Return seq, time, sender, recipient, cause of each event."""
        summary, at, found = self.summary, self.summary["start"], []
        for place, by in enumerate(summary["times"]):
            at, seq = at + by, place + 1
            cause = seq - summary["causes"][place] if summary["causes"][place] else 0
            sender = summary["names"][summary["senders"][place]]
            found.append((seq, at, sender, summary["names"][summary["recipients"][place]], cause))
        return found

    def state(self, agent: str, seq: int) -> dict[str, Any]:
        """Return an agent's state after an event, by path."""
        state: dict[str, Any] = {}
        recipients = [envelope[3] for envelope in self.envelopes()]
        for at, values, dropped in self.changes:
            if at <= seq and recipients[at - 1] == agent:
                state |= {path: self.meant(value) for path, value in values.items()}
                for path in dropped:
                    del state[path]
        return state

    def meant(self, value: Any) -> Any:
        """Put the texts that stand for other texts and values back."""
        if isinstance(value, list):
            return [self.meant(one) for one in value]
        if isinstance(value, dict):
            return {name: self.meant(one) for name, one in value.items()}
        if not isinstance(value, str) or not value.startswith("~"):
            return value
        if value[1] == "~":
            return value[1:]
        if value[1] == "p":
            return self.meant(self.shared[int(value[2:])])
        seq, place = map(int, value[1:].split("."))
        return json.loads(_STRING.findall(self.bodies[seq])[place])


def _change(line: Sequence[Any]) -> tuple[int, dict[str, Any], list[str]]:
    return line[0], line[1], line[2] if len(line) > 2 else []
