"""What clients rely on: events, equal tokens, ends, refusals. On a tiny random model."""

import concurrent.futures
import json
import math
import os
import unittest

import grpc

from quire_server import ANSWER_S, Answer, Server, greedy, pb, sampled, tiny_model


class GenerateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tiny_model()
        cls.server = Server(cls.model)
        cls.addClassCleanup(cls.server.stop)

    def tearDown(self):
        self.assertTrue(self.server.is_serving(), self.server.log()[-4000:])

    def raw(self, data):
        """Sends bytes that the Python library would refuse to make."""
        call = self.server.channel.unary_stream(
            "/quire.v1.GenerationService/Generate", request_serializer=lambda b: b,
            response_deserializer=pb.GenerateResponse.FromString)
        return Answer(call(data, timeout=ANSWER_S))

    # ---- what a stream says ----

    def test_events_come_in_order_and_the_counts_agree(self):
        answer = self.server.ask(greedy(range(5, 25), 12))
        self.assertIsNone(answer.error)
        self.assertEqual(len(answer.tokens), 12)
        self.assertEqual(answer.accepted.prompt_tokens, 20)
        self.assertEqual(answer.choice.completion_tokens, 12)
        self.assertEqual(answer.choice.finish_reason, pb.FINISH_REASON_LENGTH)
        self.assertEqual(answer.finished.usage.prompt_tokens, 20)
        self.assertEqual(answer.finished.usage.completion_tokens, 12)
        self.assertGreater(answer.finished.timings.total_ms, 0)

    def test_accepted_shows_every_parameter_in_effect(self):
        request = pb.GenerateRequest(token_ids=pb.TokenIds(ids=[5, 6]))
        request.params.max_tokens = 2
        params = self.server.ask(request).accepted.params
        for field in ["temperature", "top_k", "top_p", "min_p", "seed", "max_tokens", "ignore_eos",
                      "skip_special_tokens", "priority", "max_time_ms", "max_queue_ms"]:
            self.assertTrue(params.HasField(field), field)

    def test_tokens_are_those_of_the_reference(self):
        with open(os.path.join(self.model, "greedy.jsonl"), encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        with open(os.path.join(self.model, "..", "models.jsonl"), encoding="utf-8") as lines:
            std = {m["name"]: m["logit_std"] for m in map(json.loads, lines)}
        close = 0.25 * std[os.path.basename(self.model)]
        compared = 0
        for row in rows:
            count = next((i for i, gap in enumerate(row["gaps"]) if gap < close), len(row["gaps"]))
            answer = self.server.ask(greedy(row.get("prompt_ids") or row["prompt"], 40))
            self.assertEqual(answer.tokens[:count], row["tokens"][:count])
            compared += count
        self.assertGreater(compared, 5)

    def test_without_streaming_one_delta_brings_the_same_tokens(self):
        request = greedy(range(5, 25), 12)
        streamed = self.server.ask(request)
        request.stream = False
        whole = self.server.ask(request)
        self.assertEqual(whole.events, ["accepted", "delta", "choice_finished", "finished"])
        self.assertEqual(whole.tokens, streamed.tokens)

    def test_prompt_ids_come_back_when_asked_for(self):
        request = greedy([7, 8, 9], 1)
        request.return_prompt_token_ids = True
        self.assertEqual(self.server.ask(request).events[:2], ["accepted", "prompt"])

    # ---- the same tokens, whatever else runs ----

    def test_a_request_among_forty_others_gives_the_tokens_it_gives_alone(self):
        requests = [sampled([(i * 7 + j) % 500 + 5 for j in range(3 + i * 3)], 20 + i, seed=i)
                    for i in range(40)]
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            together = [a.tokens for a in pool.map(self.server.ask, requests)]
        alone = [self.server.ask(r).tokens for r in requests]
        self.assertEqual(together, alone)
        self.assertEqual([len(t) for t in alone], [20 + i for i in range(40)])
        self.assertNotEqual(alone[0][:8], self.server.ask(sampled([5, 12, 19], 8, seed=99)).tokens)

    def test_the_seed_told_in_accepted_repeats_an_answer(self):
        request = pb.GenerateRequest(token_ids=pb.TokenIds(ids=[5, 6, 7]))
        request.params.MergeFrom(pb.GenerationParams(temperature=1, max_tokens=16,
                                                     ignore_eos=True))
        first = self.server.ask(request)
        request.params.seed = first.accepted.params.seed
        self.assertEqual(self.server.ask(request).tokens, first.tokens)

    def test_the_second_time_a_prompt_comes_from_the_prefix_cache(self):
        request = greedy([(j * 11) % 200 + 300 for j in range(150)], 10)
        first, second = self.server.ask(request), self.server.ask(request)
        self.assertEqual(second.tokens, first.tokens)
        self.assertEqual(first.finished.usage.cached_tokens, 0)
        self.assertGreaterEqual(second.finished.usage.cached_tokens, 128)

    # ---- how a stream ends ----

    def test_a_stop_token_ends_it_and_is_counted(self):
        tokens = self.server.ask(greedy([9, 10, 11], 30)).tokens
        stop = tokens[10]
        answer = self.server.ask(greedy([9, 10, 11], 30, stop_token_ids=[stop]))
        self.assertEqual(answer.tokens, tokens[:tokens.index(stop) + 1])
        self.assertEqual(answer.choice.finish_reason, pb.FINISH_REASON_STOP)
        self.assertEqual(answer.choice.token_id, stop)
        self.assertEqual(answer.choice.completion_tokens, len(answer.tokens))

    def test_abort_ends_it_with_what_there_is(self):
        request = greedy([5, 6], 500)
        request.request_id = "to-abort"
        stream = self.server.generation.Generate(request, timeout=ANSWER_S)
        seen = []
        for response in stream:
            seen.append(response)
            if response.WhichOneof("event") == "delta" and len(seen) < 4:
                self.server.generation.Abort(pb.AbortRequest(request_ids=["to-abort", "unknown"]),
                                             timeout=10)
        self.assertEqual(stream.code(), grpc.StatusCode.OK)
        choice = [r.choice_finished for r in seen if r.WhichOneof("event") == "choice_finished"]
        self.assertEqual(choice[0].finish_reason, pb.FINISH_REASON_ABORTED)
        self.assertEqual(seen[-1].WhichOneof("event"), "finished")
        # Ids are free again once they are over.
        request.params.max_tokens = 1
        self.assertIsNone(self.server.ask(request).error)

    def test_a_deadline_ends_it_with_an_error_and_a_time_limit_without(self):
        # So many keep the tiny model busy for longer than the limits.
        load = [self.server.generation.Generate(greedy([5 + i, 6], 500), timeout=ANSWER_S)
                for i in range(100)]
        late = Answer(self.server.generation.Generate(greedy([1, 2, 3], 500), timeout=0.05))
        limited = self.server.ask(greedy([1, 2, 4], 500, max_time_ms=50))
        for stream in load:
            stream.cancel()
        self.assertEqual(late.error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertIsNone(limited.error)
        self.assertEqual(limited.choice.finish_reason, pb.FINISH_REASON_TIME_LIMIT)

    def test_a_name_in_use_is_refused(self):
        request = greedy([5, 6], 500)
        request.request_id = "twice"
        first = self.server.generation.Generate(request, timeout=ANSWER_S)
        next(first)
        second = self.server.ask(request)
        first.cancel()
        self.assertEqual(second.error.code(), grpc.StatusCode.ALREADY_EXISTS)
        self.assertEqual(second.info().reason, "REQUEST_ID_IN_USE")

    # ---- what is refused ----

    def assert_refused(self, answer, code, reason, *in_message):
        self.assertIsNotNone(answer.error, answer.events)
        self.assertEqual(answer.error.code(), code, answer.error.details())
        self.assertEqual(answer.info().reason, reason)
        self.assertEqual(answer.info().domain, "quire")
        for text in in_message:
            self.assertIn(text, answer.error.details())

    def test_wrong_values_are_refused_by_name(self):
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        for request, texts in [
                (greedy([], 1), ["token_ids"]),
                (pb.GenerateRequest(), ["prompt"]),
                (greedy([5, 512], 1), ["512"]),
                (greedy([5], 0), ["max_tokens"]),
                (pb.GenerateRequest(token_ids=pb.TokenIds(ids=[5]), params=pb.GenerationParams(
                    temperature=math.nan)), ["temperature"]),
                (pb.GenerateRequest(token_ids=pb.TokenIds(ids=[5]), params=pb.GenerationParams(
                    temperature=-1)), ["temperature", "-1"]),
                (greedy([5], 1, top_p=1.5), ["top_p", "1.5"]),
                (greedy([5], 1, min_p=-0.5), ["min_p", "-0.5"]),
                (greedy([5], 1, top_k=-3), ["top_k", "-3"]),
                (greedy([5], 1, priority=101), ["priority", "101"]),
                (greedy([5], 1, stop_token_ids=[512]), ["stop_token_ids", "512"]),
                (pb.GenerateRequest(token_ids=pb.TokenIds(ids=[5]), request_id="a b"),
                 ["request_id"])]:
            with self.subTest(str(request)):
                self.assert_refused(self.server.ask(request), invalid, "INVALID_FIELD", *texts)

    def test_a_prompt_over_the_context_is_refused_with_the_numbers(self):
        limit = self.server.info().limits.max_model_len
        answer = self.server.ask(greedy([5] * limit, 1))
        self.assert_refused(answer, grpc.StatusCode.INVALID_ARGUMENT, "CONTEXT_LENGTH_EXCEEDED",
                            str(limit))
        answer = self.server.ask(greedy([5] * 10, limit))
        self.assert_refused(answer, grpc.StatusCode.INVALID_ARGUMENT, "CONTEXT_LENGTH_EXCEEDED",
                            str(limit))

    def test_an_unknown_model_is_not_found(self):
        request = greedy([5], 1)
        request.model = "no-such-model"
        self.assert_refused(self.server.ask(request), grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND",
                            "no-such-model")

    def test_a_field_of_a_newer_client_is_refused(self):
        data = greedy([5], 1).SerializeToString() + b"\xa0\x1f\x01"  # field 500, varint 1
        self.assert_refused(self.raw(data), grpc.StatusCode.INVALID_ARGUMENT, "UNKNOWN_FIELD",
                            "500")
        params = pb.GenerationParams(max_tokens=1).SerializeToString() + b"\xa0\x1f\x01"
        data = (pb.GenerateRequest(token_ids=pb.TokenIds(ids=[5])).SerializeToString()
                + b"\x3a" + bytes([len(params)]) + params)
        self.assert_refused(self.raw(data), grpc.StatusCode.INVALID_ARGUMENT, "UNKNOWN_FIELD",
                            "GenerationParams", "500")

    def test_bytes_that_are_no_request_are_refused(self):
        for data in [b"\x1a\x02\xff\xfe", b"\xff\xff\xff", b"\x0a\x7f"]:
            answer = self.raw(data)
            self.assertIn(answer.error.code(), [grpc.StatusCode.INVALID_ARGUMENT,
                                                grpc.StatusCode.INTERNAL,
                                                grpc.StatusCode.FAILED_PRECONDITION], data)

    def test_a_compressed_request_is_refused_before_it_grows(self):
        # A small cache: the pages of a large one come in the background.
        with Server(self.model, "--kv-cache-bytes", "8MiB") as server:
            before = server.peak_memory_bytes()
            answer = Answer(server.generation.Generate(
                pb.GenerateRequest(text="x" * (256 << 20)), compression=grpc.Compression.Gzip,
                timeout=ANSWER_S))
            self.assertEqual(answer.error.code(), grpc.StatusCode.UNIMPLEMENTED, answer.error)
            self.assertLess(server.peak_memory_bytes() - before, 64 << 20)

    def test_text_for_a_model_without_tokenizer_is_refused(self):
        answer = self.server.ask(pb.GenerateRequest(text="hello"))
        self.assertEqual(answer.error.code(), grpc.StatusCode.FAILED_PRECONDITION,
                         answer.error.details())


if __name__ == "__main__":
    unittest.main()
