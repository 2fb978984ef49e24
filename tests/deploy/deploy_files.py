"""What the tests of deploy/ share: its files, and what the tree says about itself."""

import functools
import os
import re
import subprocess
import sys
import unittest

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy")
BINARY = os.environ.get("QUIRE_BINARY", os.path.join(ROOT, "build", "release", "quire"))
UID = 10001  # what the images and the manifests run as


class UniqueKeys(yaml.SafeLoader):
    """YAML as others read it: a key that stands there twice is an error."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"twice: {twice}", node.start_mark)
        return super().construct_mapping(node, deep)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
        return source.read()


def documents(path):
    return [d for d in yaml.load_all(read(path), UniqueKeys) if d is not None]


def version():
    return re.search(r"^project\(quire VERSION (\S+)", read("CMakeLists.txt"), re.M).group(1)


@functools.cache
def serve_help():
    if not os.path.isfile(BINARY):
        raise unittest.SkipTest(f"{BINARY} is not built")
    return subprocess.run([BINARY, "serve", "--help"], check=True, capture_output=True,
                          text=True).stdout


def default_s(flag):
    """The seconds that a flag of `quire serve` stands for where nobody sets it."""
    return float(re.search(rf"{flag} .*?\(default: ([\d.]+)\)", serve_help(), re.S).group(1))


def printed_config(path):
    """What `quire serve` makes of a file for --config, a line for each flag with its origin."""
    serve_help()  # skips where there is no binary
    done = subprocess.run([BINARY, "serve", "--config", path, "--print-config"], env={},
                          check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def flag_of(variable):
    """The flag of `quire serve` that an environment variable stands for."""
    return "--" + variable.removeprefix("QUIRE_").lower().replace("_", "-")


def has_flag(flag):
    return re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", serve_help()) is not None


def assert_flags(test, environment):
    """Every QUIRE_ variable of a container is one that `quire serve` takes."""
    for variable in environment:
        if variable.startswith("QUIRE_"):
            with test.subTest(variable):
                test.assertTrue(has_flag(flag_of(variable)),
                                f"`quire serve` has no {flag_of(variable)}: it would not start")


def log(*words):
    print(*words, file=sys.stderr)
