"""Sessions of agents with permission bundles and label rules, in which every call wants too much."""

import dataclasses
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.bundles import Allowed, Bundle, Denied, LabelRule, Rights
from callboard.actors.protocol.client_messages import RULES, Resumed
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.layers import SESSION, Layer
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    RequestApproval,
    ToolReturned,
    ToolStatus,
)
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolsChange, ToolSpec
from callboard.actors.protocol.uses import Use as Reach
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import (
    Scenario,
    approves,
    ask,
    profile,
    program_profile,
    tell,
    tool_spec,
)
from callboard.replay.testing.sessions.scripted_replies import (
    Use,
    calls,
    delegate,
    question,
    report,
    task,
    tool,
)
from tests.mutants.scenarios_programs import Running, cast, everything
from tests.mutants.scripts import DONE, LOOK, SAVE, SCHEMA, by_place, race, script

FETCH: Final[Use] = ("fetch", {})
BROWSE: Final[Use] = ("browse", {})
POST: Final[Use] = ("post", {})
NET: Final = replace(tool_spec("fetch"), capabilities=("network",))
PAGE: Final = replace(tool_spec("browse"), labels=("untrusted",))
MAIL: Final = replace(tool_spec("post", "write", "before"), capabilities=("mail", "network"))
TOOLS: Final = (tool_spec("look"), tool_spec("save", "write"), NET, PAGE, MAIL)
RULE: Final = (LabelRule("untrusted", "network"),)
NO_NETWORK: Final = Layer(SESSION, Rights(Allowed(capabilities=("mail",))))
GUARDED: Final = Layer(SESSION, Rights(rules=RULE))


def bounded(who: Profile, bundle: Bundle, tools: tuple[ToolSpec, ...] = TOOLS) -> Profile:
    """Give a profile tools and a bundle."""
    return replace(who, tools=tools, permissions=bundle)


def narrowed_trees() -> Scenario:
    """Build three levels of agents that ask for more than is handed down, with doing and delegating apart."""
    policy = script(
        host=[calls(LOOK, SAVE, task("lead"), task("spare")), calls(task("kid"), task("extra"), FETCH), DONE],
        lead=[calls(FETCH, LOOK, task("kid"), task("kid", agents=["kid", "spare"])), calls(SAVE, POST), DONE],
        kid=[calls(FETCH, LOOK, SAVE, POST), DONE],
        spare=[calls(FETCH), DONE],
    )
    people = [
        bounded(
            profile("host", ["lead", "kid", "spare", "extra"]),
            Bundle(
                do=Allowed(tools=("look", "saver"), agents=("lead", "kid")),
                delegate=Allowed(tools=("look", "f*", "save"), agents=("kid",), models=("scripted",)),
            ),
        ),
        bounded(
            profile("lead", ["kid", "spare"]),
            Bundle(
                do=Allowed(effects=("read",)), deny=Denied(tools=("look",)), delegate=Allowed(tools=("*",))
            ),
        ),
        bounded(profile("kid"), Bundle(do=Allowed(tools=("fetch", "look", "post")))),
        bounded(replace(profile("spare"), model=ModelSpec("big", 100)), Bundle()),
        bounded(profile("extra"), Bundle()),
    ]
    return Scenario(
        people, policy, [ask(), ask(request_id="r2")], faults=faults("cancel", "crash", fault_mixes=7)
    )


def denied_models() -> Scenario:
    """Build agents with models and fallbacks that the agents above them withhold."""
    policy = script(host=[calls(task("big"), task("kid"), race("kid", "odd")), calls(task("odd")), DONE])
    people = [
        bounded(profile("host", ["big", "kid", "odd"]), Bundle(delegate=Allowed(models=("scripted", "s*")))),
        bounded(replace(profile("big"), model=ModelSpec("big", 100)), Bundle()),
        bounded(profile("kid"), Bundle()),
        bounded(profile("odd", fallback=[ModelSpec("other", 100)]), Bundle()),
    ]
    return Scenario(people, policy, [ask()])


def narrower_resumes() -> Scenario:
    """Build agents that go on in a process which takes the network from those that begin later."""
    policy = script(
        host=[calls(FETCH, task("kid")), calls(task("kid"), FETCH), calls(FETCH, LOOK), DONE],
        kid=[calls(FETCH, POST), calls(FETCH), DONE],
    )
    people = [bounded(profile("host", ["kid"]), Bundle()), bounded(profile("kid"), Bundle())]
    again = Resumed(RULES, permissions=(NO_NETWORK,))
    chosen = faults("crash", "detach", fault_mixes=7, seed=3)
    return Scenario(people, policy, [ask(), ask(request_id="r2")], resumed=again, faults=chosen)


def changed_tools() -> Scenario:
    """Build agents whose tools change to ones that they may not use."""
    policy = script(
        host=[calls(LOOK, task("kid")), calls(LOOK, FETCH), calls(LOOK, SAVE), DONE],
        kid=[calls(LOOK), calls(LOOK, SAVE), calls(LOOK), DONE],
    )
    wide = (replace(tool_spec("look"), capabilities=("network",)), tool_spec("save", "write"), NET)
    people = [
        bounded(profile("host", ["kid"]), Bundle(do=Allowed(capabilities=(), effects=("read",))), TOOLS[:1]),
        bounded(profile("kid"), Bundle(deny=Denied(tools=("save",))), TOOLS[:1]),
    ]
    changes = [ToolsChange(wide, profile="kid"), ToolsChange(wide, address="host")]
    return Scenario(people, policy, [ask()], changes=changes, faults=faults("crash", fault_mixes=3, seed=9))


def labelling(who: str, call: CallTool) -> ToolReturned:
    """Return a result; a `look` at the second place of a reply states a label of its own."""
    labels = ("untrusted",) if call.tool == "look" and call.call == 1 else ()
    return ToolReturned(call.turn, call.call, "ok", text_json(f"did {call.tool}"), labels=labels)


def labelling_person(who: str, request: RequestApproval) -> ApprovalGiven:
    """Approve a call, in words that are not to be trusted."""
    return replace(approves(who, request), labels=("untrusted",))


def labels_in_line() -> Scenario:
    """Build calls that wait for a place or for a person while an earlier one brings a label."""
    policy = script(
        host=[calls(BROWSE, POST, FETCH, LOOK, task("kid")), calls(FETCH, POST), DONE],
        kid=[calls(FETCH, LOOK, FETCH), calls(POST, LOOK, FETCH), DONE],
    )
    limits = Limits(max_parallel_tools=1)
    people = [
        bounded(profile("host", ["kid"], limits=limits), Bundle(when=RULE)),
        bounded(profile("kid", limits=limits), Bundle()),
    ]
    chosen = faults("raises", "crash", "cancel", "twice", fault_mixes=7, seed=5)
    asks = [ask(), ask(request_id="r2")]
    return Scenario(people, policy, asks, tool=labelling, approve=labelling_person, faults=chosen)


def labels_of_delegations() -> Scenario:
    """Build delegations, races and background work that bring labels up and take them down."""
    policy = script(
        host=[
            calls(task("kid", background=True), race("kid", "lead", schema=SCHEMA), FETCH),
            calls(FETCH, task("lead")),
            calls(FETCH, task("kid")),
            DONE,
        ],
        kid=[by_place(calls(BROWSE), calls(LOOK), calls(LOOK, LOOK)), by_place(DONE, report({"n": 1})), DONE],
        lead=[calls(FETCH, task("kid")), calls(FETCH), by_place(report({"n": 2}), DONE)],
    )
    people = [
        bounded(profile("host", ["kid", "lead"], background=True), Bundle()),
        bounded(profile("kid"), Bundle()),
        bounded(profile("lead", ["kid"], schema=SCHEMA), Bundle()),
    ]
    chosen = faults("crash", "cancel", "jump", "error", fault_mixes=7, seed=2)
    scenario = Scenario(people, policy, [ask(), ask(request_id="r2")], tool=labelling, faults=chosen)
    return _guarded(scenario)


def _guarded(scenario: Scenario) -> Scenario:
    """Let the session have the rule against the network."""
    return dataclasses.replace(scenario, permissions=(GUARDED,))


def labels_of_words() -> Scenario:
    """Build agents that a client tells words which are not to be trusted."""
    policy = script(
        host=[calls(task("kid"), FETCH), calls(FETCH, LOOK), calls(FETCH), DONE],
        kid=[calls(LOOK), calls(FETCH), calls(FETCH), DONE],
    )
    people = [bounded(profile("host", ["kid"]), Bundle()), bounded(profile("kid"), Bundle())]
    words = [replace(tell(address=who, request_id=who), labels=("untrusted",)) for who in ("host", "host.1")]
    asks = [ask(), replace(ask(request_id="r2"), labels=("untrusted",))]
    return _guarded(
        Scenario(people, policy, asks, tells=words, faults=faults("crash", fault_mixes=3, seed=4))
    )


def labels_of_programs() -> Scenario:
    """Build a program whose tools, agents and questions get its labels and bring others."""

    def host(prompt: object) -> Running:
        asks = [
            tool("a", "fetch"),
            tool("b", "browse"),
            tool("c", "fetch"),
            delegate("d", "kid"),
            question("e"),
        ]
        got = yield from everything(*asks)
        later = yield from everything(tool("f", "fetch"), delegate("g", "kid"), question("h", model="other"))
        return [got, later]

    policy = cast({"host": host}, kid=[calls(FETCH, LOOK), calls(FETCH), DONE])
    program = program_profile(
        "host", ["kid"], limits=Limits(max_parallel_tools=1), models=[ModelSpec("other", 50)]
    )
    people = [
        bounded(program, Bundle(when=RULE, delegate=Allowed(models=("scripted", "program")))),
        bounded(profile("kid"), Bundle()),
    ]
    return Scenario(people, policy, [ask()], faults=faults("crash", "raises", fault_mixes=7, seed=6))


REACHED: Final = (
    (Reach("secrets", "KEY"), Reach("write", "docs/a", "1", ("untrusted",)), Reach("read", "docs-old/x")),
    (Reach("read", "docs/a", "1"), Reach("hosts", "https://a.example:443")),
    (Reach("hosts", "https://b.example:443"), Reach("hosts", "http://a.example:443")),
    (Reach("write", "docs/c", "1"), Reach("hosts", "https://aexample:443")),
    (Reach("read", "docs/c", "2"), Reach("read", ".")),
    (Reach("hosts", "https://a.example:444"), Reach("read", "docs/d", "1"), Reach("write", "src/c", "1")),
    (Reach("read", "docs/d", "1"), Reach("memory", "shared"), Reach("hosts", "https://a.example:443")),
)


NO_MEMORY: Final = Denied(capabilities=("memory",))


def reaching(who: str, call: CallTool) -> ToolReturned:
    """Return a result that used files, secrets and hosts, other ones at each place of a reply."""
    uses = REACHED[(call.turn * 3 + call.call + len(who)) % len(REACHED)]
    status: ToolStatus = "error" if uses[0].entry == "write" else "ok"
    return ToolReturned(call.turn, call.call, status, text_json("done"), uses=uses)


def used_rights() -> Scenario:
    """Build agents whose tools reach for more than their rights, also after a resume."""
    policy = script(
        host=[
            calls(LOOK, LOOK, SAVE, task("kid")),
            calls(SAVE, LOOK, LOOK, task("kid")),
            calls(*[LOOK] * 7),
            DONE,
        ],
        kid=[calls(LOOK, LOOK, task("spare")), calls(*[LOOK] * 7), DONE],
        spare=[calls(*[LOOK] * 7), calls(*[LOOK] * 7), DONE],
    )
    wide = Allowed(read=("docs", "src"), write=("docs",), hosts=("*.example",), secrets=("K*",))
    below = Allowed(read=("docs",), write=("docs",), hosts=("a.example",), secrets=())
    people = [
        bounded(profile("host", ["kid"]), Bundle(do=wide, delegate=below, deny=NO_MEMORY, when=RULE)),
        bounded(profile("kid", ["spare"]), Bundle(do=Allowed(hosts=("*.example",)))),
        bounded(profile("spare"), Bundle()),
    ]
    again = Resumed(RULES, permissions=(Layer(SESSION, Rights(Allowed(read=("docs/b",), secrets=()))),))
    return Scenario(
        people,
        policy,
        [ask(), ask(request_id="r2")],
        tool=reaching,
        resumed=again,
        faults=faults("crash", fault_mixes=7, seed=3),
    )


def writing_again(who: str, call: CallTool) -> ToolReturned:
    """Return a result that wrote or read a file: 21 versions in three turns, some of them again, then all.

    Every fifth version has a label of its own.
    """
    place = (call.turn - 1) * 7 + call.call
    if call.turn <= 3:
        uses: tuple[Reach, ...] = (Reach("write", "a", str(place), (f"v{place}",) * (place % 5 == 0)),)
    elif call.turn == 4:
        uses = (Reach("write", "a", str(call.call)),)
    else:
        uses = (Reach("read", "a", str(place - 28)),)
    return ToolReturned(call.turn, call.call, "ok", text_json("done"), uses=uses)


def versions_of_files() -> Scenario:
    """Build a file that is written more often than its versions are told apart, and read as each of them."""
    writes, reads = calls(*[SAVE] * 7), calls(*[LOOK] * 7)
    policy = script(host=[*[writes] * 4, *[reads] * 3, DONE])
    people = [bounded(profile("host"), Bundle())]
    return Scenario(
        people, policy, [ask()], tool=writing_again, faults=faults("crash", fault_mixes=3, seed=3)
    )


RIGHTS: Final[Mapping[str, Scenario]] = {
    one.__name__: one()
    for one in (
        narrowed_trees,
        denied_models,
        narrower_resumes,
        changed_tools,
        labels_in_line,
        labels_of_delegations,
        labels_of_words,
        labels_of_programs,
        used_rights,
        versions_of_files,
    )
}
"""By name, in the order in which runs are made."""
