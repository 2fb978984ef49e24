"""Many streams at once, from a process of their own; some of them left by their client."""

import json
import os
import subprocess
import sys

import grpc

import raw_http2 as h2
from quire_server import ANSWER_S, Answer, greedy, pb, sampled

CHOICE_FINISHED = 4 << 3 | 2  # the first byte of such a response


class Failure(grpc.RpcError):
    def __init__(self, status, message, details):
        self.status, self.message, self.trailer = status, message, bytes.fromhex(details)

    def code(self):
        return grpc.StatusCode[self.status]

    def details(self):
        return self.message

    def trailing_metadata(self):
        return [("grpc-status-details-bin", self.trailer)] if self.trailer else []


class Call:
    """A request whose client stays or leaves: after so many responses, and after the choice is
    finished in any case; `num_turns`: how long it dawdles before, in turns of its event loop."""

    def __init__(self, request, leave_after=None, num_turns=0):
        self.request = request
        leave_at = None if leave_after is None else CHOICE_FINISHED
        self.plan = [num_turns, leave_after, leave_at]
        self.status = None  # it is not over

    def set(self, status, message, details, responses, has_left):
        self.status, self.has_left = status, has_left
        self.responses = [pb.GenerateResponse.FromString(bytes.fromhex(r)) for r in responses]
        self.error = None if status == "OK" else Failure(status, message, details)
        self.tokens = [token for r in self.responses for token in r.delta.token_ids]

    def end(self):
        """The status's code and the reason in its message."""
        return self.status, self.error.details().split(":")[0] if self.error else ""

    def answer(self):
        """What a client that stayed was told; the order of events is checked."""
        assert not self.has_left
        return Answer(self._replay())

    def _replay(self):
        yield from self.responses
        if self.error is not None:
            raise self.error


def prompt(rng, length):
    return [rng.randrange(5, 512) for _ in range(length)]


def pool(rng, count, prompt_tokens, max_tokens):
    """Requests of lengths within these ranges, every second one with a seed."""
    requests = []
    for i in range(count):
        ids, length = prompt(rng, rng.randint(*prompt_tokens)), rng.randint(*max_tokens)
        requests.append(sampled(ids, length, seed=i) if i % 2 else greedy(ids, length))
    return requests


def named(prefix, calls):
    """Each with a request id of its own."""
    for i, call in enumerate(calls):
        copy = type(call.request)()
        copy.CopyFrom(call.request)
        call.request, copy.request_id = copy, f"{prefix}-{i}"
    return calls


class Truth:
    """What requests give when the server has nothing else to do."""

    def __init__(self, server, requests):
        self.requests = requests
        self.tokens = [server.ask(request).tokens for request in requests]
        for request, tokens in zip(requests, self.tokens):
            assert len(tokens) == request.params.max_tokens

    def call(self, i, *plan):
        call = Call(self.requests[i % len(self.requests)], *plan)
        call.alone = self.tokens[i % len(self.requests)]
        return call

    def check_still(self, server):
        assert [server.ask(request).tokens for request in self.requests] == self.tokens


class Crowd:
    """Calls that run beside the test, `width` at once on each connection; a context manager, at
    whose end the client is killed if it still runs."""

    def __init__(self, server, calls, num_connections, width):
        self.calls = calls
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(os.path.dirname(__file__), "crowd_client.py"),
             server.address, h2.GENERATE, str(num_connections), str(width), str(ANSWER_S)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with self.process.stdin as plan:
            json.dump([[call.request.SerializeToString().hex(), *call.plan] for call in calls],
                      plan)
        self.process.stdin = None  # as communicate() wants it

    def finish(self):
        """Waits until all are over, and gives the calls what they got."""
        results = json.loads(self.process.communicate(timeout=ANSWER_S)[0])
        for call, result in zip(self.calls, results, strict=True):
            call.set(*result)
        return self.calls

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
