"""The secrets of a runtime: their places, and how they are kept out of everything it writes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Protocol, runtime_checkable

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.messages import AnyMessage
from callboard.runtime.secrets.key_patterns import KEY_PATTERNS
from callboard.runtime.secrets.messages import redact_message, refuse
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.refs import SecretPattern, SecretRef
from callboard.runtime.secrets.stream_buffer import StreamBuffer


@runtime_checkable
class HoldsSecrets(Protocol):
    """An object with secrets of its own, such as a model with an API key."""

    def secrets(self) -> Mapping[str, str]:
        """Return the values by name. Called when a session is opened; the values are never logged."""


class Secrets:
    """The secrets of one runtime.

    given: references, patterns, and plain values, which are named by their place (`[secret:1]`).
    finds_keys: also find keys by their well-known patterns.

    Raises MisuseError for two of one name, and for values that are too short to search for.
    """

    def __init__(
        self, given: Iterable[str | SecretRef | SecretPattern] = (), *, finds_keys: bool = True
    ) -> None:
        if isinstance(given, str):
            raise MisuseError("secrets is a list: secrets=[SecretRef('NAME')]")
        self._refs: dict[str, SecretRef] = {}
        patterns: list[SecretPattern] = []
        values: dict[str, str] = {}
        for place, each in enumerate(given, 1):
            if isinstance(each, SecretRef):
                if each.name in self._refs:
                    raise MisuseError(f"two secrets are named {each.name}; give one of them another name")
                self._refs[each.name] = each
            elif isinstance(each, SecretPattern):
                patterns.append(each)
            else:
                values[str(place)] = each
        self._has_own = bool(patterns)
        self.redactor = Redactor([*patterns, *_key_patterns()] if finds_keys else patterns)
        self._learn(values)

    def __repr__(self) -> str:
        return f"Secrets({sorted(self._refs)})"

    def learn_early(self, holders: Iterable[object] = ()) -> None:
        """Read the values of variables, files and models.

        A missing value, or one that is too short, raises its error only when a tool asks for it.
        """
        for ref in self._refs.values():
            with suppress(MisuseError):
                if ref.is_early:
                    self.redactor.learn(ref.name, ref.resolve())
        for holder in holders:
            if isinstance(holder, HoldsSecrets):
                self._learn(holder.secrets())

    def _learn(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            self.redactor.learn(name, value)

    def value(self, name: str) -> str:
        """Return a secret's value, and search for it from now on. Raises UnknownName, MisuseError."""
        ref = self._refs.get(name)
        if ref is None:
            known = ", ".join(sorted(self._refs)) or "none"
            raise UnknownName(
                f"there is no secret {name!r:.80} in this runtime (there is: {known}); "
                "pass Runtime(secrets=[SecretRef(...)])"
            )
        value = ref.resolve()
        self.redactor.learn(name, value)
        return value

    # --- messages ------------------------------------------------------------------

    def admit(self, posts: Sequence[Post]) -> Sequence[Post]:
        """Return the posts of ports and clients without secrets. Raises InvalidPrompt for one in a name.

        One search covers all posts; each is searched alone only if that finds a secret.
        """
        redactor = self.redactor
        if redactor.is_idle or not redactor.may_be_in(b"\n".join([encode(post.body) for post in posts])):
            return posts
        return [
            post if (body := redact_message(redactor, post.body)) is post.body else Post(post.recipient, body)
            for post in posts
        ]

    def admitted(self, body: AnyMessage) -> AnyMessage:
        """Return one message without secrets, as `admit` does."""
        return redact_message(self.redactor, body)

    def refuse_in(self, what: str, name: str) -> None:
        """Raise InvalidPrompt if there is a secret in a name that is logged."""
        refuse(self.redactor, what, name)

    def stream(self, address: str, show: Callable[[str, str], object]) -> StreamBuffer:
        """Return the live text of one model call of an agent, which shows no secret."""
        return StreamBuffer(self.redactor, partial(show, address), by_line=self._has_own)


@cache
def _key_patterns() -> tuple[SecretPattern, ...]:
    return tuple(SecretPattern(name, pattern) for name, pattern in KEY_PATTERNS.items())


NO_SECRETS = Secrets(finds_keys=False)  # finds no secrets: for boards and tools outside of a runtime
