"""Services with wrong counts: no budget is exceeded by more than one call."""

from msgspec.structs import replace

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.scripts import DONE, LOOK, script
from tests.tables import table

POLICY = script(
    host=[calls(LOOK), calls(task("kid"), task("kid")), DONE], kid=[calls(LOOK), calls(LOOK), DONE]
)
MODEL = ModelSpec("scripted", 60, checks_usage=True)


def true_usage(request: ModelRequest) -> Usage:
    """Return the tokens of a call: a third of its bytes."""
    size = sum(map(len, (*request.messages, *request.tools, request.system)))
    return Usage(size // 3, 60)


def scaled(true: Usage, parts: int) -> Usage:
    return Usage(true.input_tokens * parts // 2, true.output_tokens * parts // 2)


def reported(kind: str, true: Usage) -> Usage | None:
    """Return the usage that such a service reports. A live port refuses a negative one as a failed call."""
    told = {
        "zero": Usage(),
        "one": Usage(1),
        "half": scaled(true, 1),
        "true": true,
        "double": scaled(true, 4),
        "uncached": Usage(5, true.output_tokens),
    }
    return told.get(kind)


def scenario(kind: str, tokens: int) -> Scenario:
    def policy(request: ModelRequest) -> Reply:
        return replace(POLICY(request), usage=reported(kind, true_usage(request)))

    people = [
        replace(profile("host", ["kid"], ["look"]), model=MODEL),
        replace(profile("kid", [], ["look"]), model=MODEL),
    ]
    limits = Limits(tokens=tokens, max_result_chars=50, max_parallel_calls=1)
    chosen = faults("overloaded", "timeout", "crash", "unmetered", most=2, fault_mixes=7, seed=1)
    return Scenario(people, policy, [ask()], limits, faults=chosen)


@table("kind", ["nothing", "zero", "one", "half", "true", "double", "uncached"])
@table("tokens", [2_000, 4_000, 9_000, 30_000])
def test_no_budget_is_exceeded_by_more_than_one_call(kind: str, tokens: int) -> None:
    for seed in range(4):
        world = SessionWorld(scenario(kind, tokens)).run(in_random_order(seed))
        assert breaches_of(world) == []
        largest = max((reply.usage.tokens for reply in world.of(ModelReplied) if reply.usage), default=0)
        for ended in world.of(AskEnded):
            over = ended.usage.tokens - tokens
            assert over <= (largest if kind == "double" else 0)
