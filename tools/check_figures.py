"""Hold the figures of style and prose to tools/bounds.toml: `python -m tools.check_figures`."""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tools.prose_metrics import MEASURED, prose_of_folders, starts_with_verb
from tools.sources import SHIPPED
from tools.style_metrics import style_figures

BOUNDS: Final = Path(__file__).parent / "bounds.toml"


class Bound(NamedTuple):
    """A limit of one figure: `<= 5` or `>= 60`."""

    is_upper: bool
    value: float

    @classmethod
    def parse(cls, text: str) -> "Bound":
        """Read a bound.

        Raises:
            ValueError: the text is not `<=` or `>=` and a number.
        """
        sign, _, number = text.partition(" ")
        if sign not in ("<=", ">="):
            raise ValueError(f"write a bound as '<= 5' or '>= 5', not {text!r}")
        return cls(sign == "<=", float(number))

    def holds(self, figure: float) -> bool:
        """Tell whether a figure is within the bound."""
        return figure <= self.value if self.is_upper else figure >= self.value

    def __str__(self) -> str:
        return f"{'<=' if self.is_upper else '>='} {self.value:g}"


class Limit(NamedTuple):
    """The goal of one figure, and the bound that is checked until the goal is met."""

    goal: Bound
    held: Bound | None

    @property
    def checked(self) -> Bound:
        """Return the bound that must hold today."""
        return self.held or self.goal


def read_limits(path: Path = BOUNDS) -> dict[str, Limit]:
    """Read the table of bounds: figure -> limit."""
    table = tomllib.loads(path.read_text())
    return {
        name: Limit(Bound.parse(row["goal"]), Bound.parse(row["held"]) if "held" in row else None)
        for name, row in table.items()
    }


def current_figures() -> dict[str, float]:
    """Measure the repository: every figure that has a bound."""
    prose = prose_of_folders(*MEASURED)
    # Tests explain themselves by their names, so comments are counted in the shipped code only.
    comments = prose_of_folders(*SHIPPED).comments
    return {
        **style_figures(),
        "verb": prose.share(starts_with_verb),
        "odd": prose.odd,
        "comments": comments,
    }


def breaches(figures: Mapping[str, float], limits: Mapping[str, Limit]) -> Iterator[str]:
    """Yield a sentence for each figure that breaks its bound or has none, and for each outdated bound."""
    for name in figures.keys() - limits.keys():
        yield f"{name} has no bound; give it one in bounds.toml"
    for name, limit in limits.items():
        if name not in figures:
            yield f"{name}: no such figure; delete it from bounds.toml"
        elif not limit.checked.holds(figures[name]):
            yield f"{name} is {figures[name]:g}, must be {limit.checked} (goal {limit.goal})"
        elif limit.held and limit.goal.holds(figures[name]):
            yield f"{name} is {figures[name]:g} and meets its goal {limit.goal}: delete its line `held`"


def main() -> int:
    """Print every figure with its bounds; return 1 if one is broken."""
    figures, limits = current_figures(), read_limits()
    for name, limit in limits.items():
        held = f"  held {limit.held}" if limit.held else ""
        print(f"{name:20}{figures.get(name, 0):>10,}  goal {limit.goal}{held}")
    broken = list(breaches(figures, limits))
    for sentence in broken:
        print(sentence, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
