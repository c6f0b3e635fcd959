"""Sessions that the tests of the kit look at: a rich one, a cancelled one, a closed one."""

from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from callboard.replay.testing.sessions.world import SessionWorld

SCHEMA: dict[str, object] = {"type": "object", "required": ["n"]}

PROFILES = (
    profile("host", ["kid", "racer"], ["look"], writes=["save"], asks=["pay"]),
    profile("kid", ["grandkid"], ["look"]),
    profile("racer"),
    profile("grandkid"),
)


def policy(request: ModelRequest) -> Reply:
    """Use children, a grandchild, a race, three kinds of tools, an invalid report and a valid one."""
    turn, who = request.turn, request.profile
    if who == "host" and turn == 1:
        asked = (task("kid", "count", output_schema=SCHEMA), task("racer", "race", copies=2))
        return calls(*asked, ("save", {}), ("pay", {}), ("look", {}), text="I ask everybody")
    if who == "kid":
        if turn == 1:
            return calls(task("grandkid", "dig"), ("look", {}), text="I ask further")
        return report({"m": 1}) if turn == 2 else report({"n": 2})
    return Reply(f"{who} is done")


RICH = Scenario(PROFILES, policy, [ask()])
TWO = Scenario(
    (profile("host", ["a", "b"]), profile("a"), profile("b")),
    lambda request: (
        calls(task("a"), task("b")) if (request.profile, request.turn) == ("host", 1) else Reply("done")
    ),
    [ask()],
)


def rich() -> SessionWorld:
    """Run the rich session to its end."""
    return SessionWorld(RICH).run()


def cancelled() -> SessionWorld:
    """Cancel the rich session while its grandchild's model and its child's tool are at work."""
    world = SessionWorld(RICH)
    while not any(one.agent == "host.1.1" for one in world.of(CallModel)):
        world.make(next(move for move in world.moves() if not move.strand.startswith("tool host.1")))
    world.cancel()
    while moves := world.moves():  # ports are slower than every actor
        world.make(next((move for move in moves if move.kind == "deliver"), moves[0]))
    return world


def closed() -> SessionWorld:
    """Run the rich session and close it."""
    return rich().close().run()
