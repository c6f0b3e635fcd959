"""Parts that the sessions of the mutants share: schemas, calls, and scripts of the models.

The reply of a model depends only on its agent and the turn.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.prompts import REPORT_BACK, TASK
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.scripted_replies import Policy, Reply, Use

SCHEMA: Final[dict[str, object]] = {"type": "object", "required": ["n"]}
OTHER: Final[dict[str, object]] = {"type": "object", "required": ["m"]}
THIRD: Final[dict[str, object]] = {"type": "object", "required": ["k"]}
REFUSED: Final[dict[str, object]] = {"bad": True}
PRICES: Final = Prices(input_usd=3, output_usd=15)
BUSY: Final = ModelFailure("overloaded", is_retryable=True)
BROKEN: Final = Reply(failure=ModelFailure("invalid_request"))
DONE: Final = Reply("done")

Line: TypeAlias = Reply | Callable[[ModelRequest], Reply]


def script(**parts: list[Line]) -> Policy:
    """Build a policy from the lines of each profile, turn by turn. After its last line an agent is done."""

    def policy(request: ModelRequest) -> Reply:
        lines = parts.get(request.profile, [])
        line = lines[request.turn - 1] if request.turn <= len(lines) else DONE
        return line if isinstance(line, Reply) else line(request)

    return policy


def place(request: ModelRequest) -> int:
    """Return the position of this child among its siblings, from 1."""
    return int(request.address.rpartition(".")[2])


def greedy(policy: Policy, percent: int = 100) -> Policy:
    """Change a policy: the same replies, which use this share of their reservation."""
    return lambda request: replace(policy(request), percent=percent)


def by_place(*lines: Reply) -> Callable[[ModelRequest], Reply]:
    """Give each sibling its own line, by position."""
    return lambda request: lines[(place(request) - 1) % len(lines)]


def race(*agents: str, schema: object = None) -> Use:
    """Build a delegation to several agents that race."""
    more = {} if schema is None else {"output_schema": schema}
    return TASK, {"agents": list(agents), "prompt": "work", **more}


LOOK: Final[Use] = ("look", {"path": "x"})
SAVE: Final[Use] = ("save", {"text": "x"})
PUT: Final[Use] = ("put", {"text": "x"})
PAY: Final[Use] = ("pay", {"text": "x"})
SEND: Final[Use] = ("send", {"text": "x"})
GOOD: Final[Use] = (REPORT_BACK, {"n": 1})
BETTER: Final[Use] = (REPORT_BACK, {"n": 2})
BAD: Final[Use] = (REPORT_BACK, {"m": 1})
