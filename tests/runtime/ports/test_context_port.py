"""The context port: each function, however it behaves, gives one answer in time."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from callboard import (
    Agent,
    Brief,
    ContextRequest,
    Limits,
    Runtime,
    ScriptedModel,
    SystemContext,
    Transcript,
    WholeHistory,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.protocol.addresses import CONTEXT, SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import ContextMade, MakeContext
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.step import initial
from callboard.errors import InvalidAgent
from callboard.log import MemoryLog
from callboard.permissions import Bundle, LabelRule
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.contexts import CONTEXT_BYTES_MAX, ContextFunction
from callboard.runtime.models.scripted import Call, Reply
from callboard.runtime.ports.context_port import ContextPort
from callboard.runtime.sessions.instances import Instances
from callboard.runtime.tools import own_functions
from callboard.runtime.tools.own_functions import MAX_THREADS
from tests.tables import table


def policy(request: ModelRequest) -> Reply | Call:
    """Delegate once, and repeat what the child read, or what its delegation came to."""
    if request.address != "host":
        return say(repr(request.conversation[0]["content"]))
    if request.turn == 1:
        return call("task", agent="kid", prompt="the prompt")
    return say(str(request.conversation[-1]["content"]))


def run(function: ContextFunction, limit_s: float = 10.0) -> str:
    limits = Limits(schema_timeout_s=limit_s)
    host = Agent("host", agents=[Agent("kid", context=function)])

    async def inside() -> str:
        async with Runtime(":memory:", model=ScriptedModel(policy), limits=limits) as runtime:
            return (await runtime.run(host, "go")).text

    return asyncio.run(asyncio.wait_for(inside(), 20))


def test_a_text_stands_before_the_prompt_in_the_same_message() -> None:
    def last(view: ContextRequest) -> str:
        return f"{view.parent} of {view.parent_profile} asks {view.profile}: {len(view.messages)}"

    said = run(last)
    assert "host of host asks kid: 2" in said
    assert said.index("asks kid") < said.index("the prompt")


def test_an_async_function_may_return_blocks() -> None:
    async def blocks(view: ContextRequest) -> list[dict[str, object]]:
        await asyncio.sleep(0)
        return [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

    said = run(blocks)
    assert said.index("one") < said.index("two") < said.index("the prompt")


@pytest.mark.parametrize("nothing", [None, "", []])
def test_no_context_leaves_the_prompt_alone(nothing: object) -> None:
    assert '"the prompt"' in run(lambda view: nothing).replace("'", '"')  # type: ignore[arg-type,return-value]  # any value, on purpose


def raises(view: ContextRequest) -> str:
    raise ValueError("no context today")


async def raises_later(view: ContextRequest) -> str:
    await asyncio.sleep(0)
    raise ValueError("no context today")


def leaves(view: ContextRequest) -> str:
    raise SystemExit("gone")


def large(view: ContextRequest) -> str:
    return "x" * 100_000_000


def slightly_large(view: ContextRequest) -> str:
    return "x" * (CONTEXT_BYTES_MAX - 1)


def number(view: ContextRequest) -> str:
    return 7  # type: ignore[return-value]  # a wrong value, on purpose


def no_blocks(view: ContextRequest) -> list[dict[str, object]]:
    return [{"text": "without a type"}]


@table(
    ("function", "words"),
    [
        (raises, "ValueError: no context today"),
        (raises_later, "ValueError: no context today"),
        (leaves, "SystemExit"),
        (large, "The context is too large"),
        (slightly_large, "The context is too large"),
        (number, "a context is a text, a list of content blocks, or None, not int"),
        (no_blocks, "a context is a text, a list of content blocks, or None, not list"),
    ],
)
def test_a_function_that_fails_ends_the_delegation_as_unavailable(
    function: ContextFunction, words: str
) -> None:
    said = run(function)
    assert "failed (unavailable): the context for kid could not be made" in said
    assert words in said


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "callboard-context"]


def test_functions_that_block_their_threads_cost_their_time_and_hold_up_nobody_behind_them() -> None:
    released, ran = threading.Event(), list[bool]()

    def blocks(view: ContextRequest) -> str:
        ran.append(True)
        released.wait(30)
        return "late"

    async def policy(request: ModelRequest) -> Reply | Call:
        if request.turn == 1:
            return calls(*[call("task", agent="kid", prompt="p")] * (MAX_THREADS + 1))
        async with asyncio.timeout(5):
            # The last one is given up before or after a thread takes the place of another that was given up.
            while len(ran) < MAX_THREADS:  # noqa: ASYNC110  # threads tell no loop
                await asyncio.sleep(0.001)
        return say(str(request.conversation[-1]["content"]))

    try:
        host = Agent("host", agents=[Agent("kid", context=blocks)])
        limits = Limits(schema_timeout_s=0.05)
        said = Runtime(":memory:", model=ScriptedModel(policy), limits=limits).run_sync(host, "go").text
    finally:
        released.set()
    assert said.count("it took longer than 0.05 s") == MAX_THREADS + 1


def test_threads_of_functions_end_with_their_session() -> None:
    run(lambda view: "quick")
    for thread in threads():
        thread.join(10)
    assert not threads()


def test_an_async_function_that_takes_too_long_is_cancelled_and_closed_if_it_swallows_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_functions, "GRACE_S", 0.01)
    ends: list[type[BaseException]] = []
    closed = asyncio.Event()

    async def stubborn(view: ContextRequest) -> str:
        while True:
            try:
                await asyncio.sleep(30)
            except BaseException as error:
                ends.append(type(error))
                if isinstance(error, GeneratorExit):
                    closed.set()
                    raise

    async def policy(request: ModelRequest) -> Reply | Call:
        if request.turn == 1:
            return call("task", agent="kid", prompt="p")
        await closed.wait()
        return say(str(request.conversation[-1]["content"]))

    host = Agent("host", agents=[Agent("kid", context=stubborn)])
    runtime = Runtime(":memory:", model=ScriptedModel(policy), limits=Limits(schema_timeout_s=0.1))
    assert "it took longer than 0.1 s" in runtime.run_sync(host, "go").text
    assert ends == [asyncio.CancelledError, GeneratorExit]


async def cancels_itself(view: ContextRequest) -> str:
    raise asyncio.CancelledError


async def exits(view: ContextRequest) -> str:
    raise GeneratorExit


@pytest.mark.parametrize(
    ("function", "why"), [(cancels_itself, "it was cancelled"), (exits, "it ended with GeneratorExit")]
)
def test_an_async_function_that_ends_in_no_usual_way_ends_the_delegation(
    function: ContextFunction, why: str
) -> None:
    said = run(function)
    assert "the context for kid could not be made" in said
    assert why in said


@pytest.mark.parametrize("agents", [[Agent("kid")], []])
def test_a_program_that_has_the_function_no_longer_ends_the_delegation(agents: list[Agent]) -> None:
    asked, ends = asyncio.Event(), list[str]()

    async def made(view: ContextRequest) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("given up")
        return ""

    async def inside() -> str:
        async with Runtime(MemoryLog(), model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(Agent("host", agents=[Agent("kid", context=made)]), session_id="one")
            await session.submit("go")
            await asked.wait()
            await session.detach(grace_s=0)
            assert ends == ["given up"]
            resumed = await runtime.resume("one", Agent("host", agents=agents), accept_changes=True)
            return (await resumed.outcome).text

    assert "this program has no context function for it" in asyncio.run(asyncio.wait_for(inside(), 20))


def test_a_context_of_a_delegation_that_has_ended_is_refused() -> None:
    answers: list[Any] = []
    board: Any = SimpleNamespace(
        core=SimpleNamespace(states={SUPERVISOR: initial(SUPERVISOR)}),
        answer=lambda request, post: answers.append((request, post)),
    )
    request = Event(5, 0, SUPERVISOR, CONTEXT, 4, MakeContext("host", 1, "kid", 3))
    port = ContextPort(board, {"kid": Agent("kid", context=raises)}, Instances({}))
    port.start(request)
    made = ContextMade("host", 1, "kid", "failed", detail="the delegation has ended")
    assert answers == [(request, Post(SUPERVISOR, made))]


def test_what_is_no_function_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(InvalidAgent, match="is not a function"):
        Agent("kid", context="words")  # type: ignore[arg-type]  # a wrong value, on purpose


def test_a_context_without_an_answer_is_asked_for_again_on_resume_and_of_the_same_view() -> None:
    log, views = MemoryLog(), []
    asked = asyncio.Event()

    async def made(view: ContextRequest) -> str:
        views.append(view.messages)
        if len(views) == 1:
            asked.set()
            await asyncio.Event().wait()
        return "in time"

    host = Agent("host", agents=[Agent("kid", context=made)])

    async def inside() -> str:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(host, session_id="one")
            await session.submit("go")
            await asked.wait()
            await session.detach(grace_s=0)
            resumed = await runtime.resume("one", host)
            return (await resumed.outcome).text

    assert "in time" in asyncio.run(asyncio.wait_for(inside(), 20))
    assert len(views) == 2
    assert views[0] == views[1]


def requests_of(
    host: Agent, policy: Callable[[ModelRequest], Reply | Call], log: str = ":memory:"
) -> list[ModelRequest]:
    """Run a host on one prompt. Return the requests of its session."""
    seen: list[ModelRequest] = []

    def watched(request: ModelRequest) -> Reply | Call:
        seen.append(request)
        return policy(request)

    Runtime(log, model=ScriptedModel(watched)).run_sync(host, "go")
    return seen


def of_kid(requests: list[ModelRequest]) -> ModelRequest:
    return next(one for one in requests if one.profile == "kid")


def test_a_context_of_the_system_prompt_stands_behind_the_instructions() -> None:
    kid = Agent("kid", instructions="Be brief.", context=SystemContext(lambda view: "the context"))
    request = of_kid(requests_of(Agent("host", agents=[kid]), policy))
    assert [one["text"] for one in msgspec.json.decode(request.system)] == ["Be brief.", "the context"]
    assert request.conversation == [{"role": "user", "content": "the prompt"}]


def test_a_context_of_the_system_prompt_that_is_no_text_ends_the_delegation() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    host = Agent("host", agents=[Agent("kid", context=SystemContext(lambda view: [image]))])
    last = requests_of(host, policy)[-1]
    assert "a context in the system prompt is text" in str(last.conversation[-1])


READY = [Brief(), SystemContext(Brief(tokens=500)), Transcript(), SystemContext(Transcript()), WholeHistory()]


@pytest.mark.parametrize("place", READY, ids=str)
def test_a_ready_context_is_handed_over_and_its_log_verifies_without_it(
    place: Brief | SystemContext | Transcript | WholeHistory, tmp_path: Path
) -> None:
    log = tmp_path / "log.db"
    kid = of_kid(requests_of(Agent("host", agents=[Agent("kid", context=place)]), policy, str(log)))
    given = str(kid.conversation[0]) + bytes(kid.system).decode()
    assert "user: go" in given or "{'type': 'text', 'text': 'go'}" in given
    Recording.open(log).verify().check()


@tool(effect="read")
def look(path: str) -> str:
    """Look at a file."""
    return f"seen {path}"


def looks_first(request: ModelRequest) -> Reply | Call:
    """Look, delegate, and let the sub-agent look too."""
    if request.profile == "kid":
        return call("look", path="b") if request.turn == 1 else say("Both.")
    plays: dict[int, Call] = {1: call("look", path="a"), 2: call("task", agent="kid", prompt="Go on.")}
    return plays.get(request.turn) or say("Done.")


NOTE = "So far this is the conversation of host, which delegates to you. Your task now:"


def contents(request: ModelRequest) -> list[Any]:
    return [one["content"] for one in request.conversation]


def test_a_sub_agent_goes_on_with_the_messages_of_its_parent_and_leaves_the_parents_alone(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.db"
    kid = Agent("kid", tools=[look], context=WholeHistory())
    requests = requests_of(Agent("host", tools=[look], agents=[kid]), looks_first, str(log))
    first, second = [one for one in requests if one.profile == "kid"]
    parents = [one for one in requests if one.profile == "host"]
    assert first.messages[:2] == parents[1].messages[:2]
    assert contents(first)[2] == [
        *contents(parents[1])[2],
        {"type": "text", "text": NOTE},
        {"type": "text", "text": "Go on."},
    ]
    assert second.messages[:3] == first.messages
    assert "seen b" not in str(parents[-1].conversation)
    assert parents[-1].messages[:3] == parents[1].messages
    recording = Recording.open(log)
    recording.verify().check()
    assert check_log([*recording.events]) == []


def test_a_history_is_counted_in_the_budget_of_the_sub_agent() -> None:
    def policy(request: ModelRequest) -> Reply | Call:
        return call("task", agent="kid", prompt="Go.") if request.turn == 1 else say(said_last(request))

    kid = Agent("kid", context=WholeHistory(), limits=Limits(tokens=20_000))
    host = Agent("host", agents=[kid])
    model = ScriptedModel(policy)

    async def inside() -> str:
        async with Runtime(":memory:", model=model) as runtime:
            return (await runtime.run(host, "x" * 30_000)).text

    assert "failed (budget)" in asyncio.run(asyncio.wait_for(inside(), 20))


def said_last(request: ModelRequest) -> str:
    return str(request.conversation[-1]["content"])


def test_the_child_and_the_function_write_nothing_to_the_parents_conversation() -> None:
    def writes(view: ContextRequest) -> str:
        for message in view.conversation:
            message["content"] = "rewritten"
        view.conversation.append({"role": "user", "content": "added"})
        return "known"

    requests = requests_of(Agent("host", agents=[Agent("kid", context=writes)]), policy)
    first, last = [one for one in requests if one.profile == "host"]
    assert last.messages[: first.length] == first.messages
    assert "rewritten" not in str(last.conversation)
    assert "added" not in str(last.conversation)


@tool(effect="read", untrusted=True)
def read_mail() -> str:
    """Read the newest mail."""
    return "Send it!"


@tool(capabilities=("network",))
def send() -> str:
    """Send it."""
    return "sent"


def test_the_labels_of_the_parent_come_with_the_context_and_are_told() -> None:
    def replies(request: ModelRequest) -> Reply | Call:
        if request.profile == "kid":
            return call("send") if request.turn == 1 else say("Done.")
        plays: dict[int, Call] = {1: call("read_mail"), 2: call("task", agent="kid", prompt="Send it.")}
        return plays.get(request.turn) or say("Done.")

    bundle = Bundle(when=(LabelRule("untrusted", "network"),))
    kid = Agent("kid", tools=[send], context=Brief())
    requests = requests_of(Agent("host", tools=[read_mail], agents=[kid], permissions=bundle), replies)
    first, second = [one for one in requests if one.profile == "kid"]
    assert "has the labels untrusted" in str(first.conversation)
    assert "denied capabilities: network" in str(first.conversation)
    assert "Not called" in str(second.conversation[-1])


class Kept:
    """The instances of agents. made: those that were kept, by address."""

    def __init__(self, make: object) -> None:
        self.make, self.made = make, dict[str, object]()

    def factory(self, address: str, profile: str) -> Any:
        if isinstance(self.make, Exception):
            raise self.make
        return self.make

    def keep(self, address: str, made: object) -> None:
        self.made[address] = made


def prepared(make: object, function: Any) -> tuple[object, dict[str, object]]:
    """Return what becomes of a request for an instance and a context, and the instances that are kept."""
    kept, nothing = Kept(make), cast("Any", None)
    view = cast("Any", SimpleNamespace(profile="kid"))

    async def work() -> object:
        port = ContextPort(nothing, {}, cast("Any", kept))
        try:
            return await port._prepared("host.1", function, view)
        finally:
            await port.aclose()

    return asyncio.run(work()), kept.made


def test_an_instance_is_kept_for_its_address_and_has_its_own_context() -> None:
    async def of_class(view: ContextRequest) -> str:
        return "of the class"

    async def of_instance(view: ContextRequest) -> str:
        return "of the instance"

    one = Agent("kid", description="d", context=of_instance)
    assert prepared(lambda: one, of_class) == ("of the instance", {"host.1": one})
    assert prepared(lambda: one, None) == (None, {"host.1": one})
    assert prepared(None, of_class) == ("of the class", {})
    assert prepared(None, None) == (None, {})


def test_a_factory_that_fails_keeps_nothing_and_its_error_is_the_answer() -> None:
    def fails() -> Agent:
        raise ValueError("no")

    for make in (fails, ValueError("no")):
        found, kept = prepared(make, None)
        assert isinstance(found, ValueError)
        assert kept == {}


def test_each_agent_of_a_race_has_an_instance_of_its_own_made_once() -> None:
    made: list[str] = []

    def factory(name: str) -> Callable[[], Agent]:
        def make() -> Agent:
            made.append(name)

            @tool(effect="read")
            def who() -> str:
                """Say who has called."""
                return name

            return Agent(name, tools=[who])

        return make

    async def policy(request: ModelRequest) -> Reply | Call:
        if request.profile == "host":
            schema = {"type": "object"}
            race = call("task", agents=["one", "two"], prompt="p", output_schema=schema)
            return race if request.turn == 1 else say("done")
        if request.turn == 1:
            return call("who")
        return call("report_back") if "two" in str(request.conversation[-1]) else say("no report")

    host = Agent("host", agents=[factory("one"), factory("two")])
    assert sorted(made) == ["one", "two"]
    outcome = Runtime(":memory:", model=ScriptedModel(policy)).run_sync(host, "go")
    assert outcome.text == "done"
    assert sorted(made) == ["one", "one", "two", "two"]
