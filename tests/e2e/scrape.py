"""Reads /metrics as Prometheus does, and more strictly."""

import re
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

ANSWER_S = 60  # a page that does not come by then is broken
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def get(address, path):
    """(status, text) of a page; the address is host:port."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=ANSWER_S) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Scrape:
    """The series of one scrape: {(name, ((label, value), ...)): value}; the format is checked."""

    def __init__(self, text):
        self.series, self.types = {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.types, f"two TYPE lines for {name}"
                assert f"# HELP {name} " in text, f"no HELP for {name}"
                assert (kind == "counter") == name.endswith("_total"), line
                self.types[name] = kind
        assert text.endswith("\n"), text[-80:]
        for family in text_string_to_metric_families(text):
            assert NAME.fullmatch(family.name), family.name
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self.series, f"twice: {key}"
                self.series[key] = sample.value
        self._check_histograms()

    def _check_histograms(self):
        for name in [n for n, kind in self.types.items() if kind == "histogram"]:
            buckets = {}
            for (sample, labels), value in self.series.items():
                if sample == name + "_bucket":
                    rest = tuple(label for label in labels if label[0] != "le")
                    buckets.setdefault(rest, []).append((float(dict(labels)["le"]), value))
            assert buckets, f"{name} has no buckets"
            for rest, pairs in buckets.items():
                pairs.sort()
                counts = [count for _, count in pairs]
                assert counts == sorted(counts), f"{name}{rest}: {pairs}"
                assert pairs[-1][0] == float("inf"), f"{name}{rest}: {pairs}"
                assert counts[-1] == self.series[name + "_count", rest], f"{name}{rest}"
                assert (name + "_sum", rest) in self.series, f"{name}{rest}"

    def names(self):
        return {name for name, _ in self.series}

    def labels(self, name):
        return {label for sample, labels in self.series if sample == name for label, _ in labels}

    def sum(self, name, **labels):
        """Of all series of this name with these labels, among others. There must be one."""
        found = [value for (sample, own), value in self.series.items()
                 if sample == name and labels.items() <= dict(own).items()]
        assert found, f"no {name} {labels}"
        return sum(found)

    def by(self, name, label):
        """{value of the label: value of the series} where it is not 0."""
        return {dict(labels)[label]: value for (sample, labels), value in self.series.items()
                if sample == name and value != 0}


def scrape_of(server):
    status, text = get(server.metrics_address, "/metrics")
    assert status == 200, text
    return Scrape(text)
