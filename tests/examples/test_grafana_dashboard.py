"""The Grafana dashboard asks for metrics and labels that exist."""

import json
import re
from typing import Any

from callboard.runtime.log.telemetry.metrics import INSTRUMENTS
from tests.pages import ROOT

BOARD: dict[str, Any] = json.loads((ROOT / "examples" / "grafana_dashboard.json").read_text())
_SERIES = re.compile(r"\b(?:callboard|gen_ai)_\w+")
_GROUPS = re.compile(r"by \(([^)]*)\)")


def series() -> dict[str, tuple[str, ...]]:
    """Return the labels of every series by its name for Prometheus."""
    found = {}
    for one in INSTRUMENTS:
        labels = tuple(name.replace(".", "_") for name in one.labels)
        if one.kind == "histogram":
            found.update({f"{one.prometheus}{end}": labels for end in ("_sum", "_count")})
            found[f"{one.prometheus}_bucket"] = (*labels, "le")
        else:
            found[one.prometheus] = labels
    return found


def targets() -> list[dict[str, str]]:
    return [target for panel in BOARD["panels"] for target in panel["targets"]]


def legend_labels(target: dict[str, str]) -> list[str]:
    return re.findall(r"{{(\w+)}}", target["legendFormat"])


def test_every_query_names_metrics_and_labels_that_exist() -> None:
    known = series()
    for target in targets():
        groups = [group for found in _GROUPS.findall(target["expr"]) for group in found.split(", ")]
        (name,) = set(_SERIES.findall(target["expr"])) - set(groups)
        assert name in known, target["expr"]
        shown = legend_labels(target)
        assert set(groups) | set(shown) <= set(known[name]), target["expr"]
        assert set(shown) <= set(groups), target["expr"]


def unit_of(expression: str) -> str:
    """Return Grafana's unit for the values of a query."""
    (one,) = [one for one in INSTRUMENTS if re.search(rf"\b{one.prometheus}(_bucket)?\b", expression)]
    found = {"s": "s", "By": "bytes", "USD": "currencyUSD"}.get(one.unit, "short")
    is_rate_of_calls = "quantile" not in expression and "rate(" in expression and one.unit != "{token}"
    return "ops" if is_rate_of_calls else found


def test_every_panel_has_the_unit_of_its_queries() -> None:
    for panel in BOARD["panels"]:
        units = {unit_of(target["expr"]) for target in panel["targets"]}
        assert units == {panel["fieldConfig"]["defaults"]["unit"]}, panel["title"]


def test_every_metric_is_on_the_dashboard() -> None:
    text = " ".join(target["expr"] for target in targets())
    assert [one.name for one in INSTRUMENTS if one.prometheus not in text] == []


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert all(x < 24 for x, _ in places)


def test_every_panel_asks_the_data_source_that_the_reader_chooses() -> None:
    (variable,) = BOARD["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    for one in (*BOARD["panels"], *targets()):
        assert one["datasource"]["uid"] == f"${{{variable['name']}}}"
