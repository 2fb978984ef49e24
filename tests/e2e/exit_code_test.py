"""Each exit code of the command line, by something that makes it happen."""

import os
import signal
import socket
import subprocess
import unittest

from quire_server import (BINARY, DATA, START_S, Server, greedy, quire, tiny_model,
                          wait_until)

WITH_TEXT = os.path.join(DATA, "gguf_types", "BF16.gguf")  # random weights, byte-level tokenizer
SMALL_KV = ["--kv-cache", "16MiB"]  # memory that any machine has


class ExitCodeTest(unittest.TestCase):
    def ends(self, code, *args, says=""):
        """A line on stderr tells why, and holds `says`; a server's log may precede it."""
        done = quire(*args)
        self.assertEqual(done.returncode, code, done.stderr)
        if code != 0:
            why = [line for line in done.stderr.splitlines() if line.startswith("quire: ")]
            self.assertTrue(why, done.stderr)
            self.assertIn(says, why[0])

    def test_0_where_all_went_well(self):
        self.ends(0, "--help")
        self.ends(0, "inspect", tiny_model())
        self.ends(0, "generate", "--model", tiny_model(), *SMALL_KV, "--prompt-ids", "1,2",
                  "--max-tokens", "2", "--json")

    def test_0_after_a_drain(self):
        server = Server(tiny_model(), *SMALL_KV)
        self.assertEqual(server.stop(), 0)

    def test_1_where_results_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = quire("inspect", tiny_model(), stdout=full)
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_2_for_usage_and_configuration(self):
        self.ends(2, "sreve", says="the nearest is \"serve\"")
        self.ends(2, "serve", says="MODEL: is required")
        self.ends(2, "serve", tiny_model(), "--no-such-flag", says="--no-such-flag")
        self.ends(2, "serve", tiny_model(), "--max-num-seqs", "many", says="many")
        self.ends(2, "serve", tiny_model(), "--config", "/nonexistent", says="/nonexistent")
        self.ends(2, "serve", tiny_model(), "--listen", "127.0.0.1", says="--listen")
        self.ends(2, "serve", tiny_model(), "--listen", "127.0.0.1:0", "--max-model-len", "1G",
                  says="--max-model-len")

    def test_2_for_an_instruction_set_that_there_is_not(self):
        os.environ["QUIRE_CPU_ISA"] = "avx1024"
        self.addCleanup(os.environ.pop, "QUIRE_CPU_ISA")
        self.ends(2, "serve", tiny_model(), "--listen", "127.0.0.1:0", *SMALL_KV, says="avx1024")

    def test_3_for_model_files(self):
        self.ends(3, "serve", "/nonexistent", "--listen", "127.0.0.1:0", says="/nonexistent")
        self.ends(3, "inspect", os.path.join(DATA, "bad_files", "truncated_header.safetensors"))
        self.ends(3, "tokenize", "--model", tiny_model())

    def test_3_also_where_nobody_reads_why(self):
        reader, writer = os.pipe()
        try:
            os.set_blocking(writer, False)
            with self.assertRaises(BlockingIOError):
                while True:
                    os.write(writer, b"x" * 4096)
            os.set_blocking(writer, True)
            done = subprocess.run([BINARY, "serve", "/nonexistent", "--listen", "127.0.0.1:0",
                                   "--metrics-listen", ""], stdin=subprocess.DEVNULL,
                                  stderr=writer, timeout=START_S, check=False)
        finally:
            os.close(reader)
            os.close(writer)
        self.assertEqual(done.returncode, 3)

    def test_0_also_without_standard_streams(self):
        process = subprocess.Popen(
            ["bash", "-c", 'exec "$0" "$@" <&- >&- 2>&-', BINARY, "serve", tiny_model(),
             "--listen", "127.0.0.1:0", "--metrics-listen", ""])
        # Nobody reads the first one, and libraries take it before main() begins.
        links = [f"/proc/{process.pid}/fd/{fd}" for fd in (1, 2)]
        try:
            wait_until(lambda: all(os.path.exists(link) and os.readlink(link) == "/dev/null"
                                   for link in links), "streams that lead nowhere")
            # Its threads come after them.
            wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 3, "threads")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(START_S), 0)
        finally:
            process.kill()
            process.wait()

    def test_4_for_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            self.ends(4, "serve", tiny_model(), *SMALL_KV, "--log-level", "error", "--listen",
                      address, says=address)

    def test_4_for_memory_that_there_is_not(self):
        self.ends(4, "serve", tiny_model(), "--listen", "127.0.0.1:0", "--log-level", "error",
                  "--kv-cache", "900TiB", says="--kv-cache")

    def test_5_where_no_server_answers(self):
        self.ends(5, "generate", "--address", "127.0.0.1:1", "hello", says="127.0.0.1:1")
        self.ends(5, "healthcheck", "--address", "127.0.0.1:1", says="127.0.0.1:1")

    def test_6_for_a_request_that_is_refused(self):
        with Server(tiny_model(), *SMALL_KV) as server:
            self.ends(6, "generate", "--address", server.address, "--prompt-ids", "1", "--top-p",
                      "7", says="top_p")
            self.assertEqual(len(server.ask(greedy([1], 2)).tokens), 2)

    def test_130_at_an_interrupt(self):
        with subprocess.Popen([BINARY, "tokenize", "--model", WITH_TEXT], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            process.stdin.write('{"text": "a"}\n')
            process.stdin.flush()
            self.assertIn("ids", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)


if __name__ == "__main__":
    unittest.main()
