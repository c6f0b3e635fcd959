"""The work of a shard: checked where it is written, before it travels to a node."""

from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.cluster.ray_shard import ShardSpec, named
from tests.crash.cluster_agents import host
from tests.tables import table

URL = "postgresql://app:secret@db/agents"
GIVEN: dict[str, Any] = {"log": URL, "agents": ("tests.crash.cluster_agents:host",)}


@table(
    ("changed", "words"),
    [
        ({"log": "callboard.db"}, "give postgresql://"),
        ({"log": "mysql://app@db/agents"}, "give postgresql://"),
        ({"log": "postgresql://app@db/agents?unknown=1"}, "not a parameter"),
        ({"agents": ()}, "at least one agent"),
        ({"agents": ("host",)}, "write module:name"),
        ({"agents": (":host",)}, "write module:name"),
        ({"runtime": "module:"}, "write module:name"),
        ({"slots": 0}, "one slot"),
        ({"lease_ms": 100}, "at least 400 ms"),
    ],
)
def test_work_that_no_shard_can_do_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(MisuseError, match=words):
        ShardSpec(**{**GIVEN, **changed})


def test_the_password_of_the_log_is_not_shown() -> None:
    assert "secret" not in repr(ShardSpec(**GIVEN))


def test_code_is_named_and_found_on_the_node() -> None:
    assert ShardSpec(**GIVEN).hosts() == [host]
    for name in ("no.such.module:host", "tests.crash.cluster_agents:nobody"):
        with pytest.raises(MisuseError, match=f"{name} cannot be imported on this node"):
            named(name)
    with pytest.raises(MisuseError, match="is not an Agent, but int"):
        ShardSpec(URL, ("tests.crash.cluster_agents:CALLS",)).hosts()


def test_the_runtime_is_the_users_own_and_writes_the_log_on_the_server() -> None:
    runtime, log = ShardSpec(**GIVEN).made()
    assert runtime.log is log
    with pytest.raises(MisuseError, match="returns no Runtime"):
        ShardSpec(**GIVEN, runtime="builtins:str").made()
