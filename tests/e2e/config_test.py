"""Where settings come from, and what an operator does with a server: as the real binary does it."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import tempfile
import termios
import unittest

from quire_server import (ANSWER_S, START_S, Server, greedy, quire, smollm2, tiny_model,
                          wait_until)

SMALL_KV = ["--kv-cache", "16MiB"]  # memory that any machine has


class TerminalServer(Server):
    """A server with a terminal of its own."""

    def __init__(self, *args):
        self.terminal, theirs = pty.openpty()
        os.set_blocking(self.terminal, False)
        self.text = b""

        def own_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        try:
            super().__init__(*args, stdin=theirs, stdout=theirs, stderr=theirs,
                             start_new_session=True, preexec_fn=own_terminal)
        finally:
            os.close(theirs)

    def close_terminal(self):
        os.close(self.terminal)
        self.terminal = -1

    def log(self):
        with contextlib.suppress(OSError):  # there is no more, or it is closed
            while got := os.read(self.terminal, 4096):
                self.text += got
        return self.text.decode()


class ConfigTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "quire.toml")

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.path

    def test_a_server_runs_with_what_its_sources_say(self):
        self.write('max-num-seqs = 5\nmax-choices = 3\nkv-cache = "32MiB"\n'
                   'model-alias = ["one", "two"]\n')
        env = {"QUIRE_CONFIG": self.path, "QUIRE_MAX_CHOICES": "4", "QUIRE_KV_CACHE": "24MiB"}
        before = dict(os.environ)
        os.environ.update(env)
        try:
            server = Server(tiny_model(), *SMALL_KV)
        finally:
            for name in env:
                del os.environ[name]
        self.assertEqual(dict(os.environ), before)
        with server:
            info = server.info()
            self.assertEqual(info.limits.max_num_seqs, 5)
            self.assertEqual(info.limits.max_choices, 4)
            self.assertLessEqual(info.kv_cache.bytes, 16 << 20)
            self.assertEqual(list(info.aliases), ["one", "two"])

    def test_the_printed_configuration_can_be_fed_back(self):
        self.write('# ours\nmodel = "m"\nmax-num-seqs = 32\n')
        first = quire("serve", "--config", self.path, "--print-config", "--drain-delay", "1",
                      env={"QUIRE_MAX_CHOICES": "4"})
        self.assertEqual(first.returncode, 0, first.stderr)
        for line in ['drain-delay = "1s"  # flag', "max-choices = 4  # QUIRE_MAX_CHOICES",
                     f"max-num-seqs = 32  # {self.path}:3", "max-logprobs = 20  # default"]:
            self.assertIn(line + "\n", first.stdout)
        self.write(first.stdout)
        again = quire("serve", "--config", self.path, "--print-config")
        self.assertEqual(again.returncode, 0, again.stderr)

        def values(text):
            return re.sub("  # .*", "", text)

        self.assertEqual(values(again.stdout), values(first.stdout))
        self.assertNotIn("# default", again.stdout)

    def test_unknown_names_are_refused_with_the_nearest_one(self):
        done = quire("serve", "m", env={"QUIRE_LISEN": "x"})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("QUIRE_LISEN", done.stderr)
        self.assertIn("QUIRE_LISTEN", done.stderr)
        done = quire("serve", "m", "--config", self.write("\nlisen = 'x'\n"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"{self.path}:2: lisen", done.stderr)
        self.assertIn("listen", done.stderr)

    def test_what_is_set_for_a_server_stops_no_command_beside_it(self):
        env = {"QUIRE_LISTEN": "0.0.0.0:50051", "QUIRE_MODEL": tiny_model(),
               "QUIRE_CONFIG": "/nonexistent", "QUIRE_SERVICE_HOST": "10.0.0.1",
               "QUIRE_PORT": "tcp://10.0.0.1:50051"}
        # It asks the server that runs there, and does not load the model itself.
        done = quire("generate", "--address", "127.0.0.1:1", "hello", env=env)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertEqual(quire("inspect", env=env).returncode, 0)

    def test_a_dry_run_says_what_would_be_served(self):
        done = quire("serve", tiny_model(), "--dry-run", *SMALL_KV)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\Aok: LlamaForCausalLM, .*KV cache \d+ blocks.*\n\Z")
        with Server(tiny_model(), *SMALL_KV) as server:
            server.wait_for_log('"message":"serving ')
            summary = re.search(r'"message":"serving .*? s: (.*?); address', server.log()).group(1)
        # Packed weights are padded, by less than one in a hundred.
        held = r", ([\d.]+) KiB as held"
        planned, packed = (float(re.search(held, text).group(1)) for text in (done.stdout, summary))
        self.assertLess(abs(planned / packed - 1), 0.01)
        self.assertEqual(re.sub(held, "", done.stdout), re.sub(held, "", f"ok: {summary}\n"))

    def test_a_dry_run_fails_as_serving_would(self):
        with tempfile.TemporaryDirectory() as folder:
            damaged = os.path.join(folder, "damaged.gguf")
            with open(damaged, "wb") as file:
                file.write(b"GGUF\3\0\0\0")
            for code, args in [
                    (2, [tiny_model(), "--max-num-seqs", "512"]),
                    (2, [tiny_model(), "--max-model-len", "1G"]),
                    (2, [tiny_model(), "--liveness-timeout", "3s", "--watchdog-timeout", "2.5s"]),
                    (2, [tiny_model(), "--listen", "nowhere"]),
                    (2, [tiny_model(), "--metrics-listen", "[::1]:0"]),
                    (3, [os.path.join(folder, "none")]),
                    (3, [damaged]),
                    (4, [tiny_model(), "--kv-cache", "900TiB"])]:
                with self.subTest(args=args):
                    dry = quire("serve", *args, "--dry-run")
                    self.assertEqual(dry.returncode, code, dry.stderr)
                    self.assertEqual(dry.stdout, "")
                    listen = [] if "--listen" in args else ["--listen", "127.0.0.1:0"]
                    real = quire("serve", *args, *listen, "--log-level", "error")
                    self.assertEqual(real.returncode, code, real.stderr)
                    # The numbers may differ: of memory that is left.
                    self.assertEqual(*[re.sub(r"[\d.]+", "N", done.stderr)
                                       for done in (real, dry)])

    def test_a_dry_run_opens_no_port(self):
        with Server(tiny_model(), *SMALL_KV) as server:
            done = quire("serve", tiny_model(), "--dry-run", "--listen", server.address, *SMALL_KV)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_sighup_takes_up_the_log_level_and_names_what_it_cannot(self):
        self.write('log-level = "info"\nmax-num-seqs = 16\n')
        with Server(tiny_model(), *SMALL_KV, "--config", self.path) as server:
            self.write('log-level = "debug"\nmax-num-seqs = 8\nmax-choices = 2\n')
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("reloaded log-level from info to debug")
            self.assertIn("taken up by a restart only: max-num-seqs, max-choices", server.log())
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("nothing to reload has changed")
            self.assertEqual(server.log().count("taken up by a restart only"), 1)

            self.write('log-level = "warn"\nmax-num-seq = 8\n')
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log(f"{self.path}:2: max-num-seq: there is no such setting")
            self.assertIn("the configuration stays as it was", server.log())
            self.write('log-level = "warn"\n')
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("reloaded log-level from debug to warn")
            self.assertTrue(server.is_serving())
            self.assertEqual(server.info().limits.max_num_seqs, 16)
        self.assertNotIn("draining", server.log())

    def test_each_mistake_in_the_file_is_told_at_its_sighup(self):
        self.write('log-level = "info"\n')
        with Server(tiny_model(), *SMALL_KV, "--config", self.path) as server:
            for text, why in [("\nmax-num-seq = 8\n", f"{self.path}:2: max-num-seq"),
                              ("\n\nmax-num-seq = 8\n", f"{self.path}:3: max-num-seq"),
                              ('liveness-timeout = "200s"\n',
                               "--watchdog-timeout is 2m and --liveness-timeout is 200s")]:
                self.write(text)
                server.process.send_signal(signal.SIGHUP)
                server.wait_for_log(f"SIGHUP: {why}")
        self.assertEqual(server.log().count("the configuration stays as it was"), 3)

    def test_a_flag_stays_above_a_file_that_is_read_again(self):
        self.write('log-level = "warn"\n')
        with Server(tiny_model(), *SMALL_KV, "--config", self.path,
                    "--log-level", "info") as server:
            self.write('log-level = "error"\n')
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("nothing to reload has changed")

    def test_a_server_ends_with_its_terminal(self):
        with TerminalServer(tiny_model(), *SMALL_KV) as server:
            server.close_terminal()
            self.assertEqual(server.process.wait(START_S), 0)

    def test_losing_the_terminal_drains_though_shell_and_kernel_both_say_so(self):
        with TerminalServer(smollm2(), "--kv-cache", "64MiB", "--drain-timeout", "100") as server:
            stream = server.generation.Generate(greedy([1, 2, 3], 200), timeout=ANSWER_S)
            self.assertEqual(next(stream).WhichOneof("event"), "accepted")
            server.close_terminal()
            wait_until(lambda: not server.is_serving(), "not ready")
            server.process.send_signal(signal.SIGHUP)
            tokens = [token for event in stream for token in event.delta.token_ids]
            self.assertEqual(len(tokens), 200)
            self.assertEqual(server.process.wait(START_S), 0)

    def test_the_format_of_the_log_is_chosen(self):
        for form, pattern in [("text", r"\A\d\d:\d\d:\d\d\.\d\d\d info "), ("json", r'\A{"time":"'),
                              ("auto", r'\A{"time":"')]:
            with self.subTest(form), Server(tiny_model(), *SMALL_KV, "--log-format",
                                            form) as server:
                self.assertRegex(server.log(), pattern)
                if form != "text":
                    for line in server.log().splitlines():
                        self.assertEqual(set(json.loads(line)) & {"time", "level", "message"},
                                         {"time", "level", "message"})


class HealthcheckTest(unittest.TestCase):
    def check(self, address, *flags):
        done = quire("healthcheck", "--address", address, *flags)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 0 if done.returncode == 0 else 1, done.stderr)
        return done.returncode

    def test_tells_readiness_and_liveness_apart(self):
        with Server(tiny_model(), *SMALL_KV, drain_delay="3600") as server:
            self.assertEqual(self.check(server.address), 0)
            self.assertEqual(self.check(server.address, "--service", "liveness"), 0)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("draining")
            wait_until(lambda: not server.is_serving(), "not ready")
            self.assertEqual(self.check(server.address), 6)
            self.assertEqual(self.check(server.address, "--service", "liveness"), 0)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(60)

    def test_says_that_no_server_answers(self):
        self.assertEqual(self.check("127.0.0.1:1"), 5)
        self.assertEqual(self.check("127.0.0.1:1", "--timeout", "1ms"), 5)

    def test_takes_the_address_from_the_environment(self):
        with Server(tiny_model(), *SMALL_KV) as server:
            done = quire("healthcheck", env={"QUIRE_ADDRESS": server.address})
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
