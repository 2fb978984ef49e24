"""What operators are given about metrics is there: queries of the dashboard, rows of the table."""

import json
import os
import re
import unittest

from quire_server import ROOT, Server, greedy, tiny_model
from scrape import scrape_of

DASHBOARD = os.path.join(ROOT, "deploy", "grafana", "quire.json")


def queries(dashboard):
    """All PromQL of the dashboard: of panels and of variables."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]


FUNCTIONS = {"sum", "max", "by", "rate", "histogram_quantile", "time", "and", "label_values"}
# Given by Prometheus to all that it scrapes.
FOREIGN_LABELS = {"instance"}


def names_and_labels(query):
    """({metric name: {label: value in its selector}}, labels that results are grouped by) of a
    query; the value of a label that is matched otherwise than by = is None."""
    query = query.replace("$__rate_interval", "5m")
    grouped = {label for labels in re.findall(r"\bby \(([^)]*)\)", query)
               for label in re.split(r",\s*", labels)}
    query = re.sub(r"\bby \([^)]*\)", "", query)
    values = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    if values:
        return {values.group(1): {}}, {values.group(2)}
    names = {}
    for name, selector in re.findall(r"([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})?(?!\w)",
                                     re.sub(r"\[\w+\]", "", query)):
        if name not in FUNCTIONS:
            own = names.setdefault(name, {})
            for label, how, value in re.findall(r'(\w+)(=~?)"([^"]*)"', selector):
                own[label] = value if how == "=" else None
    return names, grouped


class DocumentTest(unittest.TestCase):
    def test_the_table_of_metrics_has_exactly_those_that_are_exposed(self):
        listed = {}
        with open(os.path.join(ROOT, "deploy", "METRICS.md"), encoding="utf-8") as page:
            table = page.read().split("## Metrics")[1].split("## Log")[0]
        for names, kind in re.findall(r"^\| (`.*?`) \| (\w+) \|", table, re.M):
            for name in re.findall(r"`([^`]+)`", names):
                listed[name] = kind
        with Server(tiny_model()) as server:
            self.assertEqual(listed, scrape_of(server).types)


class DashboardTest(unittest.TestCase):
    def test_every_query_finds_series_with_the_labels_that_it_names(self):
        with open(DASHBOARD, encoding="utf-8") as file:
            dashboard = json.load(file)
        with Server(tiny_model()) as server:
            server.ask(greedy([3, 4, 5], 8))
            server.ask(greedy([5], 4, top_p=7))
            scrape = scrape_of(server)
        num_queries = 0
        for title, query in queries(dashboard):
            with self.subTest(title, query=query):
                names, grouped = names_and_labels(query)
                self.assertTrue(names, "no metric in it")
                for name, selected in names.items():
                    self.assertIn(name, scrape.names())
                    labels = scrape.labels(name) | FOREIGN_LABELS
                    self.assertLessEqual(selected.keys() | grouped, labels)
                    values = {label: v for label, v in selected.items() if v is not None}
                    scrape.sum(name, **values)  # such series are there
                num_queries += 1
        self.assertGreater(num_queries, 30)

    def test_legends_name_labels_that_results_have(self):
        with open(DASHBOARD, encoding="utf-8") as file:
            dashboard = json.load(file)
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                _, grouped = names_and_labels(target["expr"])
                if re.match(r"(sum|histogram_quantile)\b", target["expr"]):
                    self.assertLessEqual(named, grouped, panel["title"])

    def test_no_metric_that_requests_move_is_missing_from_the_dashboard(self):
        with open(DASHBOARD, encoding="utf-8") as file:
            names = [name for _, query in queries(json.load(file))
                     for name in names_and_labels(query)[0]]
        shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
        with Server(tiny_model()) as server:
            server.ask(greedy([5], 4))
            ours = {name for name in scrape_of(server).types if not name.startswith("process_")}
        self.assertEqual(ours - shown, set())

    def test_panels_have_places_of_their_own(self):
        with open(DASHBOARD, encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        taken = set()
        for panel in panels:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            taken |= cells
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))


if __name__ == "__main__":
    unittest.main()
