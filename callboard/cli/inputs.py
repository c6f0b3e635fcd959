"""The limits, schema and prompt of a command line, checked before anything is recorded."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.limits import TABLE, WHOLE, Limits
from callboard.cli.errors import Failure, misused, not_found
from callboard.runtime.sanitize import check_json
from callboard.runtime.schemas.engine import Refused, accept

_FACTORS: Final = {"k": 1_000, "m": 1_000_000}


def parse_limits(pairs: Sequence[str]) -> Limits:
    """Parse limits from `name=value` pairs; whole numbers may be written `200_000`, `200k` or `2m`."""
    stated: dict[str, float] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or name not in TABLE:
            raise misused(f"--limit {pair!r}: write NAME=VALUE; names: {', '.join(TABLE)}")
        stated[name] = _number(pair, text.strip().lower(), is_whole=name in WHOLE)
    try:
        return msgspec.convert(stated, Limits)
    except (ValueError, msgspec.ValidationError) as error:
        raise misused(f"--limit: {error}") from None


def _number(pair: str, text: str, *, is_whole: bool) -> float:
    factor = _FACTORS.get(text[-1:], 1) if is_whole else 1
    try:
        return int(text[:-1] if factor > 1 else text) * factor if is_whole else float(text)
    except ValueError:
        kind = "a whole number, such as 200000 or 200k" if is_whole else "a number"
        raise misused(f"--limit {pair!r}: the value must be {kind}") from None


def read_schema(path: str) -> Mapping[str, object] | None:
    """Read the JSON schema in a file; None for no file. Raises Failure if reports cannot be checked by it."""
    if not path:
        return None
    data = _bytes_of(Path(path))
    try:
        accept(bytes(check_json(data)))
        return msgspec.json.decode(data, type=dict[str, object])
    except InvalidPrompt as error:
        raise misused(f"{path} is not valid JSON: {error}") from None
    except Refused as refused:
        told = "; ".join(f"at {one.path or '/'}: {one.message}" for one in refused.problems[:3])
        raise misused(f"{path} is not a usable JSON schema: {told}") from None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        folder = path.parent if path.parent.is_dir() else Path.cwd()
        names = ", ".join(sorted(one.name for one in folder.glob("*.json"))[:8]) or "none"
        raise not_found(f"there is no file {path}; JSON files in {folder.resolve()}: {names}") from None
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}") from error


def read_prompt(prompt: str) -> str:
    """Return the prompt; for `-`, the text on stdin."""
    if prompt == "-":
        prompt = sys.stdin.read()
    if not prompt.strip():
        raise misused("the prompt is empty; describe the agent's task")
    return prompt
