"""Tags, metadata and the title of a session, checked before they are logged."""

from collections.abc import Iterable, Mapping
from typing import Final

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.runtime.log.session_rows import TITLE_CHARS_MAX
from callboard.runtime.sanitize import clean_text, to_json
from callboard.runtime.secrets.registry import Secrets

TAGS_MAX: Final = 32
TAG_CHARS_MAX: Final = 200
METADATA_BYTES_MAX: Final = 8_192  # they stand in the session's row, which a list of sessions reads
_DEPTH_MAX: Final = 16


def checked_tags(tags: Iterable[str], secrets: Secrets) -> tuple[str, ...]:
    """Return the tags, each once. Raises MisuseError, and InvalidPrompt for a secret in one."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise MisuseError(f"tags={tags!r:.80} is a list of texts, such as tags=['user:42']")
    found = tuple(dict.fromkeys(checked_tag(tag) for tag in tags))
    if len(found) > TAGS_MAX:
        raise MisuseError(
            f"a session has at most {TAGS_MAX} tags, not {len(found)}; put the rest into metadata"
        )
    secrets.refuse_in("a tag", "\n".join(found))
    return found


def checked_tag(tag: object) -> str:
    """Return a tag that a log and a command line can hold. Raises MisuseError."""
    if not isinstance(tag, str) or not tag or len(tag) > TAG_CHARS_MAX or not tag.isprintable():
        raise MisuseError(f"tag {tag!r:.80}: a tag is 1 to {TAG_CHARS_MAX} printable characters")
    return tag


def metadata_json(metadata: Mapping[str, object] | None, secrets: Secrets) -> Json:
    """Encode metadata for the log. Raises MisuseError, and InvalidPrompt for a value that is not JSON."""
    if metadata is not None and not isinstance(metadata, Mapping):
        raise MisuseError(f"metadata={metadata!r:.80} is a dict, such as metadata={{'plan': 'free'}}")
    if not metadata:
        return NULL
    encoded = to_json(dict(metadata), max_bytes=METADATA_BYTES_MAX, max_depth=_DEPTH_MAX, what="The metadata")
    secrets.refuse_in("metadata", bytes(encoded).decode())
    return encoded


def title_text(prompt: object, secrets: Secrets) -> str:
    """Return the title that a log holds: the beginning of a text without secrets, '' for anything else."""
    return secrets.redactor.kept(clean_text(prompt), TITLE_CHARS_MAX) if isinstance(prompt, str) else ""
