"""Sessions of agents with contracts, presets and factories, whose callers give right and wrong inputs."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Profile
from callboard.actors.session.contexts import ContextRequest
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import Asked, Use, calls, delegate, report, task
from tests.mutants.scenarios_programs import Running, cast, everything
from tests.mutants.scenarios_state import KEYS, counting
from tests.mutants.scripts import DONE, LOOK, SCHEMA, by_place, script

FIELDS: Final = Json(
    b'{"type":"object","properties":{"query":{"type":"string"},"depth":{"type":"integer","default":3},'
    b'"form":{"type":"object"}},"required":["query"],"additionalProperties":false}'
)
GOOD: Final[Use] = ("finder", {"query": "a"})
TYPED: Final[Use] = ("finder", {"query": "b", "form": SCHEMA})
DEEP: Final[Use] = ("finder", {"depth": 7, "query": "c"})
WRONG: Final[Use] = ("finder", {"depth": 1})
OVERRIDE: Final[Use] = ("finder", {"query": "d", "tenant": "other"})
BUILT: Final[Use] = ("built", {"query": "e"})
GONE: Final[Use] = ("gone", {"query": "f"})


def with_contract(who: Profile, **more: object) -> Profile:
    """Give a profile a contract of three fields, and the argument `form` for the schema of its report."""
    return replace(who, input_schema=FIELDS, input_type=f"{who.name}:Fields", schema_arg="form", **more)


def _people(*hosts: Profile) -> list[Profile]:
    return [
        *hosts,
        with_contract(profile("finder", ["plain"], ["look"]), presets=Json(b'{"tenant":"acme"}')),
        with_contract(profile("built", [], ["look"], context="c"), factory="make"),
        with_contract(profile("gone"), unavailable="its factory failed"),
        replace(profile("made", [], ["look"]), factory="make"),
        replace(profile("plain"), schema_arg=""),
        replace(profile("typed"), schema_arg="wanted"),
    ]


def _context(view: ContextRequest) -> str:
    if view.profile == "built" and len(view.messages) > 4:
        raise ValueError("no context for it")
    return f"{view.prompt}"


_NAMES: Final = ("finder", "built", "gone", "made", "plain", "typed")


def inputs() -> Scenario:
    """Build a host that calls agents by right and wrong inputs, and by `task` where that is refused."""
    policy = script(
        host=[
            calls(GOOD, WRONG, TYPED, OVERRIDE, GONE, LOOK),
            calls(BUILT, task("made"), task("finder"), task("plain", output_schema=SCHEMA), DEEP),
            calls(task("typed", wanted=SCHEMA), task("typed", output_schema=SCHEMA), task("gone"), BUILT),
            DONE,
        ],
        finder=[by_place(calls(LOOK), report({"m": 1}), report({"n": 2})), calls(task("plain")), DONE],
        built=[calls(LOOK), DONE],
        made=[calls(LOOK), DONE],
        typed=[report({"n": 3})],
    )
    chosen = faults("crash", "detach", "unmade", "unchecked", "twice", "cancel", "crashes", fault_mixes=15)
    people = _people(profile("host", _NAMES, ["look"]))
    asks = [ask(), ask(request_id="r2")]
    return Scenario(people, policy, asks, context=_context, state=KEYS, stateful=counting, faults=chosen)


def small_rooms() -> Scenario:
    """Build calls of agent tools whose failures are cut, under a budget, beside background tasks."""
    policy = script(
        host=[calls(GOOD, WRONG, task("made", background=True)), calls(OVERRIDE, BUILT, DEEP, GONE), DONE],
        finder=[by_place(DONE, calls(LOOK)), calls(LOOK), calls(LOOK)],
        made=[calls(LOOK), DONE],
    )
    limits, short = Limits(max_result_chars=120, tokens=60_000, max_iterations=5), Limits(max_iterations=1)
    host = profile("host", _NAMES, ["look"], background=True, limits=limits)
    people = [replace(one, limits=short) if one.name == "finder" else one for one in _people(host)]
    chosen = faults("crash", "overloaded", "crashes", "cancel", "unchecked", fault_mixes=15)
    return Scenario(people, policy, [ask()], context=_context, faults=chosen)


def _given(id: str, agent: str, **fields: object) -> Asked:
    return Asked(id, "task", {"agent": agent, "input": fields})


def of_programs() -> Scenario:
    """Build a program that calls agents with contracts, and copies of them, and is one itself."""

    def host(prompt: object) -> Running:
        first = [
            _given("a", "finder", query="x"),
            _given("b", "finder", depth=2),
            _given("c", "worker", query="y"),
        ]
        yield from everything(*first)
        more = Asked("d", "task", {"agent": "finder", "copies": 2, "input": {"query": "z"}})
        yield from everything(more, delegate("e", "finder"), delegate("f", "plain", output_schema=SCHEMA))
        return "done"

    def worker(prompt: object) -> Running:
        yield from everything(_given("a", "built", query="w"))
        return prompt

    people = [
        program_profile("host", ["finder", "worker", "plain"]),
        with_contract(program_profile("worker", ["built"])),
        *_people(),
    ]
    policy = cast({"host": host, "worker": worker}, finder=[calls(LOOK), DONE], plain=[report({"n": 1})])
    chosen = faults("crash", "detach", "unmade", "unchecked", "cancel", fault_mixes=15)
    return Scenario(people, policy, [ask()], context=_context, faults=chosen)


CONTRACTS: Final[Mapping[str, Scenario]] = {
    "inputs": inputs(),
    "small-rooms": small_rooms(),
    "of-programs": of_programs(),
}
"""The sessions in which the mutants of contracts are hunted."""
