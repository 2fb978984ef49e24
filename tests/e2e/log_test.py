"""The log of a server: one line for each request, its fields, and nothing of what clients say."""

import json
import os
import time
import unittest

import grpc

from raw_http2 import (ACK, END_HEADERS, END_STREAM, GENERATE, HEADERS, PING, RawConnection,
                       header_block)
from quire_server import (ANSWER_S, DATA, Server, greedy, health_pb2, model_pb2, pb, smollm2,
                          tiny_model, tokenizer_pb2)

BYTE_MODEL = os.path.join(DATA, "gguf_types", "BF16.gguf")  # random weights, no chat template
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
MAX_REFUSALS, WINDOW_S = 50, 10  # server/access_log.h

# Those that gRPC reads itself, and complains of.
OWN_HEADERS = ["grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "te", "content-type",
               ":method", ":scheme", ":path", ":authority", "user-agent", "host",
               "grpc-previous-rpc-attempts", "grpc-retry-pushback-ms", "grpc-status",
               "grpc-message", "grpc-internal-encoding-request", "grpc-tags-bin",
               "grpc-trace-bin", "x-other-bin"]


class AccessLogTest(unittest.TestCase):
    def test_a_request_has_one_line_with_its_numbers(self):
        with Server(tiny_model()) as server:
            request = greedy([3, 4, 5], 6)
            request.request_id = "one"
            answer = server.ask(request)
            (line,) = server.access_lines(1)
        self.assertEqual(line["level"], "info")
        self.assertEqual(line["message"], "request")
        self.assertEqual(line["method"], "Generate")
        self.assertEqual(line["request_id"], "one")
        self.assertRegex(line["peer"], r"^ipv4:127\.0\.0\.1:\d+$")
        self.assertEqual(line["status"], "OK")
        self.assertEqual(line["finish_reason"], "length")
        self.assertNotIn("reason", line)
        self.assertNotIn("trace_id", line)
        usage, timings = answer.finished.usage, answer.finished.timings
        self.assertEqual(line["prompt_tokens"], usage.prompt_tokens)
        self.assertEqual(line["cached_tokens"], usage.cached_tokens)
        self.assertEqual(line["completion_tokens"], usage.completion_tokens)
        self.assertEqual(line["preemptions"], 0)
        self.assertAlmostEqual(line["queued_ms"], timings.queued_ms, places=3)
        self.assertAlmostEqual(line["ttft_ms"], timings.ttft_ms, places=3)
        self.assertAlmostEqual(line["total_ms"], timings.total_ms, places=3)

    def test_the_trace_that_a_call_is_part_of_is_told_where_it_is_valid(self):
        headers = [(("traceparent", TRACEPARENT),),
                   (("traceparent", TRACEPARENT.upper()),),
                   (("traceparent", TRACEPARENT + "-more"),),
                   (("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)),
                   (("traceparent", "x" * 55),),
                   (("traceparent", "cc" + TRACEPARENT[2:] + "-more"),
                    ("tracestate", "vendor=value"))]
        with Server(tiny_model()) as server:
            for i, metadata in enumerate(headers):
                request = greedy([3, 4], 1)
                request.request_id = f"trace-{i}"
                for _ in server.generation.Generate(request, timeout=ANSWER_S, metadata=metadata):
                    pass
            traces = {line["request_id"]: line.get("trace_id")
                      for line in server.access_lines(len(headers))}
        self.assertEqual([traces[f"trace-{i}"] for i in range(len(headers))],
                         [TRACE_ID, None, None, None, None, TRACE_ID])

    def test_ends_of_all_kinds_are_told(self):
        with Server(tiny_model(), "--max-num-seqs", "1") as server:
            refused = server.ask(greedy([3], 4, top_p=7))
            self.assertEqual(refused.info().reason, "INVALID_FIELD")
            ahead = [server.generation.Generate(greedy([3, 4 + i], 400), timeout=ANSWER_S)
                     for i in range(20)]
            for stream in ahead:
                self.assertEqual(next(stream).WhichOneof("event"), "accepted")
            last = greedy([3, 4], 400)
            last.request_id = "last"
            stream = server.generation.Generate(last, timeout=ANSWER_S)
            self.assertEqual(next(stream).WhichOneof("event"), "accepted")
            stream.cancel()
            for other in ahead:
                other.cancel()
            lines = server.access_lines(22)
        self.assertEqual((lines[0]["status"], lines[0]["reason"]),
                         ("INVALID_ARGUMENT", "INVALID_FIELD"))
        (cancelled,) = [line for line in lines if line.get("request_id") == "last"]
        self.assertEqual((cancelled["status"], cancelled["reason"]), ("CANCELLED", "CANCELLED"))
        self.assertNotIn("finish_reason", cancelled)
        self.assertNotIn("ttft_ms", cancelled)
        self.assertEqual(cancelled["queued_ms"], cancelled["total_ms"])
        self.assertEqual([cancelled[name] for name in ["prompt_tokens", "cached_tokens",
                                                       "completion_tokens"]], [0, 0, 0])

    def test_a_flood_of_refusals_does_not_fill_the_log(self):
        with Server(tiny_model()) as server:
            start = time.monotonic()
            for _ in range(300):
                self.assertIsNotNone(server.ask(greedy([3], 4, top_p=7)).error)
            server.stop()
            num_windows = int((time.monotonic() - start) / WINDOW_S) + 1
            lines = len(server.access_lines())
        self.assertGreaterEqual(lines, MAX_REFUSALS)
        self.assertLessEqual(lines, num_windows * MAX_REFUSALS)


def send_header(server, name, value):
    """A call with one header like this beside those that all have; returns when it was read."""
    fields = {":method": "POST", ":scheme": "http", ":path": GENERATE, ":authority": "test",
              "content-type": "application/grpc", "te": "trailers", name: value}
    with RawConnection(server.address) as connection:
        connection.send(HEADERS, END_HEADERS | END_STREAM, 1, header_block(fields.items()))
        connection.send(PING, 0, 0, b"12345678")
        connection.read_until(lambda f: f.type == PING and f.flags & ACK)


class WrongHeaderTest(unittest.TestCase):
    def test_at_level_info_no_header_leaves_a_line(self):
        with Server(tiny_model()) as server:
            for name in OWN_HEADERS:
                send_header(server, name, "\x1b[2Jwrong" * 1000)
            server.stop()
            self.assertNotIn("grpc", server.log())

    def test_at_level_debug_its_line_is_short(self):
        with Server(tiny_model(), "--log-level", "debug") as server:
            send_header(server, "grpc-timeout", "x" * 15_000)
            server.wait_for_log("grpc: Error parsing metadata")
            server.stop()
            for line in server.log().splitlines():
                message = json.loads(line)["message"]
                if message.startswith("grpc: "):
                    self.assertLessEqual(len(message), len("grpc: ") + 200)
                    self.assertNotIn("xxx", message)


class SecrecyTest(unittest.TestCase):
    def test_nothing_that_clients_send_or_get_is_in_the_log_at_any_level(self):
        self.keeps_secrets(BYTE_MODEL)

    def test_nothing_of_a_conversation_is_in_the_log_at_any_level(self):
        self.keeps_secrets(smollm2())

    def keeps_secrets(self, model):
        with Server(model, "--log-level", "trace") as server:
            secrets, outputs = self.talk(server)
            server.stop()
            log = server.log()
        for secret in secrets:
            self.assertNotIn(secret, log)
            self.assertNotIn(secret.lower(), log.lower())
        for output in outputs:
            self.assertNotIn(output, log)
            self.assertNotIn(json.dumps(output)[1:-1], log)
        self.assertIn('"method":"Generate"', log)
        self.assertIn("grpc: Error parsing metadata", log)

    def talk(self, server):
        """Sends unique words in every place that a text fits in. Returns them, and the answers."""
        secrets, outputs = [], []

        def secret(where):
            secrets.append(f"Xq7{where}Zk9")
            return secrets[-1]

        def ask(**fields):
            params = fields.pop("params", {})
            metadata = fields.pop("metadata", ())
            request = pb.GenerateRequest(**fields, params=pb.GenerationParams(
                temperature=0, max_tokens=24, **params))
            text = ""
            try:
                for response in server.generation.Generate(request, timeout=ANSWER_S,
                                                           metadata=metadata):
                    text += response.delta.text
            except grpc.RpcError:
                pass
            if len(text) > 12:
                outputs.append(text)

        def call(method, request):
            try:
                method(request, timeout=ANSWER_S)
            except grpc.RpcError:
                pass

        message = pb.Message
        ask(text="Once upon a time, " + secret("Prompt"))
        ask(chat=pb.Chat(messages=[
            message(role="system", content=secret("System")),
            message(role="user", content=secret("User"), name=secret("Name")),
        ], tools_json='[{"type": "function", "function": {"name": "%s"}}]' % secret("Tool")))
        ask(chat=pb.Chat(messages=[message(role="user", content="x")],
                         tools_json="not JSON " + secret("BadTools")))
        ask(chat=pb.Chat(messages=[message(role=secret("Role"), content="x")]))
        ask(text="x", params={"stop": [secret("Stop")], "bad_words": [secret("BadWord")]})
        ask(text="x", params={"stop": [secret("LongStop") * 100]})
        ask(text="x", model=secret("Model"))
        ask(text="x", request_id=secret("RequestId") + " with a space")
        ask(text="x", metadata=(("x-request-id", secret("Metadata") + " with a space"),))
        ask(text="x", metadata=(("traceparent", secret("Trace")),
                                ("tracestate", secret("TraceState")),
                                ("authorization", "Bearer " + secret("Token")),
                                ("x-other", secret("Other"))))
        ask(text=secret("TooLong") * 200_000)
        ask(text="x", params={"top_p": 7, "stop": [secret("StopBesideError")]})
        call(server.generation.Abort, pb.AbortRequest(request_ids=[secret("AbortId")]))
        call(server.generation.Abort, pb.AbortRequest(request_ids=[secret("BadAbortId") + " x"]))
        call(server.tokenizer.Tokenize, tokenizer_pb2.TokenizeRequest(text=secret("Tokenize")))
        call(server.tokenizer.Tokenize,
             tokenizer_pb2.TokenizeRequest(text="x", model=secret("TokenizeModel")))
        call(server.models.GetModel, model_pb2.GetModelRequest(model=secret("GetModel")))
        call(server.health.Check, health_pb2.HealthCheckRequest(service=secret("Health")))
        call(server.channel.unary_unary(f"/quire.v1.{secret('Service')}/{secret('Method')}"), b"x")
        call(server.channel.unary_unary("/quire.v1.GenerationService/Abort"),
             b"\x0a\xff" + secret("Bytes").encode())
        for i, name in enumerate(OWN_HEADERS):
            send_header(server, name, secret(f"Header{i}"))
        self.assertTrue(outputs)
        return secrets, outputs


if __name__ == "__main__":
    unittest.main()
