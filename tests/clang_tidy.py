"""Runs clang-tidy (.clang-tidy) over the sources that do not see gRPC; those take too long.

  /usr/bin/python3 tests/clang_tidy.py [--build build/release] [--budget-s 420]

Files found clean are remembered by content, where tidy_test.py remembers headers. When the budget
is spent, the rest is counted and left to the next run; a finding in any file that was checked fails
this one.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

import tidy_test

FOLDERS = r"(kernels|paged_kv|scheduler|engine|server)/.*\.cc"
# clang knows other warnings than g++, whose -Werror is the one that counts.
EXTRA = ["--extra-arg=-Wno-everything", "--extra-arg=-Wno-unknown-warning-option"]


def sees_grpc(path, known):
    """True where the file, or one of ours that it includes, includes gRPC or generated code."""
    for name in tidy_test.closure(path, known):
        full = os.path.join(tidy_test.ROOT, name)
        if not os.path.isfile(full):
            return True  # generated
        if re.search(r'#\s*include\s+[<"](grpc|google/|quire/v1/)', tidy_test.read(name)):
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(tidy_test.ROOT, "build", "release"))
    parser.add_argument("--budget-s", type=float, default=420)
    parser.add_argument("files", nargs="*", help="default: all")
    args = parser.parse_args()
    until = time.monotonic() + args.budget_s
    cache = tidy_test.cache_folder()
    salt = tidy_test.read(".clang-tidy") + subprocess.run(
        ["clang-tidy", "--version"], check=True, capture_output=True, text=True).stdout

    known, jobs, skipped = {}, [], []
    with open(os.path.join(args.build, "compile_commands.json"), encoding="utf-8") as commands:
        for entry in json.load(commands):
            path = os.path.relpath(entry["file"], tidy_test.ROOT)
            if not re.fullmatch(FOLDERS, path) or (args.files and path not in args.files):
                continue
            if sees_grpc(path, known):
                skipped.append(path)
                continue
            flags = re.sub(r"-o \S+", "", entry["command"]).replace(tidy_test.ROOT, ".")
            key = tidy_test.content_key(path, salt + flags, known)
            mark = os.path.join(cache, "clang-" + key)
            if not os.path.exists(mark):
                jobs.append((path, mark))

    def check(job):
        path, mark = job
        left = until - time.monotonic()
        if left < 5:
            return path, None, ""
        try:
            done = subprocess.run(["clang-tidy", "--quiet", "-p", args.build, *EXTRA, path],
                                  cwd=tidy_test.ROOT, capture_output=True, text=True,
                                  timeout=left + 60)
        except subprocess.TimeoutExpired:
            return path, None, ""
        if done.returncode == 0:
            open(mark, "w").close()
        return path, done.returncode == 0, done.stdout + done.stderr

    failed, unchecked, findings = 0, 0, set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, clean, output in pool.map(check, jobs):
            if clean is None:
                unchecked += 1
            elif not clean:
                failed += 1
                # One in a header is found once per source that includes it.
                for finding in re.findall(r"^/.*?(?=^/|\Z)", output, re.M | re.S):
                    if finding not in findings:
                        findings.add(finding)
                        print(finding.replace(tidy_test.ROOT + "/", ""), end="")
    print(f"clang-tidy: {len(jobs) - unchecked} files checked, {failed} with findings, "
          f"{unchecked} left for the next run, {len(skipped)} skipped because they see gRPC")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
