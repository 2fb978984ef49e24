"""What a server counted, and whether it is as it was while nobody wanted anything."""

import collections
import os

from quire_server import wait_until
from scrape import scrape_of

# gRPC starts threads as work comes, at most two for each core, and keeps them.
MAX_MORE_THREADS = 2 * os.cpu_count()
GAUGES = ["vllm:num_requests_running", "vllm:num_requests_waiting", "quire_requests_open",
          "quire_queued_prefill_tokens", "vllm:kv_cache_usage_perc"]


def gauge(server, name):
    return scrape_of(server).sum(name)


class Counts:
    """How many Generate calls ended how, as the server counts them, since this was made."""

    def __init__(self, server):
        self.server = server
        self.before = self._read()

    def _read(self):
        page = scrape_of(self.server)
        return collections.Counter(
            {(name, label): count for name, key in [
                ("vllm:request_success_total", "finished_reason"),
                ("quire_rejections_total", "reason"),
                ("quire_request_failures_total", "reason")]
             for label, count in page.by(name, key).items()})

    def get(self):
        now = self._read()
        now.subtract(self.before)
        return {key: count for key, count in now.items() if count}

    def total(self):
        return sum(self.get().values())


class Rest:
    """What a server has while nobody wants anything."""

    def __init__(self, server):
        self.server = server
        self.num_fds, self.num_threads = server.num_fds(), server.num_threads()

    def is_back(self):
        page = scrape_of(self.server)
        return (page.sum("quire_kv_blocks", state="held") == 0
                and all(page.sum(name) == 0 for name in GAUGES)
                and self.server.num_fds() <= self.num_fds)

    def wait(self):
        try:
            wait_until(self.is_back, "all as before")
        except AssertionError as error:
            page = scrape_of(self.server)
            left = {name: page.sum(name) for name in GAUGES}
            raise AssertionError(f"{error}: {page.sum('quire_kv_blocks', state='held')} blocks "
                                 f"held, {self.server.num_fds()} files open, {self.num_fds} "
                                 f"before, {left}") from None
        num_threads = self.server.num_threads()
        assert num_threads <= self.num_threads + MAX_MORE_THREADS, (num_threads, self.num_threads)


def lines_of(server):
    """The log's lines about Generate calls: by request id, of which each has one at most, and those
    of calls that were gone before their message was there."""
    lines = [line for line in server.access_lines() if line["method"] == "Generate"]
    by_id = {line["request_id"]: line for line in lines if "request_id" in line}
    nameless = [line for line in lines if "request_id" not in line]
    assert len(by_id) + len(nameless) == len(lines), "two lines about one request"
    return by_id, nameless
