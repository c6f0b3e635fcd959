"""The ids of spans and traces."""

from callboard.runtime.log.telemetry.ids import ids_of, ids_of_link, span_id, trace_id
from callboard.runtime.log.telemetry.spans import Link
from tests.runtime.telemetry.sessions import spans_of_host


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
