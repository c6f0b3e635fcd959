"""The names are those of the conventions."""

import opentelemetry.semconv._incubating.attributes.gen_ai_attributes as gen_ai_attributes
import opentelemetry.semconv._incubating.metrics.gen_ai_metrics as gen_ai_metrics
from opentelemetry.semconv.schemas import Schemas

from callboard import __version__
from callboard.actors.protocol.origin import Origin
from callboard.runtime.log.telemetry import names
from callboard.runtime.log.telemetry.metrics import INSTRUMENTS


def test_every_name_of_the_conventions_is_one_that_they_have() -> None:
    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    ours = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert len(ours) > 15
    assert ours <= known
    metrics = {value for value in vars(gen_ai_metrics).values() if isinstance(value, str)}
    assert {one.name for one in INSTRUMENTS if one.name.startswith("gen_ai.")} <= metrics


def test_the_schema_is_the_one_of_the_conventions() -> None:
    assert Schemas[f"V{names.CONVENTIONS.replace('.', '_')}"].value == names.SCHEMA_URL


def test_a_service_has_the_name_that_the_conventions_give_it() -> None:
    known = {one.value for one in gen_ai_attributes.GenAiProviderNameValues}
    for adapter, provider in (("anthropic", ""), ("chat", "openai"), ("x", "google"), ("x", "bedrock")):
        assert names.provider_name(Origin(adapter, provider)) in known
    assert names.provider_name(Origin(model="scripted")) == "_OTHER"


def test_the_version_is_that_of_the_library() -> None:
    assert names.library_version() in (__version__, "")
