"""Mutation check: plants bugs in scheduler/ and paged_kv/, one at a time, and runs the simulator.

  /usr/bin/python3 tests/sim/mutation/run.py planted --results build/mutation/planted.jsonl
  /usr/bin/python3 tests/sim/mutation/run.py random --results build/mutation/random.jsonl
  /usr/bin/python3 tests/sim/mutation/run.py table --results build/mutation/random.jsonl

The working tree stays as it is: each worker has a copy of it, with a build of its own. A result is
a line of JSON; --resume goes on where an interrupted run stopped. Standard library only; also needs
what building quire needs.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import queue
import sys
import threading
import time

import equivalents
import operators
import planted_bugs
from workbench import DEFAULT_TESTS, ROOT, Workbench

KILLS = ("KILLED", "TIMEOUT")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["planted", "random", "table", "check"],
                        help="check: that all planted bugs and equivalents are where they were")
    parser.add_argument("--results", help="a file of JSON lines")
    parser.add_argument("--resume", action="store_true", help="keep the results that are there")
    parser.add_argument("--again", default="", metavar="RESULT,...",
                        help="with --resume: run those again that came out like this")
    parser.add_argument("--only", default="", help="mutants whose name or key contains this")
    parser.add_argument("--tests", default=DEFAULT_TESTS,
                        help="run in this order, where they exist")
    parser.add_argument("--count", type=int, default=200, help="of random mutants")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of random mutants")
    parser.add_argument("--jobs", type=int, default=1, help="workers")
    parser.add_argument("--seconds", type=int, default=20, help="QUIRE_SIM_SECONDS")
    parser.add_argument("--first-seed", type=int, default=1, help="QUIRE_SIM_FIRST_SEED")
    parser.add_argument("--limit", type=int, default=0,
                        help="seconds for each test; 0: four times what it takes unchanged")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "mutation"),
                        help="folder for the copies and builds")
    return parser.parse_args()


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
        return source.read()


def check_planted():
    """Ends the process unless every planted bug can be planted."""
    names = collections.Counter(bug.name for bug in planted_bugs.PLANTED_BUGS)
    wrong = [f"{name}: two bugs of this name" for name, count in names.items() if count > 1]
    for bug in planted_bugs.PLANTED_BUGS:
        count = text_of(bug.file).count(bug.old)
        if count != 1:
            wrong.append(f"{bug.name}: its old text is {count} times in {bug.file}")
    if wrong:
        sys.exit("run.py: the code has moved on:\n  " + "\n  ".join(wrong))


def check_equivalents():
    """Ends the process if a mutant that is set aside is not there (any more)."""
    orders = operators.drawn(ROOT, 0, 0)
    keys = {mutant.key for _, order in orders.values() for mutant in order}
    gone = sorted(set(equivalents.EQUIVALENTS) - keys)
    if gone:
        sys.exit("run.py: set aside in equivalents.py, and not there:\n  " + "\n  ".join(gone))


def read_results(path):
    """{name: record}; the last record of a name counts."""
    records = {}
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                records[record["name"]] = record
    return records


class Run:
    """Mutants on their way through the workbenches."""

    def __init__(self, args):
        self.args = args
        self.limit_s = args.limit
        self.benches = queue.SimpleQueue()
        self.lock = threading.Lock()
        again = set(filter(None, args.again.split(",")))
        old = read_results(args.results) if args.resume else {}
        self.done = {name: r for name, r in old.items() if r["result"] not in again}
        if not args.resume and args.results and os.path.exists(args.results):
            os.remove(args.results)

    def prepare(self):
        """Builds, and lets every test pass on the tree as it is."""
        environment = {"QUIRE_SIM_SECONDS": str(self.args.seconds),
                       "QUIRE_SIM_FIRST_SEED": str(self.args.first_seed)}
        for i in range(self.args.jobs):
            folder = os.path.join(os.path.abspath(self.args.work), f"w{i}")
            bench = Workbench(folder, self.args.tests.split(), environment)
            bench.prepare()
            began = time.monotonic()
            outcome = bench.run_tests(self.limit_s or 1200)
            if outcome.result != "SURVIVED":
                sys.exit(f"run.py: unchanged, {outcome.by} fails: {outcome.reason}")
            if not self.args.limit:
                self.limit_s = max(self.limit_s, 30 + int(4 * (time.monotonic() - began)))
            self.benches.put(bench)
            print(f"worker {i}: {' '.join(bench.tests)} pass in {outcome.seconds:.0f} s",
                  flush=True)

    def judge(self, name, path, text, more):
        """The result of one mutant, from the file or from trying it out."""
        if name in self.done:
            return self.done[name]
        bench = self.benches.get()
        try:
            outcome = bench.try_out(path, text, self.limit_s)
        finally:
            self.benches.put(bench)
        record = {"name": name, "file": path, **more, **outcome._asdict()}
        with self.lock:
            print(f"{record['result']:10} {name}  [{record['by']}: {record['reason']}, "
                  f"{record['seconds']:.0f} s]", flush=True)
            if self.args.results:
                with open(self.args.results, "a", encoding="utf-8") as lines:
                    lines.write(json.dumps(record) + "\n")
        return record

    def planted(self, bug):
        text = text_of(bug.file).replace(bug.old, bug.new)
        record = self.judge(bug.name, bug.file, text, {"stands_for": bug.stands_for})
        if record["result"] == "NO_COMPILE":
            raise SystemExit(f"run.py: '{bug.name}' does not compile: the code has moved on")

    def random_of_file(self, path, wanted, order):
        """Tries a file's mutants in their order until `wanted` have compiled."""
        text = text_of(path)
        for mutant in order:
            if wanted == 0:
                return
            if self.args.only not in mutant.key:
                continue
            record = self.judge(mutant.key, path, operators.apply(mutant, text),
                                {"line": mutant.line})
            wanted -= record["result"] != "NO_COMPILE"

    def all(self):
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as workers:
            if self.args.what == "planted":
                tasks = [workers.submit(self.planted, bug) for bug in planted_bugs.PLANTED_BUGS
                         if self.args.only in bug.name]
            else:
                drawn = operators.drawn(ROOT, self.args.count, self.args.seed)
                tasks = [workers.submit(self.random_of_file, path, wanted, order)
                         for path, (wanted, order) in drawn.items()]
            for task in tasks:
                task.result()


# ---- tables ----

def cell(text):
    return text.replace("|", "\\|")


def planted_table(records):
    lines = ["| planted bug | file | stands for | caught by |", "|---|---|---|---|"]
    for bug in planted_bugs.PLANTED_BUGS:
        record = records.get(bug.name)
        if record is None:
            continue
        caught = "**not caught**"
        if record["result"] in KILLS:
            caught = f"{record['by']}: {record['reason']}"
        lines.append(f"| {bug.name} | {bug.file} | {cell(bug.stands_for)} | {cell(caught)} |")
    planted = [records[b.name] for b in planted_bugs.PLANTED_BUGS if b.name in records]
    killed = sum(r["result"] in KILLS for r in planted)
    return lines + ["", f"{killed} of {len(planted)} are caught."]


def random_table(records):
    """Equivalent mutants do not count; those that do not compile are not mutants."""
    files = collections.defaultdict(collections.Counter)
    for name, record in records.items():
        if record["result"] == "NO_COMPILE":
            continue
        result = "killed" if record["result"] in KILLS else "survived"
        if result == "survived" and name in equivalents.EQUIVALENTS:
            result = "equivalent"
        for path in (record["file"], "all"):
            files[path]["total"] += 1
            files[path][result] += 1
    total = files.pop("all", collections.Counter())
    lines = ["| file | mutants | equivalent | killed | survived | score |", "|---|" + "--:|" * 5]
    for path, n in sorted(files.items()) + [("all", total)]:
        score = 100 * n["killed"] / max(1, n["total"] - n["equivalent"])
        lines.append(f"| {path} | {n['total']} | {n['equivalent']} | {n['killed']} | "
                     f"{n['survived']} | {score:.0f} % |")
    return lines


def print_tables(args):
    records = read_results(args.results)
    is_planted = any("stands_for" in record for record in records.values())
    print("\n".join(planted_table(records) if is_planted else random_table(records)))
    survivors = [r for n, r in records.items()
                 if r["result"] == "SURVIVED" and n not in equivalents.EQUIVALENTS]
    if not is_planted and survivors:
        print("\nSurvived:\n\n" + "\n".join(f"- `{r['name']}`" for r in survivors))


def main():
    args = arguments()
    if args.what == "table":
        return print_tables(args)
    check_planted()
    check_equivalents()
    if args.what == "check":
        return None
    run = Run(args)
    run.prepare()
    return run.all()


if __name__ == "__main__":
    main()
