"""Numbers and times for people, narrow enough for columns; prompts and values as texts."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.runtime.log.tree import prompt_text


def tokens(count: int) -> str:
    """Return a number of tokens in at most seven characters.

    >>> tokens(950), tokens(12_345), tokens(1_234_567)
    ('950', '12.3k', '1.23M')
    """
    if count < 10_000:
        return f"{count:,}"
    if count < 1_000_000:
        return f"{count / 1_000:.1f}k" if count < 99_950 else f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.2f}M"


def dollars(micro: int) -> str:
    """Return micro-dollars as dollars; `-` for zero.

    >>> dollars(0), dollars(41), dollars(1_234), dollars(12_345_678)
    ('-', '<$0.0001', '$0.0012', '$12.35')
    """
    if not micro:
        return "-"
    if micro < 50:
        return "<$0.0001"
    return f"${micro / 1_000_000:.4f}" if micro < 1_000_000 else f"${micro / 1_000_000:,.2f}"


_MILLISECONDS: Final = 100  # below, a tenth of a second tells nothing


def duration(milliseconds: int) -> str:
    """Return a length of time in its largest units; `?` if it is negative, as after a clock was set back.

    >>> [duration(ms) for ms in (4, 1_240, 59_960, 65_000, 7_380_000, 264_000_000, -1)]
    ['4ms', '1.2s', '1m00s', '1m05s', '2h03m', '3d01h', '?']
    """
    if milliseconds < _MILLISECONDS:
        return f"{milliseconds}ms" if milliseconds >= 0 else "?"
    seconds = milliseconds / 1_000
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes}m{round(seconds) % 60:02}s"
    days, hours = divmod(minutes // 60, 24)
    return f"{days}d{hours:02}h" if days > 1 else f"{minutes // 60}h{minutes % 60:02}m"


def local(at_ms: int) -> str:
    """Return a moment in local time, to the second."""
    return _formatted(at_ms, lambda moment: moment.astimezone().strftime("%Y-%m-%d %H:%M:%S"))


def local_time(at_ms: int) -> str:
    """Return the local time of day of a moment, to the millisecond."""
    return _formatted(at_ms, lambda moment: moment.astimezone().strftime("%H:%M:%S.%f")[:-3])


def utc(at_ms: int) -> str:
    """Return a moment for programs: ISO 8601 in UTC, to the millisecond.

    >>> utc(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return _formatted(at_ms, lambda moment: moment.isoformat(timespec="milliseconds")[:-6] + "Z")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "agent"), counted(1_000, "agent")
    ('1 agent', '1,000 agents')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def whole_prompt(prompt: Json) -> str:
    """Return the whole text of a prompt: of a list of blocks, one block a line."""
    value = msgspec.json.decode(prompt)
    if isinstance(value, str):
        return value
    return "\n".join(
        str(one.get("text") or f"[{one.get('type')}]") for one in value or () if isinstance(one, dict)
    )


def value_text(value: Json, longest: int = 200) -> str:
    """Return a text as it is, blocks by their texts and kinds, and any other value as JSON."""
    start = bytes(value)[:9]
    if start[:1] == b'"':
        return prompt_text(value, longest)
    if start != b'[{"type":':
        return json_text(value, longest)
    try:
        return " ".join(map(_block, msgspec.json.decode(value, type=list[_Block])))
    except msgspec.ValidationError:  # a value of a tool that only begins as blocks do
        return json_text(value, longest)


def json_text(value: Json, longest: int = 200) -> str:
    """Return JSON as a text, of which so many characters are shown."""
    return bytes(value)[: 4 * longest].decode("utf-8", "replace")


class _Source(msgspec.Struct):
    data: str = ""
    media_type: str = ""


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""
    source: _Source | None = None


def _block(block: _Block) -> str:
    """Return the text of a block, or its kind with the type and size of its data."""
    source = block.source
    if source is None or not source.data:
        return block.text or f"[{block.type}]"
    size = len(source.data) * 3 // 4
    said = f"{size:,} bytes" if size < 10_000 else f"{round(size / 1000):,} KB"
    return f"[{block.type}, {source.media_type}, {said}]"


def _formatted(at_ms: int, form: Callable[[datetime], str]) -> str:
    """Format milliseconds since 1970; the number itself if it is outside the calendar."""
    try:  # a damaged log may hold any number
        return form(datetime.fromtimestamp(at_ms // 1_000, UTC).replace(microsecond=at_ms % 1_000 * 1_000))
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
