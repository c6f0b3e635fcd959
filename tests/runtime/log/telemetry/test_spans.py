"""A span by itself."""

import opentelemetry.semconv._incubating.attributes.gen_ai_attributes as gen_ai_attributes
import opentelemetry.semconv._incubating.metrics.gen_ai_metrics as gen_ai_metrics
import pytest
from msgspec.structs import replace
from opentelemetry.semconv.schemas import Schemas

from callboard import __version__
from callboard.actors.protocol.origin import Origin
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.metrics import INSTRUMENTS
from callboard.runtime.log.telemetry.spans import (
    Link,
    ids_of,
    ids_of_link,
    library_version,
    span_id,
    trace_id,
)
from tests.runtime.telemetry.sessions import spans_of_host


def test_a_clock_that_goes_back_gives_no_negative_length() -> None:
    one = replace(spans_of_host()[-1], end_ms=0)
    assert one.duration_ms == 0
    assert replace(one, end_ms=one.begun.at + 7).duration_ms == 7
    assert one.seq == one.begun.seq


def test_the_version_of_a_library_that_is_not_installed_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SCOPE", "no-such-library")
    assert library_version.__wrapped__() == ""


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


def test_an_id_depends_on_the_session_and_the_event_and_on_nothing_else() -> None:
    assert (
        span_id("one", 2).hex() == "4e6799b4cbcd9612"
    )  # the same in every version: ids are kept by backends
    assert trace_id("one", 2).hex() == "12b9874d113c93f87a5f8d33959f5d1e"
    assert len({span_id("one", 2), span_id("one", 3), span_id("two", 2), trace_id("one", 2)[:8]}) == 4
    assert span_id("one", 12) != span_id("one1", 2)


def test_the_parent_of_a_root_is_empty() -> None:
    spans = spans_of_host()
    roots = [one for one in spans if ids_of("one", one)[2] == b""]
    assert [one.operation for one in roots] == ["invoke_workflow"]
    child = next(one for one in spans if one.parent)
    assert ids_of("one", child)[1:] == (span_id("one", child.seq), span_id("one", child.parent))
    assert {ids_of("one", one)[0] for one in spans} == {trace_id("one", roots[0].seq)}


def test_a_link_may_lead_into_another_session() -> None:
    assert ids_of_link("one", Link("resume", 2, 5)) == (trace_id("one", 2), span_id("one", 5))
    assert ids_of_link("one", Link("fork", 2, 2, "two")) == (trace_id("two", 2), span_id("two", 2))
