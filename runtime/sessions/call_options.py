"""The options that `ask` and `run` share, for the overloads that type their outcomes."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict

from callboard.actors.protocol.limits import Limits

Prompt: TypeAlias = str | Sequence[Mapping[str, object]]


class AskOptions(TypedDict, total=False):
    """The options of `Session.ask`, apart from `output_schema`."""

    limits: Limits | None
    request_id: str


class RunOptions(AskOptions, total=False):
    """The options of `Runtime.run` and `run_sync`, apart from `output_schema`."""

    session_id: str
    tags: Sequence[str]
    metadata: Mapping[str, object] | None
