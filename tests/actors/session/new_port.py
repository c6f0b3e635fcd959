"""A process whose sources have one more port: a weather service that the supervisor asks at every ask.

    python -m tests.actors.session.new_port

The port is added before anything of callboard is imported, as a developer would add it: an address, two
messages, one row of the port table and one row of the supervisor's handlers. Then one session is run live,
verified, resumed from a cut of its log, and simulated. Prints a word for each.
"""

import asyncio
import importlib.machinery
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import CodeType, ModuleType
from typing import Any

CHANGES = {
    "callboard.actors.protocol.addresses": [
        ("PORTS: Final = frozenset({", 'PORTS: Final = frozenset({"weather", ')
    ],
    "callboard.actors.protocol.port_messages": [
        (
            "PortInput: TypeAlias = (\n",
            "@final\n"
            "class AskWeather(Message, frozen=True):\n"
            "    city: str\n\n\n"
            "@final\n"
            "class WeatherTold(Message, frozen=True):\n"
            "    city: str\n"
            "    text: str\n\n\n"
            "PortInput: TypeAlias = (\n    AskWeather |\n",
        ),
    ],
    "callboard.actors.protocol.messages": [
        ("    ApprovalGiven,\n", "    ApprovalGiven,\n    WeatherTold,\n"),
        ("SupervisorInput: TypeAlias = ", "SupervisorInput: TypeAlias = WeatherTold | "),
    ],
    "callboard.actors.session.port_table": [
        (
            "    ApprovalGiven,\n    BudgetGiven,\n",
            "    ApprovalGiven,\n    AskWeather,\n    WeatherTold,\n    BudgetGiven,\n",
        ),
        (
            "    CheckSchema: PortRequest(",
            '    AskWeather: PortRequest("weather", WeatherTold, ("city",)),\n    CheckSchema: PortRequest(',
        ),
    ],
    "callboard.actors.supervisor.decider": [
        (
            "port_messages import (\n    BudgetGiven,",
            "port_messages import (\n    AskWeather,\n    WeatherTold,\n    BudgetGiven,",
        ),
        (
            "    Ask: Handler(lambda work, sender, body: asks.on_ask(work, body)),",
            "    Ask: Handler(lambda work, sender, body: (\n"
            '        asks.on_ask(work, body), work.post("weather", AskWeather("Ulm")))),\n'
            "    WeatherTold: Handler(lambda work, sender, body: None),",
        ),
    ],
}


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        for old, new in CHANGES[fullname]:
            if source.count(old) != 1:
                raise ValueError(f"{fullname}: {old!r} occurs {source.count(old)} times")
            source = source.replace(old, new)
        return compile(source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname in CHANGES else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def main() -> None:
    """Drive one session with the new port in every way there is."""
    from callboard import Agent, Runtime, ScriptedModel, say
    from callboard.actors.protocol import port_messages
    from callboard.actors.protocol.addresses import SUPERVISOR
    from callboard.actors.protocol.events import Event, Post
    from callboard.replay.recording import Recording
    from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
    from callboard.replay.testing.sessions.scripted_replies import Reply
    from callboard.replay.testing.sessions.world import SessionWorld
    from callboard.runtime.log.memory import MemoryLog, MemoryReader
    from callboard.runtime.log.protocol import Append
    from callboard.runtime.sessions.board import Board

    new: Any = port_messages
    real = Board.__init__

    class Weather:
        def __init__(self, board: Board) -> None:
            self.board = board

        def start(self, request: Event) -> None:
            self.board.answer(request, told(request))

        def abort(self, request: Event) -> bool:
            return False

        def detach(self) -> None: ...

        running: set[asyncio.Task[Any]] = set()  # noqa: RUF012  # it never runs anything

        async def aclose(self) -> None: ...

    def told(request: Event) -> Post:
        return Post(SUPERVISOR, new.WeatherTold("Ulm", "fog"))

    def with_weather(board: Board, *args: Any, **kwargs: Any) -> None:
        real(board, *args, **kwargs)
        board.ports["weather"] = Weather(board)

    Board.__init__ = with_weather  # type: ignore[assignment, method-assign]  # the explorer has no port of this kind, so its board gets one here
    host = Agent("host")
    log = MemoryLog()

    async def live(log: MemoryLog, goes_on: bool) -> list[Event]:
        async with Runtime(log, model=ScriptedModel(lambda request: say("done"))) as runtime:
            if goes_on:
                session = await runtime.resume("s", host)
                await session.outcome
                await session.close()
            else:
                await runtime.run(host, "go", session_id="s")
        return list(Recording.open(MemoryReader(log), "s").events)

    events = asyncio.run(live(log, goes_on=False))
    assert [event.body for event in events if event.kind == "WeatherTold"] == [told(events[0]).body]
    print("live")
    assert Recording.open(MemoryReader(log), "s").verify().is_ok
    print("verified")

    asked = next(event.seq for event in events if event.kind == "AskWeather")

    async def cut() -> MemoryLog:
        shorter = MemoryLog()
        await shorter.open()
        epoch = await shorter.create("s", 0, "go")
        await shorter.append([Append("s", 0, epoch, events[:asked])])
        return shorter

    resumed = asyncio.run(live(asyncio.run(cut()), goes_on=True))
    assert sum(event.kind == "WeatherTold" for event in resumed) == 1, "asked again, answered once"
    print("resumed")

    scenario = Scenario(
        [profile("host")], lambda request: Reply(text="done"), [ask()], others={new.AskWeather: told}
    )
    world = SessionWorld(scenario).run()
    assert len(world.of(new.WeatherTold)) == 1
    assert world.ended.kind == "answered"
    print("simulated")


if __name__ == "__main__":
    sys.meta_path.insert(0, _Finder())
    main()
