"""What a runtime knows of secrets: where they are, and how they are kept out of everything it writes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, runtime_checkable

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.messages import AnyMessage
from callboard.runtime.secrets.key_patterns import KNOWN
from callboard.runtime.secrets.messages import admitted, refuse
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.refs import SecretPattern, SecretRef, checked_value
from callboard.runtime.secrets.stream_buffer import Holdback


@runtime_checkable
class HoldsSecrets(Protocol):
    """A model, say, that has secrets of its own: an API key."""

    def secrets(self) -> Mapping[str, str]:
        """Their values by name. Asked for when a session is opened, and never logged."""
        ...


class Secrets:
    """The secrets of one runtime.

    given: references, patterns, and plain values, which are named by their place (`[secret:1]`).
    finds_keys: whether well-known forms of keys are looked for as well.

    Raises MisuseError for two of one name, and for values that are too short to be looked for.
    """

    def __init__(
        self, given: Iterable[str | SecretRef | SecretPattern] = (), *, finds_keys: bool = True
    ) -> None:
        if isinstance(given, str):
            raise MisuseError("secrets is a list: secrets=[SecretRef('NAME')]")
        self._refs: dict[str, SecretRef] = {}
        own: list[SecretPattern] = []
        values: dict[str, str] = {}
        for place, each in enumerate(given, 1):
            if isinstance(each, SecretRef):
                if each.name in self._refs:
                    raise MisuseError(f"two secrets are named {each.name}; give one of them another name")
                self._refs[each.name] = each
            elif isinstance(each, SecretPattern):
                own.append(each)
            else:
                values[str(place)] = checked_value(str(place), each)
        self._has_own = bool(own)
        self.redactor = Redactor([*own, *_known()] if finds_keys else own)
        for name, value in values.items():
            self.redactor.learn(name, value)

    def __repr__(self) -> str:
        return f"Secrets({sorted(self._refs)})"

    def learn_early(self, holders: Iterable[object] = ()) -> None:
        """Learn what can be known before anybody asks: variables, files, and what models hold.

        A value that is not there, or too short to be looked for, is told to whoever asks for it.
        """
        for ref in self._refs.values():
            if ref.is_early:
                try:
                    self.redactor.learn(ref.name, ref.resolve())
                except MisuseError:
                    continue
        for holder in holders:
            if isinstance(holder, HoldsSecrets):
                for name, value in holder.secrets().items():
                    self.redactor.learn(name, value)

    def value(self, name: str) -> str:
        """A secret's value, which from now on is looked for. Raises UnknownName, MisuseError."""
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

    # --- what is handed in --------------------------------------------------------

    def admit(self, posts: Sequence[Post]) -> Sequence[Post]:
        """What ports and clients post, without secrets. Raises InvalidPrompt for one in a name.

        All is looked through at once, and one by one only if there may be a secret somewhere.
        """
        redactor = self.redactor
        if redactor.is_idle or not redactor.may_be_in(b"\n".join([encode(post.body) for post in posts])):
            return posts
        let_in = []
        for post in posts:
            body = admitted(redactor, post.body)
            let_in.append(post if body is post.body else Post(post.recipient, body))
        return let_in

    def admitted(self, body: AnyMessage) -> AnyMessage:
        """One message without secrets. Raises InvalidPrompt for one in a name."""
        return admitted(self.redactor, body)

    def refuse_in(self, what: str, name: str) -> None:
        """Raise InvalidPrompt if there is a secret in a name that is logged."""
        refuse(self.redactor, what, name)

    def stream(self, address: str, show: Callable[[str, str], object]) -> "LiveText":
        """Live text of one model call of this agent, which shows no secret."""
        return LiveText(self, address, show)

    def holdback(self) -> Holdback:
        """What holds one stream of text back as long as it could become a secret."""
        return Holdback(self.redactor, by_line=self._has_own)


class LiveText:
    """Live text of an agent on its way to whoever watches; most calls have none."""

    __slots__ = ("_address", "_holdback", "_secrets", "_show")

    def __init__(self, secrets: Secrets, address: str, show: Callable[[str, str], object]) -> None:
        self._secrets = secrets
        self._address = address
        self._show = show
        self._holdback: Holdback | None = None

    def take(self, piece: str) -> None:
        """A piece has come."""
        if self._holdback is None:
            self._holdback = self._secrets.holdback()
        if text := self._holdback.take(piece):
            self._show(self._address, text)

    def end(self) -> None:
        """No more will come."""
        if self._holdback is not None and (text := self._holdback.rest()):
            self._show(self._address, text)


@cache
def _known() -> tuple[SecretPattern, ...]:
    return tuple(SecretPattern(name, pattern) for name, pattern in KNOWN.items())


NO_SECRETS = Secrets(finds_keys=False)
"""Looks for nothing: for boards and tools outside of a runtime."""
