import dataclasses
import enum
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.canonical import canonical
from tests.processes import import_path


class Point(msgspec.Struct, frozen=True):
    x: int = 0


class Other(msgspec.Struct, frozen=True):
    x: int = 0


@dataclasses.dataclass(frozen=True)
class Data:
    x: int = 0


class Pair(NamedTuple):
    a: object
    b: object


class Colour(enum.Enum):
    RED = 1


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=2)
    | st.floats(-2, 2)
    | st.binary(max_size=2),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3) | st.builds(Pair, inner, inner),
    max_leaves=6,
)


@pytest.mark.slow
@given(VALUES, VALUES)
def test_equal_values_have_equal_bytes_and_others_have_not(a: object, b: object) -> None:
    assert (canonical(a) == canonical(b)) == (a == b)


def test_classes_with_equal_fields_are_told_apart() -> None:
    values = [
        Point(),
        Other(),
        Data(),
        0,
        (0,),
        frozenset({0}),
        {0: 0},
        Colour.RED,
        "0",
        b"0",
        msgspec.Raw(b"0"),
    ]
    assert len({canonical(value) for value in values}) == len(values)


def test_what_cannot_be_hashed_has_bytes_too() -> None:
    assert canonical([1, {"b": 1, "a": 2}]) == canonical([1, {"a": 2, "b": 1}])


def test_what_has_no_bytes_of_its_own_is_refused() -> None:
    with pytest.raises(MisuseError, match="a state holds a deque"):
        canonical((1, deque([1])))


@pytest.mark.slow
def test_another_process_with_another_hash_seed_has_the_same_bytes() -> None:
    value = "(frozenset({'one', 'two', 'three'}), {'b': 1, 'a': frozenset('xyz')}, 2.0, True)"
    script = f"from callboard.replay.testing.canonical import canonical; print(canonical({value}).hex())"
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": import_path(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(found) == 1
