"""Models by name, `provider:name`, as `--model`, `Agent(model=...)` and `Runtime(model=...)` take them.

    anthropic:claude-sonnet-5      Claude over the Messages API; `claude-sonnet-5` alone means the same
    scripted:survey:policy         the script, policy or model `policy` of the module `survey`

A provider is a class, or a function, that takes the name after the colon and returns a `callboard.Model`, and
an entry point of its package: `local = "my_package.local_model:LocalModel"` in the group `callboard.models`.
If an optional library must be imported at the top of its file, name the extra that installs it,
`"my_package.local_model:LocalModel [local]"`, and the error for a missing library says so.
"""

from functools import cache
from typing import TYPE_CHECKING, Final

from callboard.actors.protocol.errors import CallboardError, MisuseError, UnknownName
from callboard.runtime.failure_text import failure_text
from callboard.runtime.models.protocol import Model, is_model

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "callboard.models"
_CLAUDE: Final = "claude-"


@cache  # a log tells models apart by their names, so two agents that name one model must share one object
def model_named(text: str) -> Model:
    """Return the model that `provider:name` names, the same object for the same text.

    Raises UnknownName for a provider that is not installed, and MisuseError for one that cannot make the
    model.

    >>> model_named("anthropic:claude-sonnet-5")
    AnthropicModel('claude-sonnet-5')
    """
    provider, colon, name = text.partition(":")
    if not colon and text.startswith(_CLAUDE):
        provider, name = "anthropic", text
    if not provider or not name:
        raise UnknownName(
            f"model {text!r} names no provider: write provider:name, for example "
            f"anthropic:claude-sonnet-5; {_installed()}"
        )
    return _made(_entry(provider), text, name)


def _entry(provider: str) -> "EntryPoint":
    from importlib.metadata import entry_points  # 20 ms that most programs never need

    found = list(entry_points(group=GROUP, name=provider))
    if not found:
        raise UnknownName(
            f"there is no model provider {provider!r}; {_installed()}; install the package that brings it "
            f"(one with an entry point {provider!r} in the group {GROUP!r})"
        )
    if len({one.value for one in found}) > 1:
        owners = ", ".join(sorted(f"{_package(one)} ({one.value})" for one in found))
        raise MisuseError(f"two packages bring the model provider {provider!r}: {owners}; uninstall one")
    return found[0]


def _package(entry: "EntryPoint") -> str:
    return entry.dist.name if entry.dist else "its package"


def _installed() -> str:
    from importlib.metadata import entry_points

    return f"installed providers: {', '.join(sorted(entry_points(group=GROUP).names)) or 'none'}"


def _made(entry: "EntryPoint", text: str, name: str) -> Model:
    try:
        factory = entry.load()
    except (ImportError, AttributeError) as error:
        extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
        raise MisuseError(
            f"model {text!r}: loading its provider {entry.value} failed with {failure_text(error)}; "
            f"install it again: pip install '{_package(entry)}{extras}'"
        ) from error
    try:
        model = factory(name)
    except CallboardError:
        raise
    except Exception as error:
        raise MisuseError(f"model {text!r}: its provider raised {failure_text(error)}") from error
    if not is_model(model):
        raise MisuseError(f"model {text!r}: its provider {entry.value} returned {model!r:.80}, not a Model")
    return model
