"""Random small sessions: agents, model replies, limits and faults.

Everything follows from a seed. A model's reply depends on the agent and the turn, never on other events, so
two schedules of one plan differ only in order. A calm plan has nothing to fight over: no budgets, races or
faults; it tells the same under every schedule.
"""

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Prices, Profile
from callboard.actors.protocol.prompts import REPORT_BACK, TASK
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults, faults
from callboard.replay.testing.sessions.scenario import NO_LIMITS, Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, Use, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order

SCHEMA: Final[dict[str, object]] = {"type": "object", "required": ["n"]}
OTHER_SCHEMA: Final[dict[str, object]] = {"type": "array"}
NO_SCHEMA: Final[dict[str, object]] = {"bad": True}
"""One that `check_required` refuses."""

PRICES: Final = Prices(input_usd=3, output_usd=15, cache_read_usd=0.3)
AGENTS: Final = {
    "host": ("kid", "sibling"),
    "kid": ("grandkid", "sibling"),
    "sibling": (),
    "grandkid": ("kid",),
}
FAILURES: Final = (
    ModelFailure("overloaded", is_retryable=True),
    ModelFailure("rate_limit", is_retryable=True, retry_after_ms=20),
    ModelFailure("invalid_request"),
    ModelFailure("context_full"),
)


@dataclass(frozen=True)
class Plan:
    """One session. asks: how many the client has."""

    seed: int
    is_calm: bool = False
    asks: int = 2

    def scenario(self) -> Scenario:
        """Return the session of this plan."""
        return Scenario(
            tuple(self._profile(name) for name in AGENTS),
            self.says,
            [self._ask(number) for number in range(self.asks)],
            self._limits(),
            closes=bool(self.seed % 2),
            reopens=self.seed % 4 == 1 and not self.is_calm,
            faults=self._faults(),
        )

    def _faults(self) -> Faults:
        """Choose the faults: of time in every third plan, of any kind in the others."""
        if self.is_calm:
            return NO_FAULTS
        if self.seed % 3:
            return faults(most=3, seed=self.seed)
        return faults("jump", "slow", "never", "overloaded", "unstarted", "finished", most=12, fault_mixes=0)

    def chance(self, *about: object) -> Random:
        """Return a source of random numbers for one question."""
        return Random(f"{self.seed}/{about}")

    # --- the agents -------------------------------------------------------------

    def _profile(self, name: str) -> Profile:
        dice = self.chance("profile", name)
        limits = Limits(
            max_iterations=dice.choice([1, 5, 8, None]), max_report_attempts=dice.choice([1, 2, 3])
        )
        if name != "host" and not self.is_calm and dice.random() < 0.5:
            limits = Limits(
                max_iterations=dice.choice([2, 4, None]),
                tokens=dice.choice([0, 4_000, 9_000, None, None]),
                cost_usd=dice.choice([0.02, 0.05, None, None, None]),
                deadline_s=dice.choice([1, None, None]),
                max_model_attempts=dice.choice([1, 2, None]),
            )
        prices = PRICES if dice.random() < 0.9 else None
        schema = SCHEMA if name != "host" and dice.random() < 0.4 else None
        return profile(
            name,
            AGENTS[name],
            ["look"],
            writes=["save"],
            repeats=["put"],
            asks=["pay"],
            limits=limits,
            schema=schema,
            prices=prices,
        )

    def _limits(self) -> Limits:
        dice = self.chance("limits")
        depth = dice.choice([0, 1, 2, 3, 3, 3])
        slots = dice.choice([1, 2, 3, None])
        if self.is_calm or dice.random() < 0.4:
            return Limits(max_depth=depth, max_parallel_calls=slots)
        return Limits(
            max_depth=depth,
            max_parallel_calls=slots,
            max_agents=dice.choice([1, 4, 10, None, None]),
            max_children=dice.choice([0, 2, 4, None, None]),
            tokens=dice.choice([4_000, 15_000, 40_000, None, None]),
            cost_usd=dice.choice([0.2, None, None, None]),
            deadline_s=dice.choice([5, None, None]),
            cancel_grace_s=dice.choice([0, 3, None]),
            max_tool_calls=dice.choice([2, None, None]),
            max_parallel_tools=dice.choice([1, None]),
        )

    def _ask(self, number: int) -> Ask:
        dice = self.chance("ask", number)
        limits = NO_LIMITS if self.is_calm else Limits(tokens=dice.choice([9_000, None, None, None]))
        schema = dice.choice([None, SCHEMA, SCHEMA, OTHER_SCHEMA, NO_SCHEMA] if number else [None, SCHEMA])
        return ask(f"prompt {number}", schema, limits, f"r{number}")

    # --- what the models say ------------------------------------------------------

    def says(self, request: ModelRequest) -> Reply:
        """Answer a request as the plan's policy: a function of the agent, the turn and the attempt."""
        dice = self.chance("says", request.address, request.turn, request.attempt)
        return msgspec.structs.replace(self._reply(request, dice), **self._used(dice))

    def _used(self, dice: Random) -> dict[str, Any]:
        """Choose the usage: a share of the need, a few tokens, or unknown (charged in full)."""
        if self.is_calm:
            return {"percent": dice.choice([None, 10, 100])}
        return {"percent": dice.choice([0, 10, 50, 100, None]), "usage": None}

    def _reply(self, request: ModelRequest, dice: Random) -> Reply:
        roll = dice.random()
        if roll < 0.02:
            return Reply(is_lost=True)
        if roll < 0.07:
            return Reply(failure=dice.choice(FAILURES))
        if roll < 0.11:
            return Reply(content=dice.choice([b"[]", b"[1]", b'"no"', b"[ ]"]))
        if roll < 0.15:
            stop = dice.choice(["refusal", "model_context_window_exceeded", "pause_turn", "max_tokens"])
            return Reply("partly", stop_reason=stop)
        if roll < 0.25 + 0.1 * request.turn:
            return self._last_words(request, dice)
        uses = tuple(self._use(dice) for _ in range(dice.choice([1, 2, 2, 3])))
        if _may_report(request) and dice.random() < 0.2:
            uses = (*uses, _report(dice), _report(dice))
        return Reply("I act", uses, dice.choice(["tool_use"] * 9 + ["max_tokens"]))

    def _last_words(self, request: ModelRequest, dice: Random) -> Reply:
        if not _may_report(request) or dice.random() < 0.3:
            return Reply(dice.choice(["done", "done", ""]))
        uses = tuple(_report(dice) for _ in range(dice.choice([1, 1, 1, 2, 3])))
        return Reply("I report", uses, "tool_use")

    def _use(self, dice: Random) -> Use:
        kind = dice.choice(["look"] * 3 + ["save", "put", "pay"] + [TASK] * 6 + ["unknown", REPORT_BACK])
        if kind != TASK:
            return kind, {"path": "x"}
        more: dict[str, object] = {}
        if dice.random() < 0.4:
            more["output_schema"] = dice.choice([SCHEMA, SCHEMA, OTHER_SCHEMA, NO_SCHEMA])
        if self.is_calm or dice.random() < 0.7:
            who = dice.choice(["kid", "kid", "sibling", "sibling", "grandkid", "nobody", ""])
            return task(who, "work", **more)
        if dice.random() < 0.5:
            return task(dice.choice(["kid", "sibling"]), "work", copies=dice.choice([2, 3]), **more)
        agents = dice.choice([["kid", "sibling"], ["sibling", "nobody"]])
        return TASK, {"agents": agents, "prompt": "work", **more}


def _may_report(request: ModelRequest) -> bool:
    return any(REPORT_BACK.encode() in bytes(tool) for tool in request.tools)


def _report(dice: Random) -> Use:
    return REPORT_BACK, dice.choice([{"n": 1}, {"n": 2}, {"m": 1}, {"value": [1]}])


def play(plan: Plan, schedule: int = 0) -> SessionWorld:
    """Run a plan under the schedule of a seed until no move is left."""
    return SessionWorld(plan.scenario()).run(in_random_order(f"{plan.seed}/{schedule}"))
