"""Reference pages that are lists of the code: docs/limits.md and docs/outcomes.md."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from callboard.actors.protocol.endings import EXPLAINED, STATUS
from callboard.actors.protocol.limits import DEFAULTS, TABLE
from callboard.cli import errors

_EXIT_CODES: Final = re.compile(r"^(\d+) +(.*)$", re.MULTILINE)


_CAPACITY: Final = (
    ("`calls`", "none", "calls of the model in flight"),
    (
        "`tokens_per_minute`",
        "none",
        "tokens of its calls; the size of the bucket, and the rate at which it fills",
    ),
)


def limits_page(notice: str) -> str:
    """Write docs/limits.md: every limit with its default."""
    rows = [(f"`{name}`", _number(getattr(DEFAULTS, name)), row.text) for name, row in TABLE.items()]
    return _page(
        notice,
        "# Limits",
        "Pass `Limits(...)` to a runtime, a session, an agent, or an ask.",
        "An agent has the narrowest of the limits that apply to it.",
        "[Limit cost](limit-cost.md) shows how to choose them.",
        "",
        *_table(("limit", "default", "bounds"), rows),
        "",
        "## Limits over all sessions",
        "",
        "Pass `capacity={name: Capacity(...)}` to a runtime, by the name of a model.",
        "[Share a model's capacity](capacity.md) shows how sessions take turns.",
        "",
        *_table(("limit", "default", "bounds"), _CAPACITY),
    )


def outcomes_page(notice: str) -> str:
    """Write docs/outcomes.md: how an ask or a delegation can end, and the exit codes of the commands."""
    kinds = [(f"`{kind}`", STATUS[kind], EXPLAINED[kind]) for kind in EXPLAINED]
    codes = _EXIT_CODES.findall(errors.__doc__ or "")
    return _page(
        notice,
        "# Outcomes and exit codes",
        "## Outcomes",
        "",
        "`outcome.kind` names the ending, `outcome.status` sums it up.",
        "A delegation ends in the same ways as an ask.",
        "",
        *_table(("kind", "status", "the agent"), kinds),
        "",
        "## Exit codes",
        "",
        "Every `callboard` command ends with one of these codes.",
        "",
        *_table(("code", "meaning"), codes),
    )


def _number(value: object) -> str:
    return "none" if value is None else f"{value:,g}" if isinstance(value, float) else f"{value:,}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _page(notice: str, title: str, *lines: str) -> str:
    return "\n".join([notice, "", title, "", *lines, ""])
