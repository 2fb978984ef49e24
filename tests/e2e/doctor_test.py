"""`quire doctor`: the real binary, on machines that are well and on some that are not."""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from quire_server import BINARY, DATA, quire, tiny_model

FREE = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
SMALL_KV = ["--kv-cache", "16MiB"]  # memory that any machine has
GGUF = os.path.join(DATA, "gguf_types", "BF16.gguf")
NOBODY = 65534
CHECKS = ["port", "port", "cpu", "memory", "huge pages", "open files", "versions", "cuda",
          "self-test"]


def findings(*args, code=0, env=None):
    """(check, status, seen, remedy) of each."""
    done = quire("doctor", *args, "--json", env=env)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    (line,) = done.stdout.splitlines()
    report = json.loads(line)
    assert set(report) == {"findings", "ok", "versions"}, report
    assert report["ok"] == (code == 0), report
    for finding in report["findings"]:
        assert list(finding) == ["check", "status", "seen", "remedy"], finding
        assert finding["seen"] and (finding["remedy"] == "") == (finding["status"] == "ok"), finding
    return [tuple(finding.values()) for finding in report["findings"]]


def problems(found):
    return [finding for finding in found if finding[1] == "problem"]


class DoctorTest(unittest.TestCase):
    def test_all_is_looked_at_and_the_self_test_is_quick(self):
        found = findings(*FREE, *SMALL_KV)
        self.assertEqual([check for check, *_ in found], CHECKS)
        self.assertEqual(problems(found), [])
        seconds = float(re.search(r"as expected; ([\d.]+) s$", found[-1][2]).group(1))
        self.assertLess(seconds, 5)  # a hundredth of one, but machines may be busy

    def test_text_is_the_same_without_colours_in_a_pipe(self):
        done = quire("doctor", *FREE, *SMALL_KV)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\x1b", done.stdout)
        lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
        self.assertEqual([line[9:21].strip() for line in lines], CHECKS)
        for line in lines:
            self.assertIn(line[:9].strip(), ("ok", "warning"))

    def test_versions(self):
        versions = json.loads(quire("doctor", *FREE, *SMALL_KV, "--json").stdout)["versions"]
        said = subprocess.run([BINARY, "--version"], check=True, capture_output=True, text=True)
        self.assertEqual("quire " + versions["quire"], said.stdout.strip())
        self.assertEqual(versions["kernel"], "Linux " + os.uname().release)
        self.assertEqual(set(versions), {"quire", "grpc", "protobuf", "openssl", "kernel"})

    def test_files_of_a_model_have_their_sizes_and_digests(self):
        for model, names in [(tiny_model(), ["config.json", "model.safetensors"]),
                             (GGUF, [os.path.basename(GGUF)])]:
            found = findings(model, *FREE, *SMALL_KV)
            (summary,) = [seen for check, _, seen, _ in found if check == "model"]
            self.assertIn("LlamaForCausalLM", summary)
            self.assertRegex(summary, r"KV cache \d+ blocks of 32 tokens = .*, 1[56](\.\d)? MiB")
            files = {seen.split(": ")[0]: seen for check, _, seen, _ in found if check == "file"}
            for name in names:
                path = os.path.join(model, name) if os.path.isdir(model) else model
                with open(path, "rb") as file:
                    data = file.read()
                digest = hashlib.sha256(data).hexdigest()
                self.assertEqual(files[name], f"{name}: {len(data)} bytes, sha256 {digest}")

    def test_a_port_that_is_taken_is_named_with_its_flag_and_ends_with_4(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            for flag, other in [("--listen", "--metrics-listen"), ("--metrics-listen", "--listen")]:
                found = findings(flag, address, other, "127.0.0.1:0", *SMALL_KV, code=4)
                self.assertEqual(len(found), len(CHECKS))  # the rest is looked at all the same
                (problem,) = problems(found)
                self.assertIn(f"{flag} {address}", problem[2])
                self.assertIn(flag, problem[3])

    def test_a_model_that_is_missing_or_damaged_ends_with_3(self):
        (problem,) = problems(findings("/nonexistent", *FREE, *SMALL_KV, code=3))
        self.assertEqual(problem[0], "model")
        self.assertIn("/nonexistent", problem[2])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "short.gguf")
            with open(GGUF, "rb") as whole, open(path, "wb") as short:
                short.write(whole.read()[:-4096])
            found = findings(path, *FREE, *SMALL_KV, code=3)
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
        self.assertEqual([check for check, *_ in problems(found)], ["model"])
        self.assertTrue(any(digest in seen for _, _, seen, _ in found), found)

    def test_memory_that_there_is_not_ends_with_4(self):
        found = problems(findings(tiny_model(), *FREE, "--kv-cache", "900TiB", code=4))
        self.assertEqual([check for check, *_ in found], ["memory", "model"])
        self.assertIn("--kv-cache", found[0][3])

    def test_flags_that_are_wrong_end_with_2(self):
        self.assertEqual(quire("doctor", "--no-such-flag").returncode, 2)
        self.assertEqual(quire("doctor", "--max-num-seqs", "600").returncode, 2)
        findings("--listen", "127.0.0.1", "--metrics-listen", "", *SMALL_KV, code=2)
        findings("--listen", "127.0.0.1:0", "--metrics-listen", "[::1]:0", *SMALL_KV, code=2)

    def test_certificates_and_tokens_are_looked_at(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "tls.pem"), os.path.join(folder, "tls.key")
            tls = ["--tls-cert", cert, "--tls-key", key]
            for days, status in [(31, "ok"), (29, "warning")]:
                subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
                                "-subj", "/CN=x", "-days", str(days)], check=True,
                               capture_output=True)
                found = {check: rest for check, *rest in findings(*FREE, *SMALL_KV, *tls)}
                self.assertEqual(found["certificate"][0], status)
                self.assertIn(f"in {days - 1} days", found["certificate"][1])
            tokens = os.path.join(folder, "tokens.json")
            with open(tokens, "w", encoding="utf-8") as file:
                json.dump({"tokens": [{"tenant": "a", "sha256": "0" * 64}]}, file)
            found = findings(*FREE, *SMALL_KV, "--access-tokens", tokens)
            self.assertIn(("tokens", "ok", f"{tokens} is right", ""), found)
            (problem,) = problems(findings(tiny_model(), *FREE, "--kv-cache", "900TiB",
                                           "--access-tokens", cert, code=2))[:1]
            self.assertEqual(problem[0], "tokens")
            self.assertEqual(len(problems(findings(tiny_model(), *FREE, *SMALL_KV,
                                                   "--access-tokens", cert, code=2))), 1)
            (problem,) = problems(findings(*SMALL_KV, "--metrics-listen", "", "--listen",
                                           "0.0.0.0:0", "--access-tokens", tokens, code=2))
            self.assertEqual(problem[0], "access")
            self.assertIn("plaintext", problem[2])

    def test_more_threads_than_cores_is_a_warning(self):
        found = findings(*FREE, *SMALL_KV, "--threads", "1000")
        (cpu,) = [finding for finding in found if finding[0] == "cpu"]
        self.assertEqual(cpu[1], "warning")
        self.assertIn("--threads", cpu[3])

    def test_variables_of_serve_count(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            found = findings(*SMALL_KV, code=4, env={
                "QUIRE_LISTEN": address, "QUIRE_METRICS_LISTEN": "", "QUIRE_MODEL": tiny_model()})
        self.assertIn("file", [check for check, *_ in found])
        self.assertIn(address, problems(found)[0][2])

    @unittest.skipUnless(os.geteuid() == 0, "only root can become nobody")
    def test_nobody_without_a_home_can_run_it_and_nothing_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            binary = shutil.copy(BINARY, folder)
            os.chmod(folder, 0o555)
            done = subprocess.run(
                [binary, "doctor", *FREE, *SMALL_KV], stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=120, check=False, env={}, cwd="/", user=NOBODY, group=NOBODY,
                extra_groups=[], umask=0o777)
            self.assertEqual(os.listdir(folder), [os.path.basename(BINARY)])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"ok +self-test +16 tokens")


if __name__ == "__main__":
    unittest.main()
