"""What the end-to-end tests share: the stubs, and a server of our own."""

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The suite's own variables. They leave the environment here, because `quire` refuses a QUIRE_
# variable that it does not know.
SETTINGS = {name: os.environ.pop(name) for name in list(os.environ)
            if name.startswith("QUIRE_") and name != "QUIRE_CPU_ISA"}
BINARY = SETTINGS.get("QUIRE_BINARY", os.path.join(ROOT, "build", "release", "quire"))
DATA = SETTINGS.get("QUIRE_TEST_DATA", os.path.join(ROOT, "tests", "golden"))
GOLDEN = SETTINGS.get("QUIRE_GOLDEN", os.path.join(ROOT, "..", "shared", "golden"))
SMOLLM2 = SETTINGS.get("QUIRE_SMOLLM2", os.path.join(
    ROOT, "build", "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))
WORK = os.path.join(os.path.dirname(BINARY), "e2e")
START_S = 60  # a server that is not ready by then is broken
ANSWER_S = 120  # likewise a request


def make_stubs():
    """Generates the Python stubs of proto/ with Debian's protoc and puts them on the path."""
    os.makedirs(WORK, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="stubs.", dir=WORK)
    proto = os.path.join(ROOT, "proto")
    files = [os.path.join(base, f) for base, _, names in os.walk(proto) for f in names
             if f.endswith(".proto")]
    subprocess.run(["protoc", f"-I{proto}", f"--python_out={folder}",
                    f"--grpc_python_out={folder}",
                    "--plugin=protoc-gen-grpc_python=" + shutil.which("grpc_python_plugin"),
                    *files], check=True)
    # grpc and google are packages already: ours of these names are modules inside them.
    for name in ["grpc/health", "google/rpc"]:
        if os.path.isdir(os.path.join(folder, name)):
            package = importlib.import_module(name.split("/")[0])
            package.__path__.append(os.path.join(folder, name.split("/")[0]))
    sys.path.insert(0, folder)
    return folder


_stubs = make_stubs()
from quire.v1 import generation_pb2 as pb  # noqa: E402
from quire.v1 import admin_pb2, admin_pb2_grpc  # noqa: E402
from quire.v1 import generation_pb2_grpc, model_pb2, model_pb2_grpc  # noqa: E402
from quire.v1 import tokenizer_pb2, tokenizer_pb2_grpc  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402
from grpc.health.v1 import health_pb2, health_pb2_grpc  # noqa: E402

shutil.rmtree(_stubs, ignore_errors=True)


def tiny_model(name="llama_gqa_llama3"):
    """A random model with 512 tokens and no tokenizer."""
    for folder in [DATA, GOLDEN]:
        path = os.path.join(folder, "models", name)
        if os.path.isfile(os.path.join(path, "config.json")):
            return path
    raise unittest.SkipTest(f"{path} is not there (QUIRE_GOLDEN)")


def smollm2():
    if not os.path.isfile(SMOLLM2):
        raise unittest.SkipTest(f"{SMOLLM2} is not there (deploy/fetch_model.sh)")
    return SMOLLM2


def quire(*args, env=None, stdout=subprocess.PIPE):
    """A command run to its end as a script runs it, with `env` on top of our environment."""
    return subprocess.run([BINARY, *args], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=ANSWER_S, check=False,
                          env={**os.environ, **(env or {})})


class Server:
    """`quire serve` on a free port, ready when the constructor returns; a context manager.

    With wait=False it may still be loading then. `credentials`: to reach it over TLS. `popen` is
    for the process: another stderr than the file of log() needs another log() as well."""

    def __init__(self, model, *flags, drain_delay="0", listen="127.0.0.1:0",
                 metrics_listen="127.0.0.1:0", wait=True, credentials=None, **popen):
        os.makedirs(WORK, exist_ok=True)
        handle, self.log_path = tempfile.mkstemp(prefix="server.", suffix=".log", dir=WORK)
        self.process = subprocess.Popen(
            [BINARY, "serve", model, "--listen", listen, "--drain-delay", drain_delay,
             "--metrics-listen", metrics_listen, *flags],
            **{"stdin": subprocess.DEVNULL, "stdout": handle, "stderr": handle, **popen})
        os.close(handle)
        try:
            self.address = self._wait_until(self._address, "an address").group(0)
            self.channel = (grpc.secure_channel(self.address, credentials) if credentials
                            else grpc.insecure_channel(self.address))
            self.generation = generation_pb2_grpc.GenerationServiceStub(self.channel)
            self.models = model_pb2_grpc.ModelServiceStub(self.channel)
            self.tokenizer = tokenizer_pb2_grpc.TokenizerServiceStub(self.channel)
            self.health = health_pb2_grpc.HealthStub(self.channel)
            if wait:
                self._wait_until(self.is_serving, "SERVING")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def access_lines(self, count=0):
        """The log's lines about calls, as objects, when there are so many."""
        def lines():
            whole = self.log().split("\n")[:-1]  # the last may still be written
            return [line for line in map(json.loads, whole) if "method" in line]
        wait_until(lambda: len(lines()) >= count, f"{count} lines about calls", ANSWER_S)
        return lines()

    def last_words(self):
        """(preemptions, blocks held, blocks) as the log of a server that ended has them."""
        found = re.search(r"preemptions (\d+), KV blocks held (\d+) of (\d+)", self.log())
        return tuple(map(int, found.groups()))

    def num_fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def num_threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def peak_memory_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return int(re.search(r"VmHWM:\s*(\d+) kB", status.read()).group(1)) << 10

    def _wait_until(self, condition, what):
        """Polls while the server runs; its log tells why that failed."""
        def holds():
            ended = self.process.poll() is not None  # asked first: its last words count
            found = condition()
            assert found or not ended, f"{what}: the server ended with {self.process.returncode}"
            return found
        try:
            return wait_until(holds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def _address(self):
        return re.search(r"127\.0\.0\.1:([1-9]\d*)", self.log())

    def wait_for_log(self, words):
        self._wait_until(lambda: words in self.log(), f"{words!r} in the log")

    def is_serving(self, service=""):
        try:
            request = health_pb2.HealthCheckRequest(service=service)
            response = self.health.Check(request, timeout=10)
        except grpc.RpcError:
            return False
        return response.status == health_pb2.HealthCheckResponse.SERVING

    @property
    def admin_address(self):
        return re.search(r"administration on ([\d.:]+)", self.log()).group(1)

    @property
    def metrics_address(self):
        return re.search(r"metrics on http://([\d.:]+)/metrics", self.log()).group(1)

    def info(self):
        return self.models.GetModel(model_pb2.GetModelRequest(), timeout=10)

    def ask(self, request, token=None):
        return Answer(self.generation.Generate(request, timeout=ANSWER_S, metadata=bearer(token)))

    def stop(self):
        """Ends it as an operator would. Returns the exit code."""
        self.channel.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"SIGTERM did not end it in 60 s:\n{self.log()}")
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
            sys.stderr.write(f"--- end of {self.log_path}\n{self.log()[-4000:]}\n")
        self.stop()


def bearer(token):
    """The metadata of a call by whoever has this token."""
    return [("authorization", f"Bearer {token}")] if token else None


class Answer:
    """Reads a stream to its end and keeps what it said. The order of events is checked."""

    def __init__(self, stream):
        self.events, self.tokens, self.text = [], [], ""
        self.accepted = self.choice = self.finished = self.error = None
        try:
            for response in stream:
                event = response.WhichOneof("event")
                self.events.append(event)
                if event == "accepted":
                    self.accepted = response.accepted
                elif event == "delta":
                    assert response.delta.token_offset == len(self.tokens), self.events
                    self.tokens += response.delta.token_ids
                    self.text += response.delta.text
                elif event == "choice_finished":
                    self.choice = response.choice_finished
                elif event == "finished":
                    self.finished = response.finished
        except grpc.RpcError as error:
            self.error = error
        order = "".join(e[0] for e in self.events)
        if self.error is None:
            assert re.fullmatch(r"ap*d*cf", order), f"events in this order: {self.events}"
        else:
            assert re.fullmatch(r"(ap*d*c?)?", order), f"events in this order: {self.events}"

    def info(self):
        """ErrorInfo out of the failure's details."""
        return detail(self.error, error_details_pb2.ErrorInfo)


def detail(error, kind):
    """The detail of this kind that a failure must have."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for packed in status_pb2.Status.FromString(value).details:
                found = kind()
                if packed.Unpack(found):
                    return found
    raise AssertionError(f"no {kind.DESCRIPTOR.name} in {error!r}")


def retry_after_s(error):
    """The delay that a refusal tells both ways: RetryInfo, and the trailer that clients obey."""
    delay = detail(error, error_details_pb2.RetryInfo).retry_delay
    # As pairs: the metadata of grpc.aio only looks like a dictionary.
    pushback_ms = dict(iter(error.trailing_metadata()))["grpc-retry-pushback-ms"]
    assert float(pushback_ms) == delay.seconds * 1e3 + delay.nanos / 1e6, (pushback_ms, delay)
    return float(pushback_ms) / 1e3


def wait_until(condition, what, timeout_s=START_S):
    """Polls, for what no event tells. Returns what the condition gave."""
    until = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.02)
    return found


def greedy(ids, max_tokens, **params):
    """A request for greedy tokens after a prompt of token ids."""
    return pb.GenerateRequest(token_ids=pb.TokenIds(ids=ids), params=pb.GenerationParams(
        temperature=0, max_tokens=max_tokens, ignore_eos=True, **params))


def sampled(ids, max_tokens, seed, **params):
    return pb.GenerateRequest(token_ids=pb.TokenIds(ids=ids), params=pb.GenerationParams(
        temperature=1, seed=seed, max_tokens=max_tokens, ignore_eos=True, **params))
