"""The options that `ask` and `run` share, for the overloads that type their outcomes."""

from collections.abc import Mapping, Sequence
from typing import Generic, Literal, TypeAlias, TypedDict, TypeVar, cast

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.limits import Limits
from callboard.runtime.sessions.session_deps import FilesChoice, MemoryChoice

Deps = TypeVar("Deps")

JsonSchema: TypeAlias = Mapping[str, object]

OnCancel: TypeAlias = Literal["cancel", "detach"]
"""The effect on an ask when its caller is cancelled: `cancel` ends it too, `detach` lets it go on."""


class AskOptions(TypedDict, Generic[Deps], total=False):
    """The options of `Session.ask`, apart from `output_schema`. Deps: the type that its tools read."""

    limits: Limits | None
    request_id: str | None
    on_cancel: OnCancel
    deps: Deps | None
    labels: Sequence[str]


class OpenOptions(TypedDict, total=False):
    """The options of `Runtime.open` that `run` has too."""

    limits: Limits | None
    session_id: str | None
    tags: Sequence[str]
    files: FilesChoice
    memory: MemoryChoice
    metadata: Mapping[str, object] | None
    permissions: Bundle | None


class RunOptions(AskOptions[Deps], OpenOptions, Generic[Deps], total=False):
    """The options of `Runtime.run` and `run_sync`, apart from `output_schema`."""


PlainPrompt: TypeAlias = str | Sequence[Mapping[str, object]] | Mapping[str, object]
"""A prompt: a text, content blocks, or an object for an agent with a contract."""


class SubmitOptions(TypedDict, total=False):
    """The options of `Client.submit`, which `ask` has too."""

    host: str
    tags: Sequence[str]
    output_schema: Mapping[str, object] | None
    limits: Limits | None
    request_id: str | None
    labels: Sequence[str]


def split(options: RunOptions[Deps]) -> tuple[OpenOptions, AskOptions[Deps]]:
    """Return the options of `run` for `open`, which takes the limits, and for `ask`."""
    new = cast(
        "OpenOptions", {name: value for name, value in options.items() if name in OpenOptions.__annotations__}
    )
    ask = cast("AskOptions[Deps]", {name: value for name, value in options.items() if name not in new})
    if (limits := limits_of_ask(new.get("limits"))) is not None:
        ask["limits"] = limits
    return new, ask


def limits_of_ask(limits: Limits | None) -> Limits | None:
    """Return the limits of the one ask of a session that was opened for it; None for none of its own."""
    # Only this limit makes a difference: it bounds the questions of a program if its own ask states it.
    if not isinstance(limits, Limits) or limits.max_iterations is None:
        return None  # an object of another type is refused where the session is opened
    return Limits(max_iterations=limits.max_iterations)
