"""An extension of Griffe: the site shows the parameters of a docstring as a list.

It stands apart from `tools.described`, because Griffe is only installed with the site.
"""

from collections.abc import Iterable

import griffe

from tools.described import with_lists


class ParameterLists(griffe.Extension):
    """Turns descriptions of parameters and fields into a list."""

    def on_class(self, *, cls: griffe.Class, **_: object) -> None:
        """Rewrite the docstring of a class: its fields and the parameters of its constructor."""
        names = [*cls.attributes, *(parameter.name for parameter in _constructor(cls))]
        _rewrite(cls, names)

    def on_function(self, *, func: griffe.Function, **_: object) -> None:
        """Rewrite the docstring of a function."""
        _rewrite(func, [parameter.name for parameter in func.parameters])


def _constructor(cls: griffe.Class) -> Iterable[griffe.Parameter]:
    made = cls.members.get("__init__")
    return made.parameters if isinstance(made, griffe.Function) else ()


def _rewrite(described: griffe.Object, names: Iterable[str]) -> None:
    if described.docstring is not None:
        described.docstring.value = with_lists(described.docstring.value, names)
