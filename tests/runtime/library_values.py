"""Values with the attributes by which those of numpy and pandas are recognised."""

import types


class Scalar:
    """A number as numpy has it: with `item`, a `dtype` and no shape."""

    dtype = types.SimpleNamespace(kind="i")
    shape = ()

    def __init__(self, value: object) -> None:
        self._value = value

    def item(self) -> object:
        return self._value

    def tolist(self) -> object:
        return self._value


class Moment(Scalar):
    dtype = types.SimpleNamespace(kind="M")

    def __str__(self) -> str:
        return str(self._value)


class Array:
    """An array as numpy, torch and others have it."""

    dtype = types.SimpleNamespace(kind="f")

    def __init__(self, items: list[object], length: int = 0) -> None:
        self._items, self._length = items, length or len(items)

    @property
    def shape(self) -> tuple[int]:
        return (self._length,)

    def tolist(self) -> list[object]:
        return self._items

    def __str__(self) -> str:
        return "[0 1 ... 9]"


class Index:
    """The labels of a table. is_counted: they are the numbers from 0 on."""

    start: int | None
    step: int | None

    def __init__(self, labels: list[object], is_counted: bool) -> None:
        self.labels, self.is_unique = labels, len(set(labels)) == len(labels)
        self.start, self.step = (0, 1) if is_counted else (None, None)


class Frame:
    """A data frame as pandas has it."""

    iloc = None
    columns = types.SimpleNamespace(is_unique=True)

    def __init__(self, rows: list[dict[str, object]], is_counted: bool = True) -> None:
        self.rows = rows
        self.index = Index(list(range(len(rows))), is_counted)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), 2

    def __len__(self) -> int:
        return len(self.rows)

    def head(self, count: int) -> "Frame":
        return Frame(self.rows[:count])

    def to_dict(self, orient: str) -> object:
        if orient == "records":
            return self.rows
        return {"index": self.index.labels, "data": [list(row.values()) for row in self.rows]}
