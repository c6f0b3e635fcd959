"""Output types for tests: pydantic models, dataclasses and Structs, at the top of a module."""

import dataclasses
import datetime
import pathlib
import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic

T = TypeVar("T")
RELEASE = threading.Event()
WAITED: list[bool] = []
"""Ends a validator that hangs."""


class Finding(pydantic.BaseModel):
    """A model with an alias, a date, a default and a validator."""

    path: str = pydantic.Field(alias="filePath")
    lines: int
    seen: datetime.date | None = None
    folder: pathlib.Path = pathlib.Path()

    @pydantic.field_validator("lines")
    @classmethod
    def _is_positive(cls, value: int) -> int:
        if value <= 0:
            raise ValueError("a file has at least one line")
        return value


class Tree(pydantic.BaseModel):
    """A model that contains itself, with a validator of the whole."""

    name: str
    below: list["Tree"] = []

    @pydantic.model_validator(mode="after")
    def _has_unlike_names(self) -> "Tree":
        names = [one.name for one in self.below]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name} has two children of one name")
        return self


class Page(pydantic.BaseModel, Generic[T]):
    """A generic model."""

    items: list[T]


class Shouted(pydantic.BaseModel):
    """A model whose validators change values, which a recorded report must not go through again."""

    text: Annotated[str, pydantic.AfterValidator(str.upper)]
    never: Annotated[int, pydantic.PlainValidator(lambda value: value + 1)] = 0


@pydantic.dataclasses.dataclass
class Sized:
    """A dataclass of pydantic."""

    size: Annotated[int, pydantic.Field(lt=10)]


@dataclasses.dataclass
class Span:
    """A plain dataclass with a check."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise ValueError("last is before first")


@dataclasses.dataclass
class Located:
    """A plain dataclass with a pydantic model inside."""

    finding: Finding
    spans: list[Span] = dataclasses.field(default_factory=list)


class Counted(msgspec.Struct):
    """A Struct with a bound that is in the schema, and a generic one."""

    files: Annotated[int, msgspec.Meta(ge=0)]
    next: "Counted | None" = None


class Boxed(msgspec.Struct, Generic[T]):
    """A generic Struct."""

    inner: T


class Row(TypedDict):
    """A TypedDict."""

    name: str
    note: NotRequired[str]


class Pair(NamedTuple):
    """A NamedTuple."""

    left: int
    right: str


class Rude(pydantic.BaseModel):
    """A model whose validator breaks or hangs."""

    how: Literal["raises", "exits", "hangs", "behaves"]

    @pydantic.field_validator("how")
    @classmethod
    def _behaves(cls, how: str) -> str:
        if how == "raises":
            raise RuntimeError("the disk is full of sk-ant-REDACTED-KEY")
        if how == "exits":
            sys.exit(3)
        if how == "hangs":
            WAITED.append(RELEASE.wait(30))
        return how


class Callback(pydantic.BaseModel):
    """A model that JSON cannot carry."""

    function: Callable[[], int]


class Unknown(pydantic.BaseModel):
    """A model with an annotation that names nothing."""

    value: "Nothing"  # type: ignore[name-defined]  # noqa: F821  # a name that is not there, on purpose


class Plain:
    """A class without a schema."""


def local_type() -> Any:
    class Local(pydantic.BaseModel):
        n: int

    return Local
