"""Logs with hostile bodies, and the digests of an export computed from nothing but the file."""

import asyncio
import io
import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append

HOSTILE = '\n\r\u2028\u2029\u0085\u202e\x7f\U000e0041\\"\u00e9\U0001f600 \x1b'
NUMBERS = ["1e2", "1E+2", "-0.0", "100", "0.10", "12345678901234567890"]

blanks = st.text(alphabet=" \n\t\r", max_size=3)
strings = st.text(alphabet=st.sampled_from(HOSTILE) | st.characters(codec="utf-8"), max_size=8)
leaves = strings.map(lambda text: json.dumps(text, ensure_ascii=False)) | st.sampled_from([*NUMBERS, "null"])


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 2) -> str:
    """Draw JSON texts as a hostile program writes them: white space everywhere, unusual numbers."""
    if depth == 0 or draw(st.booleans()):
        return draw(leaves)
    items = draw(st.lists(json_texts(depth - 1), max_size=3))
    return "[" + ",".join(draw(blanks) + item + draw(blanks) for item in items) + draw(blanks) + "]"


@st.composite
def bodies(draw: st.DrawFn) -> AnyMessage:
    """Draw a message; about every third holds a large value."""
    text = draw(json_texts())
    if draw(st.integers(0, 2)) == 0:
        text = f"[{text},{' ' * 1_100}{draw(st.sampled_from(['1e2', text]))}]"
    value = msgspec.Raw(text.encode())
    choice = draw(st.integers(0, 2))
    if choice == 0:
        return ToolReturned(1, 1, "ok", value)
    return CallTool(1, 1, "tool", "read", value) if choice == 1 else Cancel(draw(strings))


def events_of(messages: Iterable[AnyMessage]) -> list[Event]:
    """Make numbered events of these bodies; their senders and recipients have no meaning."""
    return [
        Event(seq, 1_700_000_000_000 + seq, "tools", "host\u2028", seq - 1, body)
        for seq, body in enumerate(messages, 1)
    ]


def log_of(events: list[Event], key: bytes | None = None, session_id: str = "s") -> MemoryLog:
    async def write() -> MemoryLog:
        log = MemoryLog(key)
        await log.open()
        await log.create(session_id, 1_700_000_000_000, f"a title{HOSTILE}")
        (answer,) = await log.append([Append(session_id, 0, 1, events)])
        assert not isinstance(answer, Exception), answer
        return log

    return asyncio.run(write())


def exported(log: MemoryLog, key: bytes | None = None, *, is_parsed: bool = False) -> bytes:
    """Export the newest session of the log as `jsonl`."""
    out = io.BytesIO()
    Recording.open(MemoryReader(log), key=key).export("jsonl", out, is_parsed=is_parsed)
    return out.getvalue()


def digests_in(content: bytes, key: bytes = b"") -> list[str]:
    """Compute the digests of an export's lines from the formula alone, without callboard."""
    header, *lines = (json.loads(line) for line in content.decode("ascii").splitlines())
    previous, cuts, found = bytes.fromhex(header["origin"]), [], []
    for line in lines:
        if "blob" in line:
            name = blake2b(line["data"].encode(), digest_size=32, person=b"callboard/blob").hexdigest()
            assert name == line["blob"]
        elif "cuts" in line:
            cuts = [[offset, bytes.fromhex(digest)] for offset, digest in line["cuts"]]
        else:
            name = next(
                (one for one, last in header.get("lineage", ()) if line["seq"] <= last), header["session"]
            )
            previous = _digest(name, previous, line, cuts, key)
            found.append(previous.hex())
            cuts = []
    return found


def _digest(session: str, previous: bytes, line: dict[str, Any], cuts: list[list[Any]], key: bytes) -> bytes:
    envelope = [line[name] for name in ("at", "sender", "recipient", "cause")]
    packed = msgspec.msgpack.encode([session, line["seq"], previous, *envelope, line["body"].encode(), cuts])
    return blake2b(packed, digest_size=32, person=b"callboard/1", key=key).digest()
