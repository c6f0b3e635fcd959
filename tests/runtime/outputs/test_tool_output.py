"""`ToolOutput` refuses parts that are not readable."""

from typing import Any

import pytest

from callboard import Telemetry
from callboard.actors.protocol.telemetry import Metric
from callboard.errors import MisuseError
from callboard.outputs import OutputRules, ToolOutput, metrics
from tests.tables import table


@table(
    ("parts", "words"),
    [
        ({"summary": 3}, "summary=...\\) is text, not 3"),
        ({"observation": None}, "observation=...\\) is text"),
        ({"checkpoint": 1}, "checkpoint=...\\) is text"),
        ({"metadata": []}, "metadata=...\\) is a dict"),
        ({"state_update": "x"}, "state_update=...\\) is a dict"),
        ({"telemetry": {}}, "telemetry=...\\) is a Telemetry"),
        ({"error": "no"}, "error=...\\) is an OutputError"),
        ({"response_format": "long"}, "response_format is concise, standard, detailed or raw, not 'long'"),
        ({"compressed": "zip"}, "compressed is json, yaml, xml, toon or auto, not 'zip'"),
    ],
)
def test_a_part_of_the_wrong_type_is_refused(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(MisuseError, match=words):
        ToolOutput(1, **parts)


@pytest.mark.parametrize("rules", [{"format": "x"}, {"encoding": "x"}, {"show": "name"}, {"show": (1,)}])
def test_rules_that_are_not_known_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=next(iter(rules))):
        OutputRules(**rules)


def test_an_output_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ToolOutput(1).summary = "other"  # type: ignore[misc]  # the point of the test


def test_metrics_are_finite_numbers() -> None:
    assert Telemetry(metrics=metrics(rows=3, share=0.5)).metrics[0].value == 3.0
    for bad in (float("nan"), float("inf"), 10**400):
        assert [one.name for one in metrics(rows=bad, share=1)] == ["share"]
    with pytest.raises(ValueError, match="the metric 'rows' is a finite number"):
        Metric("rows", float("nan"))
