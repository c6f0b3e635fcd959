"""Refusals that latch: whose they are, when the program hears of them, and which stay exceptions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from callboard.actors.protocol.bundles import Allowed, Rights
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.profiles import ModelSpec, Prices, Profile
from callboard.actors.protocol.usage import bound
from callboard.actors.supervisor.latching import LEAST_INPUT_BYTES, Left, bounds_questions, latch, with_latch
from callboard.actors.supervisor.state import NO_BOOKS, ProgramBooks
from callboard.actors.supervisor.unit_of_work import UnitOfWork
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import Asked, Script, calls, delegate, question, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.verify import Verifier
from tests.actors.harness import SessionHarness
from tests.mutants.scenarios_programs import Running, cast, everything
from tests.mutants.scripts import DONE
from tests.tables import table

BIG, SMALL = ModelSpec("big", 8_000), ModelSpec("small", 10)


def swallow(*asks: Asked) -> Script:
    """Make a program that asks for these one after the other, and returns its answer in any case."""

    def host(prompt: object) -> Running:
        got: list[object] = []
        for one in asks:
            answers = yield from everything(one)
            got.append(answers)
        return f"done: {got}"

    return host


def scenario(
    host: Script,
    *others: Profile,
    tokens: int = 400,
    models: Sequence[ModelSpec] = (BIG,),
    rules: int = 2,
    **scripts: Script,
) -> Scenario:
    names = [one.name for one in others]
    policy = cast({"host": host, **scripts}, kid=[DONE], boss=[calls(task("kid")), DONE], ask_model=[DONE])
    people = [program_profile("host", names, models=models), *others]
    model = ModelSpec("middle", 1_000)
    return Scenario(people, policy, [ask()], Limits(tokens=tokens), model=model, rules=rules)


def run(scenario: Scenario) -> tuple[str, str]:
    world = SessionWorld(scenario).run()
    assert not breaches_of(world)
    assert Verifier(world.log).run() is None
    return world.ended.kind, world.ended.text


QUESTION = question("q", model="big")


def test_a_refused_question_is_the_end_of_a_program_that_swallows_it() -> None:
    kind, text = run(scenario(swallow(QUESTION)))
    assert kind == "budget"
    assert text.startswith("done: ")


def test_of_an_amount_the_least_input_and_the_whole_reply_have_to_be_paid() -> None:
    # A reply of a hundred tokens costs 10,000 millionths, and the least input next to nothing.
    dear = ModelSpec("big", 100, prices=Prices(1, 100))
    asked = scenario(swallow(QUESTION), models=[dear])
    for amount, kind in ((0.007, "budget"), (1.0, "answered")):
        limits = Limits(cost_usd=amount)
        assert run(replace(asked, limits=limits, model=dear))[0] == kind


def test_by_the_first_rules_it_makes_an_answer_of_it() -> None:
    assert run(scenario(swallow(QUESTION), rules=1))[0] == "answered"


def test_a_refusal_is_an_exception_while_a_smaller_model_fits() -> None:
    assert (
        run(scenario(swallow(QUESTION, question("r", model="small")), models=(BIG, SMALL)))[0] == "answered"
    )


def test_a_refusal_is_an_exception_while_one_of_its_agents_has_a_smaller_model() -> None:
    kid = profile("kid", max_tokens=20)
    assert run(scenario(swallow(QUESTION, delegate("k", "kid")), kid))[0] == "answered"


@pytest.mark.parametrize(("depth", "kind"), [(0, "budget"), (1, "answered")])
def test_agents_that_a_program_may_not_begin_offer_no_smaller_model(depth: int, kind: str) -> None:
    asked = scenario(swallow(QUESTION), profile("kid", max_tokens=20))
    assert run(replace(asked, limits=Limits(tokens=400, max_depth=depth)))[0] == kind


def test_a_child_at_its_own_limits_is_an_exception() -> None:
    kid = profile("kid", max_tokens=20, limits=Limits(tokens=5))
    assert run(scenario(swallow(delegate("k", "kid")), kid))[0] == "answered"


def test_the_refusal_of_an_agent_further_below_latches_too() -> None:
    boss, kid = profile("boss", ["kid"], max_tokens=500), profile("kid", max_tokens=900)
    assert run(scenario(swallow(delegate("b", "boss")), boss, kid))[0] == "budget"


def test_programs_above_one_another_all_end() -> None:
    inner = program_profile("inner", models=[BIG])
    assert run(scenario(swallow(delegate("i", "inner")), inner, inner=swallow(QUESTION)))[0] == "budget"


def test_a_program_at_its_own_budget_is_an_exception_for_the_program_above() -> None:
    inner = program_profile("inner", models=[BIG], limits=Limits(tokens=5))
    found = run(scenario(swallow(delegate("i", "inner")), inner, tokens=90_000, inner=swallow(QUESTION)))
    assert found[0] == "answered"


def test_denials_of_depth_and_agents_are_exceptions() -> None:
    one = scenario(swallow(delegate("k", "nobody"), delegate("l", "nobody")), tokens=50)
    assert run(one)[0] == "answered"


def test_a_delegation_that_a_used_up_budget_denies_latches() -> None:
    world = SessionWorld(scenario(swallow(delegate("k", "kid")), profile("kid"), tokens=0)).run()
    (end,) = world.of(DelegationEnded)
    assert (end.kind, end.latch) == ("budget", end.detail)
    assert world.ended.kind == "budget"


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_after_any_event_changes_no_end(seed: int) -> None:
    one = scenario(swallow(question("q", model="small"), QUESTION), models=(BIG,), tokens=1_000)
    log = SessionWorld(one).run(in_random_order(seed)).log
    for length in range(1, len(log) + 1):
        world = SessionWorld(one)
        world.resume(log[:length])
        world.run(in_random_order(seed))
        assert not breaches_of(world)
        assert world.ended.kind == "budget"


@pytest.mark.parametrize(("tokens", "refusal"), [(None, ""), (1, "too small")])
def test_a_refusal_is_looked_at_again_under_the_limits_of_now(tokens: int | None, refusal: str) -> None:
    limits = Limits(tokens=tokens)
    head = SessionHarness(program_profile("host", ["kid"]), profile("kid"), limits=limits).opens()
    head.asks()
    work, end = UnitOfWork(head.state, 9), DelegationEnded(1, 0, "budget")
    work.update_record("host", program=structs.replace(NO_BOOKS, refusal="too small"))
    ancestry = work.ancestry("host")
    assert ancestry is not None
    assert with_latch(work, ancestry, end) == structs.replace(end, latch=refusal)
    record = work.record("host")
    assert record is not None
    assert record.program == structs.replace(NO_BOOKS, refusal=refusal)


# The least request of `host` is one of its own model: the least input, and a reply of 8,000 tokens.
LEAST = bound(LEAST_INPUT_BYTES, 8_192, Prices(1, 100))


@table(
    ("left", "is_latched"),
    [
        (Left("tokens", LEAST.tokens), False),
        (Left("tokens", LEAST.tokens - 1), True),
        (Left("micro_usd", LEAST.micro_usd), False),
        (Left("micro_usd", LEAST.micro_usd - 1), True),
        (None, False),
    ],
)
def test_a_refusal_above_the_session_latches_if_no_request_fits_there(
    left: Left | None, is_latched: bool
) -> None:
    model = ModelSpec("m", 8_192, prices=Prices(1, 100))
    head = SessionHarness(program_profile("host")).opens()
    head.asks()
    work = UnitOfWork(head.state, 9)
    work.update_record("host", model=model)
    ancestry = work.ancestry("host")
    assert ancestry is not None
    latch(work, ancestry, 0, "too small", left)
    record = work.record("host")
    assert record is not None
    books = record.program or NO_BOOKS
    assert (books.refusal, books.is_refused_above) == (("too small", True) if is_latched else ("", False))


# --- the models that a program may use --------------------------------------------------

SPECS = {f"m{size}": ModelSpec(f"m{size}", size) for size in (5, 10, 20, 40, 80)}
NO_AGENTS = Layer("the session", Rights(Allowed(agents=())))
NO_M20 = Layer("the session", Rights(Allowed(models=("m80",))))


def helper(
    name: str, model: str = "", *agents: str, models: tuple[str, ...] = (), brain: str = ""
) -> Profile:
    """Make an agent with its own model, or a program that may ask these. brain: of its other questions."""
    if not model:
        asked = [SPECS[one] for one in models]
        return program_profile(name, agents, models=asked, default_model=SPECS.get(brain))
    return structs.replace(profile(name, agents), model=SPECS[model])


def books_of(work: UnitOfWork, address: str) -> ProgramBooks:
    record = work.record(address)
    assert record is not None
    return record.program or NO_BOOKS


def least(work: UnitOfWork, address: str) -> str:
    """Return the smallest model for which a budget above has to have room, so that no refusal latches."""
    ancestry = work.ancestry(address)
    assert ancestry is not None
    for name, spec in SPECS.items():
        latch(work, ancestry, 0, "no", Left("tokens", bound(LEAST_INPUT_BYTES, spec.max_tokens, None).tokens))
        if not books_of(work, address).refusal:
            return name
        work.update_record(address, program=None)
    return ""


@table(
    ("people", "changes", "model"),
    [
        ([helper("host")], {}, "m80"),
        ([helper("host", models=("m40", "m20"))], {}, "m20"),
        ([helper("host", "", "kid"), helper("kid", "m20")], {}, "m20"),
        ([helper("host", "", "kid", "gone"), helper("kid", "m20", "gone", "kid", "host")], {}, "m20"),
        ([helper("host", "", "kid"), helper("kid", "m20")], {"limits": Limits(max_depth=0)}, "m80"),
        ([helper("host", "", "kid"), helper("kid", "m20")], {"handed": (NO_AGENTS,)}, "m80"),
        ([helper("host", "", "kid"), helper("kid", "m20")], {"handed": (NO_M20,)}, "m80"),
        ([helper("host", "", "kid"), helper("kid", brain="m40")], {}, "m40"),
        ([helper("host", "", "kid"), helper("kid", models=("m10",))], {}, "m10"),
        ([helper("host", "", "kid"), helper("kid", "m20", "kid2"), helper("kid2", "m5")], {}, "m5"),
    ],
)
def test_a_program_may_use_the_models_of_all_agents_that_it_may_begin(
    people: list[Profile], changes: dict[str, Any], model: str
) -> None:
    packed = tuple(Json(encode(one)) for one in people)
    head = SessionHarness()
    head.hears("client", SessionOpened(2, "host", packed, SPECS["m80"]))
    head.asks()
    work = UnitOfWork(head.state, 9)
    work.update_record("host", **changes)
    assert least(work, "host") == model


def below_a_program() -> UnitOfWork:
    """Make a program, an agent below it, and a program below that, which has a small budget."""
    inner = structs.replace(helper("inner"), limits=Limits(tokens=9))
    people = helper("host", "", "boss"), helper("boss", "m80", "inner"), inner
    head = SessionHarness(*people).opens()
    head.asks()
    head.hears("host", Delegate(1, 0, ("boss",), text_json("go")))
    head.hears("host.1", Delegate(1, 0, ("inner",), text_json("go")))
    return UnitOfWork(head.state, 9)


def test_a_refusal_latches_for_programs_that_run_and_have_no_room_and_the_first_one_stays() -> None:
    work = below_a_program()
    ancestry = work.ancestry("host.1.1")
    assert ancestry is not None
    line = NO_BOOKS.line.put(1, 1)
    work.update_record("host.1.1", program=structs.replace(NO_BOOKS, line=line))
    latch(work, work.ancestry("host.1.1") or [], 0, "first")
    latch(work, work.ancestry("host.1.1") or [], 0, "second")
    assert [books_of(work, one).refusal for one in ("host", "host.1", "host.1.1")] == ["", "", "first"]
    assert books_of(work, "host.1.1").line == line
    work = below_a_program()
    work.update_record("host.1.1", is_running=False)
    latch(work, work.ancestry("host.1.1") or [], 0, "first", Left("tokens", 0))
    assert [books_of(work, one).refusal for one in ("host", "host.1", "host.1.1")] == ["first", "", ""]


@pytest.mark.parametrize(("is_above", "refusal"), [(True, "why"), (False, "")])
def test_a_refusal_above_the_session_is_not_looked_at_again(is_above: bool, refusal: str) -> None:
    work = below_a_program()
    work.update_record("host", program=structs.replace(NO_BOOKS, refusal="why", is_refused_above=is_above))
    end = DelegationEnded(1, 0, "budget")
    assert with_latch(work, work.ancestry("host") or [], end) == structs.replace(end, latch=refusal)
    inner = structs.replace(NO_BOOKS, refusal="why")
    work.update_record("host.1.1", program=inner)
    assert with_latch(work, work.ancestry("host.1.1") or [], end).latch == "why"
    assert with_latch(work, work.ancestry("host.1") or [], end) == end


def test_the_service_adds_its_overhead_to_the_least_request() -> None:
    work = below_a_program()
    work.update_record("host", model=ModelSpec("m", 5, overhead_tokens=100), limits=Limits(max_depth=0))
    for tokens, refusal in ((LEAST_INPUT_BYTES + 104, "no"), (LEAST_INPUT_BYTES + 105, "")):
        work.update_record("host", program=None)
        latch(work, work.ancestry("host") or [], 0, "no", Left("tokens", tokens))
        assert books_of(work, "host").refusal == refusal


@table("rules", [1, 2])
@table("who", [helper("host"), helper("host", "m80")])
@table("stated", [(None, None), (5, None), (None, 5)])
def test_iterations_bound_the_questions_of_a_program_that_states_them(
    rules: int, who: Profile, stated: tuple[int | None, int | None]
) -> None:
    own, asked = (Limits(max_iterations=one) for one in stated)
    is_bound = bounds_questions(rules, structs.replace(who, limits=own), asked)
    assert is_bound == (rules == 2 and who.is_eager and stated != (None, None))
