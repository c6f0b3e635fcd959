"""The type parameters of agents and sessions, for type checkers.

    Agent                           tools of any deps, an outcome with any JSON value
    Agent("n", output_schema=int)   Agent[Any, int]: its outcome is an int
    Agent[Shop]("clerk")            its tools read a Shop as `ctx.deps`: `run(clerk, ..., deps=3)` is an error

They change nothing while a program runs.
"""

from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeAlias

# With defaults, `Agent` alone is a complete type. Python itself has them from 3.13 on.
from typing_extensions import TypeVar

Deps_contra = TypeVar("Deps_contra", contravariant=True, default=Any)
Out_co = TypeVar("Out_co", covariant=True, default=object)

if TYPE_CHECKING:
    # The type of `Literal[...]` as a value, for which there is no public name before PEP 747.
    from typing import _SpecialForm as SpecialForm

    Untyped: TypeAlias = UnionType | SpecialForm
    """A type that is a schema, and that no `type[T]` takes: `int | str`, `Literal["a", "b"]`."""
    OtherSchema: TypeAlias = Mapping[str, object] | Untyped
    OutputSchema: TypeAlias = type[Out_co] | OtherSchema | None
