"""Sessions whose agents change while delegations wait: for a schema, for a context, or in line. Each later
process has other agents than the first one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.client_messages import RULES, Resumed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import Profile
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import Policy, calls, delegate, report, task
from tests.mutants.scenarios_programs import Running, cast, everything
from tests.mutants.scripts import DONE, OTHER, SCHEMA, race, script

_HOST: Final = profile("host", ["kid", "plain"])
_KID: Final = profile("kid", context="c")
_PLAIN: Final = profile("plain")


def _changed(people: Sequence[Profile], later: Sequence[Profile], policy: Policy) -> Scenario:
    """Build a session that later processes resume with other agents."""
    resumed = Resumed(RULES, "host", tuple(Json(encode(one)) for one in later))
    chosen = faults("crash", "detach", "unmade", "cancel", most=2, fault_mixes=7, seed=5)
    return Scenario(people, policy, [ask()], resumed=resumed, faults=chosen)


def _of_models(*later: Profile) -> Scenario:
    host = calls(
        task("kid"),
        task("plain", output_schema=SCHEMA),
        task("kid", output_schema=OTHER),
        race("plain", "kid", schema=SCHEMA),
    )
    policy = script(host=[host, DONE], kid=[report({"m": 1})], plain=[report({"n": 1})])
    return _changed([_HOST, _KID, _PLAIN], later, policy)


def agents_gone() -> Scenario:
    """Build delegations alone and in a race, one of whose agents later processes do not have."""
    return _of_models(_HOST, _PLAIN)


def agents_broken() -> Scenario:
    """Build the same with an agent that cannot begin any more, and another that wants a context by then."""
    return _of_models(_HOST, replace(_KID, unavailable="it is broken"), replace(_PLAIN, context="c"))


def agents_with_contracts() -> Scenario:
    """Build the same with agents that take the fields of a contract by then."""
    fields = Json(b'{"type":"object"}')
    return _of_models(_HOST, replace(_KID, input_schema=fields), _PLAIN)


def gone_from_the_line() -> Scenario:
    """Build a program whose delegations stand in line, with an agent that later processes do not have."""

    def host(prompt: object) -> Running:
        asks = [delegate(f"k{at}", name) for at, name in enumerate(("plain", "kid", "plain", "kid"))]
        got = yield from everything(*asks)
        return got

    people = [program_profile("host", ["kid", "plain"], limits=Limits(max_children=1)), _KID, _PLAIN]
    return _changed(people, [people[0], _PLAIN], cast({"host": host}, kid=[DONE], plain=[DONE]))


CHANGED: Final[Mapping[str, Scenario]] = {
    one.__name__: one() for one in (agents_gone, agents_broken, agents_with_contracts, gone_from_the_line)
}
"""The sessions by name, in the order of their runs."""
