"""The parts of an error document that say what the error is, in the forms in which services write it.

Services put them at the top, below `error`, `errors` or `detail`, and gateways wrap the document of another
service, as JSON or as a text of JSON. So the whole document is walked, up to a bound, and its fields are
known by their names.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

DEPTH_MAX: Final = 16
FIELDS_MAX: Final = 400
WORDS_MAX: Final = 8_000  # characters of messages

# Names of fields without case and underscores.
_NAMES: Final = frozenset(
    {
        "code", "type", "status", "statuscode", "reason", "errortype", "errorcode", "errcode",
        "kind", "error", "httpcode", "providercode", "quotaid",
    }
)  # fmt: skip
_MESSAGES: Final = frozenset(
    {
        "message", "msg", "detail", "details", "errormsg", "errormessage", "statusmsg", "description",
        "title", "errordescription", "raw", "error", "errors", "faultstring", "providermessage",
    }
)  # fmt: skip
_ANSWERS: Final = ("choices", "candidates", "output", "content", "response", "message")
_PUNCTUATION: Final = re.compile(r"[^a-z0-9]+")
_PARTS: Final = re.compile(r"[#/.]")


class Told:
    """What an error document says. names: codes, types and statuses, squeezed. messages: in their order."""

    def __init__(self, document: object) -> None:
        self.names: set[str] = set()
        self.raw_names: list[str] = []
        self.messages: list[str] = []
        self.status = 0
        self._left = FIELDS_MAX
        self._walk(document, "message", 0)

    @property
    def words(self) -> str:
        """Return all messages."""
        return "; ".join(self.messages)[:WORDS_MAX]

    def name(self, text: str) -> None:
        """Take a name: as a whole, and its last part, as of `Throttling.RateQuota` or `aws#Throttling`."""
        head = text.partition(":")[0].strip()
        self.raw_names.append(head)
        self.names |= {squeezed(head), squeezed(_PARTS.split(head)[-1])} - {""}

    def _walk(self, value: object, field: str, depth: int) -> None:
        self._left -= 1
        if depth > DEPTH_MAX or self._left < 0:
            return
        if isinstance(value, dict):
            for name, one in value.items():
                self._walk(one, squeezed(str(name)), depth + 1)
        elif isinstance(value, list):
            for one in value[:50]:
                self._walk(one, field, depth + 1)
        elif isinstance(value, str):
            self._take_text(value.strip(), field, depth)
        elif type(value) is int and field in _NAMES:
            self._take_number(value)

    def _take_text(self, text: str, field: str, depth: int) -> None:
        if not text:
            return
        if text[0] in "{[" and (inner := parsed(text)) is not None:
            self._walk(inner, field, depth + 1)
        elif field in _NAMES and len(text) <= 100 and not re.search(r"\s", text):
            if text.isdecimal():
                self._take_number(int(text))
            else:
                self.name(text)
            if field == "error":
                self._say(text)
        elif field in _MESSAGES or (field == "type" and " " in text):
            self._say(text)

    def _take_number(self, number: int) -> None:
        self.names.add(str(number))
        if 400 <= number < 600 and not self.status:
            self.status = number

    def _say(self, text: str) -> None:
        if text not in self.messages:
            self.messages.append(text[:WORDS_MAX])


def squeezed(name: str) -> str:
    """Return a name without case and punctuation: services write one name in three ways."""
    return _PUNCTUATION.sub("", name[:200].lower())


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_error(document: object) -> bool:
    """Return whether a document with status 200 is an error in the place of an answer, or of an event."""
    if isinstance(document, list):  # Gemini puts it in a list where a stream was asked for
        return bool(document) and all(map(is_error, document))
    if not isinstance(document, dict):
        return False
    if document.get("error") or document.get("Error") or document.get("type") == "error":
        return True
    if document.get("object") == "error":  # vLLM, SGLang
        return True
    if _is_failed(document.get("base_resp")) or _has_error(document):
        return True
    if any(document.get(name) for name in _ANSWERS if name != "message"):
        return False
    told = {squeezed(str(name)) for name, value in document.items() if value}
    is_answer = isinstance(document.get("message"), dict)
    return not is_answer and bool(told & (_MESSAGES - {"title", "description", "raw"}))


def _is_failed(status: object) -> bool:
    """Return whether the field of MiniMax for the status says that the call failed."""
    return isinstance(status, Mapping) and status.get("status_code") not in (None, 0)


def _has_error(document: dict[str, Any]) -> bool:
    """Return whether the error is one step down: in a failed response, or a choice of OpenRouter."""
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    inner = (document.get("response"), choice)
    return any(isinstance(one, dict) and bool(one.get("error")) for one in inner)
