"""Sessions whose conversations become shorter: cleared, summarised, refused, and with much else going on."""

from collections.abc import Mapping
from dataclasses import replace as replaced
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import CompactRules, ModelSpec, Prices, Profile, ToolsChange
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, tell, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Policy, Reply, calls, report, task
from tests.mutants.scripts import BUSY, DONE, GOOD, LOOK, PRICES, SAVE, SCHEMA

ANY: Final = faults(seed=41)
FULL: Final = Reply(failure=ModelFailure("context_full"))
WORDS: Final = "It is a long story. " * 60
RESULT_BYTES: Final = 1_500


def much(address: str, call: CallTool) -> ToolReturned:
    """Answer as a tool with a long result."""
    return ToolReturned(
        call.turn, call.call, "ok", text_json(f"{call.turn}.{call.call} " + "x" * RESULT_BYTES)
    )


def shorter(who: Profile, window: int, **rules: object) -> Profile:
    """Return an agent whose conversation is shortened, in a window of so many tokens."""
    model = replace(who.model or ModelSpec("scripted"), context_tokens=window)
    return replace(who, compact=CompactRules(**{"keep": 1, **rules}), model=model)  # type: ignore[arg-type]  # rules


def is_summary(request: ModelRequest) -> bool:
    """Return True for a request for a summary."""
    return b"about to be replaced by a summary" in bytes(request.message(request.length - 1))


def counted(request: ModelRequest) -> Usage:
    """Return the usage of a service that counts a token for two bytes."""
    size = sum(map(len, (*request.messages, *request.tools, request.system)))
    return Usage(input_tokens=size // 2, output_tokens=20)


IN_SHORT: Final = Reply("In short: nothing yet.")


def works(*lines: Reply, turns: int = 9, summary: Reply = IN_SHORT, bytes_only: bool = False) -> Policy:
    """Build a policy that gives these replies in turn, and a summary where one is asked for."""

    def policy(request: ModelRequest) -> Reply:
        used = None if bytes_only else counted(request)
        if is_summary(request):
            return replace(summary, usage=used)
        if request.turn >= turns:
            return replace(DONE, usage=used)
        return replace(lines[(request.turn - 1) % len(lines)], usage=used)

    return policy


TALKS: Final = calls(LOOK, text=WORDS)


def cleared() -> Scenario:
    """Build an agent whose old results are cleared, some of them of writes."""
    people = [shorter(profile("host", [], ["look"], writes=["save"]), 9_000, has_summaries=False)]
    policy = works(calls(LOOK, SAVE), calls(LOOK), bytes_only=True)
    return Scenario(people, policy, [ask()], Limits(max_iterations=12), tool=much, faults=ANY)


def counted_ones() -> Scenario:
    """Build an agent whose service counts its tokens."""
    people = [shorter(profile("host", [], ["look"]), 5_600, keep=2)]
    return Scenario(people, works(calls(LOOK)), [ask()], Limits(max_iterations=12), tool=much, faults=ANY)


def summarised() -> Scenario:
    """Build an agent whose words are summarised, twice or more, over two asks."""
    people = [shorter(profile("host", [], ["look"]), 9_000)]
    policy = works(TALKS, turns=14, bytes_only=True)
    asks = [ask(), ask("and now?", request_id="r2")]
    return Scenario(people, policy, asks, Limits(max_iterations=14), faults=ANY)


def bad_summaries() -> Scenario:
    """Build an agent whose summaries are empty, longer, cut, refused, failed, or call tools."""
    bad = (
        Reply(""),
        Reply("z" * 20_000),
        Reply("half", stop_reason="max_tokens"),
        Reply("no", stop_reason="refusal"),
        calls(LOOK, text="first I look"),
        Reply(failure=BUSY),
        FULL,
    )

    def policy(request: ModelRequest) -> Reply:
        if is_summary(request):
            return replace(bad[request.turn % len(bad)], usage=None)
        return replace(TALKS if request.turn < 14 else DONE, usage=None)

    people = [shorter(profile("host", [], ["look"]), 9_000)]
    return Scenario(people, policy, [ask()], Limits(max_iterations=12), faults=ANY)


def refused() -> Scenario:
    """Build an agent whose window is not known, and whose service refuses long requests."""

    def policy(request: ModelRequest) -> Reply:
        size = sum(map(len, request.messages))
        if size > 9_000:
            return FULL
        return works(TALKS, calls(LOOK), bytes_only=True)(request)

    people = [shorter(profile("host", [], ["look"]), 0)]
    return Scenario(people, policy, [ask()], Limits(max_iterations=12), tool=much, faults=ANY)


def in_a_tree() -> Scenario:
    """Build a host and its sub-agents, all out of room, with background work and words."""
    host = profile("host", ["kid"], ["look"], background=True)
    kid = profile("kid", [], ["look"], writes=["save"])
    policy = works(
        calls(task("kid", background=True), text=WORDS),
        calls(LOOK, text=WORDS),
        calls(task("kid", "more"), text=WORDS),
        turns=8,
        bytes_only=True,
    )
    people = [shorter(host, 12_000), shorter(kid, 9_000)]
    asks = [ask()]
    return Scenario(people, policy, asks, Limits(max_iterations=9), tells=[tell()], tool=much, faults=ANY)


def within_a_budget() -> Scenario:
    """Build a host with a budget that holds few summaries, for which sub-agents leave room."""
    host = shorter(profile("host", ["kid"], ["look"], prices=PRICES), 9_000)
    policy = works(calls(task("kid"), text=WORDS), calls(LOOK, text=WORDS), TALKS, turns=11, bytes_only=True)
    people = [host, profile("kid", [], ["look"], prices=PRICES)]
    return Scenario(
        people, policy, [ask()], Limits(max_iterations=11, tokens=90_000, cost_usd=0.4), tool=much, faults=ANY
    )


def reporting() -> Scenario:
    """Build an agent that owes a report, with tools that change, near its last turn."""

    def policy(request: ModelRequest) -> Reply:
        if is_summary(request):
            return Reply("In short: n is 1.", usage=None)
        if request.force_tool or request.turn > 9:
            return calls(GOOD)
        if request.turn == 6:
            return replace(report({"m": 2}), usage=None)
        return replace(TALKS, usage=None)

    host = shorter(profile("host", [], ["look"], inline_tools=True), 9_000)
    others = ToolsChange((tool_spec("look"), tool_spec("spare")), address="host")
    asks = [ask(schema=SCHEMA)]
    return Scenario([host], policy, asks, Limits(max_iterations=9), faults=ANY, changes=[others])


def with_other_models() -> Scenario:
    """Build an agent that falls back to another model, and one whose summaries another model writes."""
    other = ModelSpec("other", 100, prices=PRICES)
    host = shorter(profile("host", ["kid"], ["look"], fallback=[ModelSpec("next", 100)]), 8_000)
    kid = shorter(profile("kid", [], ["look"], prices=PRICES), 7_000, model=other)

    def policy(request: ModelRequest) -> Reply:
        if request.model.name == "scripted" and request.turn % 4 == 0:
            return Reply(failure=BUSY)
        lines = (TALKS, calls(task("kid"), text=WORDS)) if request.profile == "host" else (TALKS,)
        return works(*lines, turns=9, bytes_only=True)(request)

    return Scenario([host, kid], policy, [ask()], Limits(max_iterations=9), faults=ANY)


def thoughtful() -> Scenario:
    """Build an agent whose model thinks aloud, sometimes beside a search of its service, sometimes sealed."""
    thought = {"type": "thinking", "thinking": WORDS, "signature": "s"}
    sealed = {"type": "thinking", "thinking": "sealed", "part": {"id": "rs_1"}}
    searched = {"type": "server_tool_use", "id": "srv", "name": "search", "input": {}}
    others = ([thought], [thought], [thought, searched], [thought, sealed], [{"type": "redacted_thinking"}])

    def policy(request: ModelRequest) -> Reply:
        if request.turn >= 13:
            return replace(DONE, usage=None)
        first = request.turn % len(others)
        looks = msgspec.json.decode(calls(LOOK).blocks(request.turn))
        return Reply(content=msgspec.json.encode([*others[first], *looks]), usage=None)

    host = shorter(profile("host", [], ["look"]), 9_000, has_summaries=False)
    return Scenario([host], policy, [ask()], Limits(max_iterations=14), faults=ANY)


def by_function() -> Scenario:
    """Build an agent whose summaries a function writes, under a budget that they do not touch."""
    free = ModelSpec("function:short", 100, prices=Prices(0, 0), kind="function")
    host = shorter(profile("host", [], ["look"], prices=PRICES), 9_000, model=free)
    policy = works(TALKS, turns=14, summary=replace(IN_SHORT, usage=ZERO), bytes_only=True)

    def says(request: ModelRequest) -> Reply:
        return replace(IN_SHORT, usage=ZERO) if is_summary(request) else policy(request)

    return Scenario([host], says, [ask()], Limits(max_iterations=14, tokens=150_000), faults=ANY)


def calling_summaries() -> Scenario:
    """Build an agent whose summaries are short, and call tools."""
    policy = works(TALKS, turns=14, summary=calls(LOOK, text="In short."), bytes_only=True)
    return replaced(summarised(), policy=policy)


def stopped() -> Scenario:
    """Build an agent that is cancelled while a summary is asked for, and asked again."""
    return replaced(summarised(), faults=faults("cancel", most=1, fault_mixes=0))


def stopped_when_refused() -> Scenario:
    """Build an agent that is cancelled after a request was refused as too long, and asked again."""
    asks = [ask(), ask("and now?", request_id="r2")]
    return replaced(refused(), asks=asks, faults=faults("cancel", most=1, fault_mixes=0))


COMPACTED: Final[Mapping[str, Scenario]] = {
    "cleared": cleared(),
    "counted": counted_ones(),
    "summarised": summarised(),
    "bad-summaries": bad_summaries(),
    "refused": refused(),
    "in-a-tree": in_a_tree(),
    "within-a-budget": within_a_budget(),
    "reporting": reporting(),
    "with-other-models": with_other_models(),
    "by-function": by_function(),
    "thoughtful": thoughtful(),
    "calling-summaries": calling_summaries(),
    "stopped": stopped(),
    "stopped-when-refused": stopped_when_refused(),
}
