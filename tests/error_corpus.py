"""Errors of model services, servers and gateways, as they send them, with the meaning that each must have.

`tests/data/errors.jsonl` has one in a line. The bodies are facts: they come from documentation and public
reports, without the names of accounts. `text` is a body that is no JSON; `headers` are those that matter.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data" / "errors.jsonl"


class Case(NamedTuple):
    """One answer. document: its body, decoded JSON or a text. code, retry, wait_ms: its meaning."""

    group: str
    who: str
    status: int
    document: Any
    code: str
    retry: bool
    wait_ms: int | None
    headers: dict[str, str]


def _read(line: str) -> Case:
    told = json.loads(line)
    return Case(
        told["group"],
        told["who"],
        told["status"],
        told["text"] if "text" in told else told["body"],
        told["code"],
        told.get("retry", False),
        told.get("wait_ms"),
        told.get("headers", {}),
    )


CASES = [_read(line) for line in DATA.read_text().splitlines()]


def group(*names: str) -> list[Case]:
    """Return the answers of some groups."""
    return [case for case in CASES if case.group in names]


FULL = group("full")
ACCOUNT = group("account")
REFUSED = group("refused")
IN_ANSWERS = group("in_answers")

WHOLE: list[object] = [
    {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}], "error": None},
    {"id": "r", "object": "response", "status": "completed", "error": None, "output": [{"type": "message"}]},
    {"candidates": [{"content": {"parts": [{"text": "Hi."}]}}]},
    {"output": {"message": {"role": "assistant", "content": [{"text": "Hi."}]}}, "stopReason": "end_turn"},
    {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"},
    {"choices": [], "usage": {"prompt_tokens": 4}},
    {"type": "response.output_text.delta", "delta": "error"},
    {"type": "message_start", "message": {"content": []}},
    {"type": "ping"},
    {"choices": [], "base_resp": {"status_code": 0, "status_msg": "success"}},
    {"id": "x", "choices": [{"delta": {"content": "an error"}}]},
    {},
    [],
    "error",
    None,
]
"""Documents and events that are no errors."""
