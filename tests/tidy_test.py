"""Checks the source tree against the project's rules: layers, names, sizes, format.

  /usr/bin/python3 tests/tidy_test.py [--build build/release] [--no-headers]

One line per violation, `file:line: rule: what`. Standard library only; also needs git, g++ and
clang-format. Headers that compiled alone are remembered by content (in QUIRE_TIDY_CACHE, by default
build/tidy), so that a second run takes seconds.
"""

import argparse
import concurrent.futures
import hashlib
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMPILER = "g++"
FLAGS = "-std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Werror -x c++".split()

# ---- which folder may include what: DESIGN and README.md, "Layout" ----

# Headers of the first folder that the second may include; patterns are matched as a whole.
INCLUDES = {
    "kernels": [r"kernels/.*"],
    "paged_kv": [r"paged_kv/.*", r"kernels/check\.h"],
    "scheduler": [r"scheduler/.*", r"paged_kv/(?!kv_storage).*", r"kernels/check\.h"],
    "engine": [r"engine/.*", r"scheduler/.*", r"paged_kv/.*", r"kernels/.*"],
    "server": [
        r"server/.*", r"quire/v1/.*", r"google/rpc/.*", r"grpc/.*", r"kernels/check\.h",
        r"scheduler/(request|step_plan|scheduler)\.h",
        # What engine/ offers to those above it.
        r"engine/(engine|engine_config|inspect|machine|machine_speed|step_times)\.h",
        r"engine/(token_listener|token_constraint)\.h",
        r"engine/(gguf|gguf_override)\.h",
        r"engine/json_fields\.h",  # typed reading of operators' JSON
        # Sizes in words, as paged_kv/ and engine/ write them.
        r"paged_kv/capacity\.h",
    ],
    "tests": [r".*"],
}
EXTRA_INCLUDES = {
    # Storage is the one part of paged_kv that touches memory.
    "paged_kv/kv_storage.h": [r"kernels/.*"],
    "paged_kv/kv_storage.cc": [r"kernels/.*"],
}
# Headers of the system that a folder must not use, and why.
BANNED_SYSTEM = {
    "kernels|paged_kv|scheduler": (
        r"grpc.*|google/.*|spdlog/.*|nlohmann/.*|CLI/.*|gtest/.*", "nothing but absl and std here"),
    "engine": (r"grpc.*|google/.*|CLI/.*|gtest/.*", "no transport in engine/"),
    "scheduler|paged_kv/(?!kv_storage).*": (
        r"chrono|thread|mutex|condition_variable|ctime|absl/time/clock\.h|absl/synchronization/.*",
        "no clock, no threads: time is a parameter"),
}
OUR_FOLDERS = ("kernels", "paged_kv", "scheduler", "engine", "server", "tests")

# ---- sizes and exceptions ----

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
MAX_README_LINES = 120
MAX_COLUMNS = 100

# (file, rule) -> why it is right here.
EXCEPTIONS = {
    ("tests/tidy_test.py", "words"): "names what it forbids",
    ("server/field_rules.cc", "function_size"): "a table: a row for each field of the API",
    ("tests/sim/README.md", "file_size"): "tables: what was covered, which planted bugs are told",
    ("tests/server/field_cases.cc", "function_size"): "a table: a row for each field of the API",
}
# Headers that need more than FLAGS to compile alone: (pattern, flags).
HEADER_FLAGS = [
    (r"kernels/cpu/.*",
     "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq "
     "-mavx512vnni -mavx512bf16 -DQUIRE_ISA=isa_avx512bf16"),
]

WORDS = [
    (r"\busing namespace\b", r"\.(cc|h|cu|cuh)$", "using namespace"),
    (r"\b(TODO|FIXME|XXX|HACK)\b", r".", "unfinished business belongs into an issue"),
    (r"std::cout|std::cerr", r"^(?!server/cli/|tests/).*\.(cc|h)$", "printing outside server/cli"),
    (r"""["' =(](/work/|/root/|/home/|/tmp/\w)""", r"^(?!README|.*\.md$).", "a machine's path"),
    (r"\b(class|struct|enum|using|trait|type)\s+(class\s+)?\w*?"
     r"(Manager|Helper|Utils?|Impl|Mgr)(?![a-z])", r"\.(cc|h|cu|cuh|rs)$", "a hollow name"),
    (r"^\s*#\s*pragma once", r"\.(h|cuh)$", "include guards, as everywhere here"),
]
BANNED_PATH = re.compile(r"(^|/)(utils?|common|core|misc|helpers?|managers?)(/|\.(cc|h|rs|py)$)"
                         r"|_(utils?|helpers?|manager|impl)\.(cc|h|rs|py)$")

violations = []


def report(path, line, rule, what):
    if (path, rule) not in EXCEPTIONS:
        violations.append(f"{path}:{line}: {rule}: {what}")


def tracked_files():
    """Files of the tree that git does not ignore, committed or not."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                            check=True, capture_output=True).stdout.decode()
    return sorted(f for f in listed.split("\0") if f and os.path.isfile(os.path.join(ROOT, f)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
        return source.read()


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def without_comments(text):
    """Comments, strings and character literals blanked out; lines stay where they are."""
    return re.sub(
        r'//[^\n]*|/\*.*?\*/|\bR?r?#*"(?:\(.*?\)"|(?:\\.|[^"\\\n])*")|"(?:\\.|[^"\\])*"'
        r"|'(?:\\[^\n]{1,8}?|[^'\\\n])'", blank, text, flags=re.S)


def check_includes(path, text):
    folder = path.split("/")[0]
    if folder not in INCLUDES:
        return
    allowed = INCLUDES[folder] + EXTRA_INCLUDES.get(path, [])
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        header = match.group(2)
        ours = header.split("/")[0] in OUR_FOLDERS or re.match(r"quire/v1/", header)
        if ours and not any(re.fullmatch(p, header) for p in allowed):
            report(path, number, "layers", f"{folder}/ must not include {header}")
        if match.group(1) == '"' and "/" not in header:
            report(path, number, "layers", f"{header}: name our headers from the root of the tree")
        for where, (banned, why) in BANNED_SYSTEM.items():
            if re.match(rf"({where})(/|$)", path) and re.fullmatch(banned, header):
                report(path, number, "layers", f"{header}: {why}")


def functions(text):
    """(first line, last line) of each outermost function body; an estimate by braces."""
    text = re.sub(r"^\s*#[^\n]*(?:\\\n[^\n]*)*", blank, without_comments(text), flags=re.M)
    depth, start, begin, line = 0, 0, None, 1
    for i, char in enumerate(text):
        if char == "\n":
            line += 1
        elif char == "{":
            if begin is None:
                head = text[start:i]
                if ")" in head and not re.search(
                        r"^\s*(namespace|extern|enum|impl|mod|trait|union|match)\b|=\s*$|"
                        r"\b(class|struct)\s+(\w+|alignas\(\w+\)\s*\w+)[^()]*$", head):
                    first = line - head.lstrip().count("\n")
                    begin = (depth, first)
            depth += 1
            start = i + 1
        elif char == "}":
            depth -= 1
            start = i + 1
            if begin is not None and depth == begin[0]:
                yield begin[1], line
                begin = None
        elif char == ";" and begin is None:
            start = i + 1


def check_text(path, text):
    lines = text.splitlines()
    limit = MAX_README_LINES if os.path.basename(path) == "README.md" else MAX_FILE_LINES
    if re.search(r"(\.(cc|h|cu|cuh|rs|py|sh|proto|md|cmake)|CMakeLists\.txt)$", path):
        if len(lines) > limit:
            report(path, len(lines), "file_size", f"{len(lines)} lines, the ceiling is {limit}")
        for number, line in enumerate(lines, 1):
            # rustfmt minds Rust's; tables in Markdown cannot be broken.
            if len(line) > MAX_COLUMNS and path[-3:] not in (".rs", ".md"):
                report(path, number, "columns", f"{len(line)}, the limit is {MAX_COLUMNS}")
    if text and not text.endswith("\n"):
        report(path, len(lines), "columns", "no newline at the end of the file")
    for pattern, where, why in WORDS:
        if re.search(where, path):
            for number, line in enumerate(lines, 1):
                if re.search(pattern, line):
                    report(path, number, "words", f"{why}: {line.strip()[:60]}")
    if re.search(r"\.(cc|h|cu|cuh|rs)$", path):
        for first, last in functions(text):
            if last - first + 1 > MAX_FUNCTION_LINES:
                report(path, first, "function_size",
                       f"{last - first + 1} lines, the ceiling is {MAX_FUNCTION_LINES}")


def check_listed(files):
    """Every source is named in the CMakeLists.txt of its folder, or of one above it."""
    listed = []
    for cmake in files:
        if os.path.basename(cmake) == "CMakeLists.txt":
            for name in re.findall(r"[\w./${}]+\.(?:cc|cu)\b", read(cmake)):
                # ${isa} and the like: any word.
                name = re.sub(r"\\\$\\\{\w+\\\}", r"\\w+", re.escape(name))
                listed.append(re.escape(os.path.dirname(cmake)) + "/" + name)
    listed = re.compile("|".join(listed) or "(?!)")
    for path in files:
        if re.search(r"\.(cc|cu)$", path) and not listed.fullmatch(path):
            report(path, 1, "listed", "in no CMakeLists.txt, so it is never compiled")


def check_guarantees(files):
    """The tests that tests/GUARANTEES.md names for a promise are there."""
    tests = "".join(read(f) for f in files if re.fullmatch(r"tests/.*\.(cc|h|py)", f))
    for number, line in enumerate(read("tests/GUARANTEES.md").splitlines(), 1):
        cells = line.split(" | ")
        for name in re.findall(r"`(\w+)`", cells[1]) if len(cells) == 3 else []:
            if name not in tests:
                report("tests/GUARANTEES.md", number, "guarantees", f"there is no {name}")


def closure(path, known):
    """The file and all of ours that it includes, directly or not."""
    if path not in known:
        known[path] = {path}
        text = read(path) if os.path.isfile(os.path.join(ROOT, path)) else ""
        for header in re.findall(r'#\s*include\s+"([^"]+)"', text):
            if header.split("/")[0] in OUR_FOLDERS:
                known[path] = known[path] | closure(header, known)
    return known[path]


def content_key(path, salt, known):
    """Changes whenever the file, an included one of ours, or `salt` does."""
    digest = hashlib.sha256(salt.encode())
    for name in sorted(closure(path, known)):
        digest.update(name.encode() + b"\0")
        if os.path.isfile(os.path.join(ROOT, name)):
            digest.update(read(name).encode())
    return digest.hexdigest()


def proven_by_build(header, files):
    """True where its own source includes it first: then the build compiles it alone."""
    source = header[:-2] + ".cc"
    if source not in files:
        return False
    first = re.search(r'^#include [<"]([^>"]+)', read(source), re.M)
    return first is not None and first.group(1) == header


def cache_folder():
    """Where results are remembered; a name there changes whenever its result could."""
    folder = os.environ.get("QUIRE_TIDY_CACHE", os.path.join(ROOT, "build", "tidy"))
    os.makedirs(folder, exist_ok=True)
    return folder


def check_headers(files, build):
    """Every header compiles alone, so that including it is enough."""
    cache = cache_folder()
    version = subprocess.run([COMPILER, "-dumpfullversion"], check=True, capture_output=True,
                             text=True).stdout
    protos = "".join(read(f) for f in files if f.endswith(".proto"))
    known = {}

    def compile_alone(path):
        flags = FLAGS + [f"-I{ROOT}", "-isystem", f"{build}/proto"]
        for pattern, more in HEADER_FLAGS:
            flags += more.split() if re.fullmatch(pattern, path) else []
        salt = version + " ".join(flags).replace(ROOT, ".")
        salt += protos if path.startswith(("server", "tests")) else ""
        mark = os.path.join(cache, "header-" + content_key(path, salt, known))
        if os.path.exists(mark):
            return None
        done = subprocess.run([COMPILER, *flags, path], cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            open(mark, "w").close()
            return None
        errors = [e for e in done.stderr.splitlines() if "error" in e]
        return path, errors[0] if errors else done.stderr[:200]

    headers = [f for f in files if f.endswith(".h") and not proven_by_build(f, files)]
    for path in headers:
        closure(path, known)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for failure in pool.map(compile_alone, headers):
            if failure:
                report(failure[0], 1, "compiles_alone", failure[1])


def check_format(files):
    sources = [f for f in files if re.search(r"\.(cc|h|cu|cuh)$", f)]
    if not sources:
        return
    done = subprocess.run(["clang-format", "--dry-run", *sources], cwd=ROOT, capture_output=True,
                          text=True)
    seen = set()
    for match in re.finditer(r"^(\S+?):(\d+):\d+: warning: code should be", done.stderr, re.M):
        if match.group(1) not in seen:
            seen.add(match.group(1))
            report(match.group(1), match.group(2), "format", "clang-format -i " + match.group(1))
    if done.returncode != 0:
        report(".clang-format", 1, "format", done.stderr[:300])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="a built tree: the generated headers are there")
    parser.add_argument("--no-headers", action="store_true", help="compile nothing")
    args = parser.parse_args()
    for tool in ["git", COMPILER, "clang-format"]:
        if not shutil.which(tool):
            sys.exit(f"tidy_test.py: no {tool} here; deploy/install.sh test installs it")
    files = tracked_files()
    for path in files:
        if BANNED_PATH.search(path):
            report(path, 1, "words", "a folder or file name that says nothing")
        if path.startswith("deploy/") and re.search(r"\.(cc|h)$", path):
            report(path, 1, "layers", "deploy/ has no C++")
        if re.search(r"\.(cc|h|cu|cuh|rs|py|sh|proto|md|cmake|txt|json|toml)$", path) and not (
                path.startswith("tests/golden/") or path.endswith("Cargo.lock")):
            text = read(path)
            check_text(path, text)
            if re.search(r"\.(cc|h|cu|cuh)$", path):
                check_includes(path, text)
    check_listed(files)
    check_guarantees(files)
    check_format(files)
    if not args.no_headers:
        check_headers(files, os.path.abspath(args.build))
    print("\n".join(violations) or f"{len(files)} files are tidy")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
