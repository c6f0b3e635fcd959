"""Origins: who makes the messages of a model."""

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec


def test_a_model_without_an_origin_is_known_by_its_name() -> None:
    assert ModelSpec("m").made_by == Origin(model="m")
    assert ModelSpec("m").made_by is named("m")
    other = Origin("layered", "openai", "https://api.openai.com/v1", "gpt-5")
    assert ModelSpec("m", origin=other).made_by is other


def test_origins_cost_a_log_nothing_where_there_is_one_model() -> None:
    assert b"origin" not in encode(ModelSpec("m"))
    assert b"origin" not in encode(ModelReplied(1))
    assert encode(ModelReplied(1, origin=named("m"))).endswith(b'"origin":{"model":"m"}}')
