"""Random small sessions: who is there, what the models say, what bounds them, what comes in between.

Everything follows from a seed. What a model says depends on who asks in which turn, never on what else has
happened, so that two schedules of one plan differ only in order. A calm plan has nothing to fight over: no
budgets, races, cancels, deadlines or failing deciders.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from callboard.actors.addresses import SUPERVISOR
from callboard.actors.events import Event
from callboard.actors.limits import Limits
from callboard.actors.messages import AnyMessage, Ask, Cancel, Close, ModelFailure
from callboard.actors.profiles import Prices, Profile
from callboard.actors.request import ModelRequest
from tests.world import NO_LIMITS, Says, World, profile, task

SCHEMA = {"type": "object", "required": ["n"]}
OTHER_SCHEMA = {"type": "array"}
NO_SCHEMA = {"bad": True}
PRICES = Prices(input=3_000_000, output=15_000_000, cache_read=300_000)
AGENTS = {"host": ("kid", "sibling"), "kid": ("grandkid", "sibling"), "sibling": (), "grandkid": ("kid",)}
FAILURES = (
    ModelFailure("overloaded", is_retryable=True),
    ModelFailure("rate_limit", is_retryable=True, retry_after_ms=20),
    ModelFailure("invalid_request"),
    ModelFailure("context_full"),
)


@dataclass(frozen=True)
class Plan:
    """One session."""

    seed: int
    is_calm: bool = False

    def chance(self, *about: object) -> Random:
        """A source of chance for one question."""
        return Random(f"{self.seed}/{about}")

    # --- who is there -------------------------------------------------------------

    def profiles(self) -> list[Profile]:
        return [self._profile(name) for name in AGENTS]

    def _profile(self, name: str) -> Profile:
        dice = self.chance("profile", name)
        limits = Limits(
            max_iterations=dice.choice([1, 5, 8, None]), max_report_attempts=dice.choice([1, 2, 3])
        )
        if name != "host" and not self.is_calm and dice.random() < 0.5:
            limits = Limits(
                max_iterations=dice.choice([2, 4, None]),
                tokens=dice.choice([0, 4_000, 9_000, None, None]),
                cost=dice.choice([0.02, 0.05, None, None, None]),
                deadline_s=dice.choice([1, None, None]),
                max_model_attempts=dice.choice([1, 2, None]),
            )
        prices = PRICES if dice.random() < 0.9 else None
        schema = SCHEMA if name != "host" and dice.random() < 0.4 else None
        return profile(
            name, AGENTS[name], ["look"], writes=["save"], limits=limits, schema=schema, prices=prices
        )

    def limits(self) -> Limits:
        dice = self.chance("limits")
        depth, slots = dice.choice([0, 1, 2, 3, 3, 3]), dice.choice([1, 2, 3, None])
        if self.is_calm or dice.random() < 0.4:
            return Limits(max_depth=depth, max_parallel_calls=slots)
        return Limits(
            max_depth=depth,
            max_parallel_calls=slots,
            max_agents=dice.choice([1, 4, 10, None, None]),
            max_children=dice.choice([0, 2, 4, None, None]),
            tokens=dice.choice([4_000, 15_000, 40_000, None, None]),
            cost=dice.choice([0.2, None, None, None]),
            deadline_s=dice.choice([5, None, None]),
        )

    def ask(self, number: int) -> Ask:
        dice = self.chance("ask", number)
        world = World([profile("host")], lambda request: Says())
        limits = NO_LIMITS if self.is_calm else Limits(tokens=dice.choice([9_000, None, None, None]))
        world.ask(
            f"prompt {number}",
            dice.choice([None, SCHEMA, SCHEMA, OTHER_SCHEMA, NO_SCHEMA] if number else [None, SCHEMA]),
            limits,
            f"r{number}",
        )
        (ask,) = world.of(Ask)
        return ask

    # --- what the models say ------------------------------------------------------

    def says(self, request: ModelRequest) -> Says:
        dice = self.chance("says", request.address, request.turn, request.attempt)
        return replace(self._reply(request, dice), **self._used(dice))

    def _used(self, dice: Random) -> dict[str, Any]:
        """A share of what the call may use, or a few tokens, or (charged in full) nobody knows what."""
        if self.is_calm:
            return {"percent": dice.choice([None, 10, 100])}
        return {"percent": dice.choice([0, 10, 50, 100, None]), "usage": None}

    def _reply(self, request: ModelRequest, dice: Random) -> Says:
        roll = dice.random()
        if roll < 0.02:
            return Says(is_lost=True)
        if roll < 0.07:
            return Says(failure=dice.choice(FAILURES))
        if roll < 0.11:
            return Says(content=dice.choice([b"[]", b"[1]", b'"no"', b"[ ]"]))
        if roll < 0.15:
            stop = dice.choice(["refusal", "model_context_window_exceeded", "pause_turn", "max_tokens"])
            return Says("partly", stop_reason=stop)
        if roll < 0.25 + 0.1 * request.turn:
            return self._last_words(request, dice)
        uses = tuple(self._use(dice) for _ in range(dice.choice([1, 2, 2, 3])))
        if b"report_back" in b"".join(request.tools) and dice.random() < 0.2:
            uses = (*uses, _report(dice), _report(dice))
        return Says("I act", uses, dice.choice(["tool_use"] * 9 + ["max_tokens"]))

    def _last_words(self, request: ModelRequest, dice: Random) -> Says:
        reports = b"report_back" in b"".join(request.tools)
        if not reports or dice.random() < 0.3:
            return Says(dice.choice(["done", "done", ""]))
        uses = tuple(_report(dice) for _ in range(dice.choice([1, 1, 1, 2, 3])))
        return Says("I report", uses, "tool_use")

    def _use(self, dice: Random) -> tuple[str, dict[str, object]]:
        kind = dice.choice(["look"] * 3 + ["save"] + ["task"] * 6 + ["unknown", "report_back"])
        if kind != "task":
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
        return "task", {"agents": agents, "prompt": "work", **more}

    # --- what comes in between ----------------------------------------------------

    def raises(self, address: str, event: Event) -> bool:
        """In some plans a decider fails now and then, the supervisor's never."""
        if self.is_calm or self.seed % 4 or address == SUPERVISOR:
            return False
        return self.chance("raises", event.seq).random() < 0.03

    def interrupts(self, dice: Random, world: World) -> AnyMessage | None:
        """What the client does while an ask runs, once in a while."""
        if self.is_calm or dice.random() > 0.006:
            return None
        choices: list[AnyMessage] = [Cancel("enough"), Cancel(), self.ask(10 * len(world.log))]
        if not world.fires_timers:  # else the session may be over before its agents have drained
            choices.append(Close())
        return dice.choice(choices)


def _report(dice: Random) -> tuple[str, dict[str, object]]:
    return "report_back", dice.choice([{"n": 1}, {"n": 2}, {"m": 1}, {"value": [1]}])


def play(plan: Plan, schedule: int, asks: int = 2, kind: type[World] = World) -> World:
    """One run of a plan under the schedule of a seed, until nothing moves."""
    dice = Random(f"{plan.seed}/{schedule}")
    world = kind(plan.profiles(), plan.says, plan.limits(), raises=plan.raises)
    world.fires_timers = not plan.is_calm and plan.seed % 3 == 0
    world.open()
    for number in range(asks):
        world.client(plan.ask(number))
        while found := world.may_move():
            if interruption := plan.interrupts(dice, world):
                world.client(interruption)
            world.move(dice.randrange(found))
    if not world.fires_timers and plan.seed % 2:
        world.close()
        world.run()
    return world
