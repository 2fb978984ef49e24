"""TLS, tokens and administration as operators and clients use them: files, flags, signals."""

import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import unittest

import grpc

from quire_server import (ANSWER_S, WORK, Server, admin_pb2, admin_pb2_grpc, bearer, greedy, quire,
                           tiny_model, wait_until)

REFRESH_S = 5  # so often the server looks at its certificates


class Authority:
    """A certificate authority of our own, and what it has signed, in one folder."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                      "-nodes", "-keyout", self.path("key"), "-out", self.path("pem"),
                      "-subj", f"/CN={name}", "-days", "2")
        self.num_issued = 0

    def path(self, suffix):
        return os.path.join(self.folder, f"{self.name}.{suffix}")

    def issue(self, name, *, hosts):
        """A certificate and its key; returns their paths."""
        self.num_issued += 1
        base = os.path.join(self.folder, f"{name}{self.num_issued}")
        with open(f"{base}.ext", "w", encoding="utf-8") as extensions:
            extensions.write(f"subjectAltName={hosts}\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-keyout", f"{base}.key", "-out", f"{base}.csr", "-subj", f"/CN={name}")
        self._openssl("x509", "-req", "-in", f"{base}.csr", "-CA", self.path("pem"),
                      "-CAkey", self.path("key"), "-set_serial", str(1000 + self.num_issued),
                      "-days", "2", "-extfile", f"{base}.ext", "-out", f"{base}.pem")
        return f"{base}.pem", f"{base}.key"

    @staticmethod
    def _openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=60)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Folder(unittest.TestCase):
    def setUp(self):
        os.makedirs(WORK, exist_ok=True)
        self.folder = tempfile.mkdtemp(prefix="access.", dir=WORK)
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(path + ".new", path)
        return path

    def write_tokens(self, **tenants):
        """Tenants by name; each has the token NAME-token and these rights."""
        return self.write("tokens.json", json.dumps({"tokens": [
            {"tenant": name, "sha256": hashlib.sha256(f"{name}-token".encode()).hexdigest(),
             **rights} for name, rights in tenants.items()]}))


class TlsTest(Folder):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder, "authority")
        cert, key = self.authority.issue("server", hosts="DNS:quire.example,IP:127.0.0.1")
        self.cert = os.path.join(self.folder, "tls.pem")
        self.key = os.path.join(self.folder, "tls.key")
        self.install(cert, key)
        self.flags = ["--tls-cert", self.cert, "--tls-key", self.key]
        self.credentials = grpc.ssl_channel_credentials(read(self.authority.path("pem")))

    def install(self, cert, key):
        """As Kubernetes and certbot replace files: by renaming."""
        for source, target in [(key, self.key), (cert, self.cert)]:
            shutil.copy(source, target + ".new")
            os.rename(target + ".new", target)

    @staticmethod
    def shown(server):
        """The certificate of a new handshake, as a file would have it."""
        host, port = server.address.split(":")
        return ssl.get_server_certificate((host, int(port)), timeout=10).encode()

    def generate(self, server, *flags):
        return quire("generate", "--address", server.address, "--prompt-ids", "1,2,3",
                     "--max-tokens", "4", "--temperature", "0", "--ignore-eos", "--json", *flags)

    def test_our_client_and_others_speak_it(self):
        ca = self.authority.path("pem")
        other = Authority(self.folder, "other").path("pem")
        with Server(tiny_model(), *self.flags, credentials=self.credentials) as server:
            tokens = server.ask(greedy([1, 2, 3], 4)).tokens
            done = self.generate(server, "--tls-ca", ca)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["choices"][0]["token_ids"], tokens)
            for flags in [[], ["--tls-ca", other], ["--tls-ca", "system"]]:
                self.assertEqual(self.generate(server, *flags).returncode, 5, flags)
            port = server.address.split(":")[1]
            health = ["healthcheck", "--address", f"localhost:{port}", "--tls-ca", ca]
            self.assertEqual(quire(*health).returncode, 5, "not the name in the certificate")
            self.assertEqual(quire(*health, "--tls-server-name", "quire.example").returncode, 0)
            self.assertNotIn("not encrypted", server.log())

    def test_certificates_are_replaced_while_it_runs(self):
        with Server(tiny_model(), *self.flags, credentials=self.credentials) as server:
            before = server.ask(greedy([1], 3)).tokens
            self.assertEqual(self.shown(server), read(self.cert))
            cert, key = self.authority.issue("server", hosts="IP:127.0.0.1")
            self.install(cert, key)
            wait_until(lambda: self.shown(server) == read(cert), "the new certificate", 30)
            # Files that do not belong together are reported, and not used.
            self.write("tls.key", read(self.authority.path("key")).decode())
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("is not the key of")  # said at once, and not again
            until = time.monotonic() + 2 * REFRESH_S
            while time.monotonic() < until:
                self.assertEqual(self.shown(server), read(cert))
                time.sleep(0.1)
            self.assertEqual(server.log().count("is not the key of"), 1)
            self.assertEqual(server.ask(greedy([1], 3)).tokens, before, "over the first connection")

    def test_clients_without_a_certificate_stay_out_where_they_must_have_one(self):
        clients = Authority(self.folder, "clients")
        cert, key = clients.issue("client", hosts="DNS:client")
        stranger = self.authority.issue("stranger", hosts="DNS:client")
        known = grpc.ssl_channel_credentials(read(self.authority.path("pem")), read(key),
                                             read(cert))
        ca = ["--tls-ca", self.authority.path("pem")]
        with Server(tiny_model(), *self.flags, "--tls-client-ca", clients.path("pem"),
                    credentials=known) as server:
            self.assertEqual(len(server.ask(greedy([1], 3)).tokens), 3)
            mine = ["--tls-client-cert", cert, "--tls-client-key", key]
            self.assertEqual(self.generate(server, *ca, *mine).returncode, 0)
            self.assertEqual(self.generate(server, *ca).returncode, 5)
            theirs = ["--tls-client-cert", stranger[0], "--tls-client-key", stranger[1]]
            self.assertEqual(self.generate(server, *ca, *theirs).returncode, 5)
            self.assertEqual(quire("healthcheck", "--address", server.address, *ca, *mine)
                             .returncode, 0)

    def test_the_port_for_administration_speaks_it_too(self):
        with Server(tiny_model(), *self.flags, "--admin-listen", "127.0.0.1:0",
                    credentials=self.credentials) as server:
            level = admin_pb2.SetLogLevelRequest(level=admin_pb2.LOG_LEVEL_INFO)
            for channel, code in [
                    (grpc.insecure_channel(server.admin_address), grpc.StatusCode.UNAVAILABLE),
                    (grpc.secure_channel(server.admin_address, self.credentials), None)]:
                with channel:
                    call = admin_pb2_grpc.AdminServiceStub(channel).SetLogLevel.future(level, 10)
                    self.assertEqual(call.exception() and call.exception().code(), code)

    def test_a_certificate_and_tokens_that_are_both_wrong_are_both_named(self):
        with Server(tiny_model(), *self.flags, "--access-tokens", self.write_tokens(a={}),
                    credentials=self.credentials) as server:
            self.write("tokens.json", "{")
            self.write("tls.key", read(self.authority.path("key")).decode())
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("what is in use stays in use")
            self.assertIn("is not the key of", server.log())
            self.assertIn("is no JSON, from byte 2 on", server.log())

    def test_files_that_cannot_work_are_named_before_a_port_opens(self):
        other = self.authority.issue("other", hosts="DNS:other")[1]
        tokens = self.write_tokens(a={})
        broken = self.write("broken.json", '{"tokens": []}')
        network = ["--listen", "0.0.0.0:0"]
        for flags, words in [
                (["--tls-cert", self.cert], "belong together"),
                (["--tls-cert", self.cert, "--tls-key", other], other + ": is not the key of"),
                (["--tls-cert", "/nonexistent", "--tls-key", self.key], "/nonexistent: No such"),
                (["--access-tokens", "/nonexistent"], "/nonexistent: No such"),
                (["--access-tokens", broken], "0 tokens; expected 1"),
                (["--access-tokens", tokens, *network], "in plaintext"),
                (["--access-tokens", tokens, "--admin-listen", "0.0.0.0:0"], "in plaintext"),
                (["--admin-listen", "0.0.0.0:0"], "whoever reaches it")]:
            for dry in [[], ["--dry-run"]]:
                done = quire("serve", tiny_model(), "--metrics-listen", "", *flags, *dry)
                self.assertEqual(done.returncode, 2, (flags, done.stderr))
                self.assertTrue(done.stderr.splitlines()[-1].startswith("quire: --"), done.stderr)
                self.assertIn(words, done.stderr)


class TokensTest(Folder):
    def test_a_dry_run_says_one_line(self):
        done = quire("serve", tiny_model(), "--access-tokens", self.write_tokens(a={}), "--dry-run")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\Aok: .*\n\Z")

    def test_calls_need_a_token_of_the_file(self):
        path = self.write_tokens(search={})
        with Server(tiny_model(), "--access-tokens", path) as server:
            self.assertEqual(len(server.ask(greedy([1], 3), "search-token").tokens), 3)
            for token in [None, "web-token"]:
                refused = server.ask(greedy([1], 3), token)
                self.assertEqual(refused.error.code(), grpc.StatusCode.UNAUTHENTICATED)
            line = server.access_lines(3)[0]
            self.assertEqual((line["tenant"], line["status"]), ("search", "OK"))
            self.assertEqual(self.reflection(server), grpc.StatusCode.UNIMPLEMENTED)
            generate = ["generate", "--address", server.address, "--prompt-ids", "1",
                        "--max-tokens", "3"]
            done = quire(*generate, "--json")
            self.assertEqual(done.returncode, 6)
            self.assertEqual(json.loads(done.stdout)["error"]["code"], "UNAUTHENTICATED")
            token = self.write("token", "search-token\n")
            self.assertEqual(quire(*generate, "--token-file", token).returncode, 0)
            self.assertEqual(quire(*generate, env={"QUIRE_TOKEN_FILE": token}).returncode, 0)
            self.assertNotIn("search-token", server.log())

    def reflection(self, server):
        method = server.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        try:
            list(method(iter([b"\x3a\x00"]), timeout=10))
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    def test_without_tokens_reflection_is_a_choice(self):
        for choice, code in [("true", grpc.StatusCode.OK),
                             ("false", grpc.StatusCode.UNIMPLEMENTED)]:
            with Server(tiny_model(), "--reflection", choice) as server:
                self.assertEqual(self.reflection(server), code)

    def test_sighup_reads_the_file_again(self):
        path = self.write_tokens(old={})
        with Server(tiny_model(), "--access-tokens", path) as server:
            self.assertEqual(len(server.ask(greedy([1], 3), "old-token").tokens), 3)
            self.write_tokens(new={"requests_per_second": 1e-6})
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: server.log().count("1 tokens from") == 2, "the file was read again")
            self.assertEqual(server.ask(greedy([1], 3), "old-token").error.code(),
                             grpc.StatusCode.UNAUTHENTICATED)
            self.assertEqual(len(server.ask(greedy([1], 3), "new-token").tokens), 3)
            refused = server.ask(greedy([1], 3), "new-token")
            self.assertEqual(refused.info().reason, "TENANT_QUOTA")
            self.assertEqual(refused.info().metadata["tenant"], "new")
            self.write("tokens.json", "{")
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("what is in use stays in use")
            self.assertEqual(server.ask(greedy([1], 3), "new-token").info().reason, "TENANT_QUOTA")


class AdminTest(Folder):
    def test_drain_ends_the_server_as_sigterm_does(self):
        # While the delay lasts the port for administration is open for the second one.
        with Server(tiny_model(), "--admin-listen", "127.0.0.1:0", drain_delay="2") as server:
            stream = server.generation.Generate(greedy([1], 500), timeout=ANSWER_S)
            next(stream)
            with grpc.insecure_channel(server.admin_address) as channel:
                admin = admin_pb2_grpc.AdminServiceStub(channel)
                for _ in range(2):
                    admin.Drain(admin_pb2.DrainRequest(), timeout=10)
            self.assertEqual(sum(len(event.delta.token_ids) for event in stream), 500)
            server.channel.close()
            self.assertEqual(server.process.wait(30), 0, "as after SIGTERM, not after two")
            self.assertRegex(server.log(), r"drained: \d requests finished, 0 were ended")

    def test_one_is_enough_of_a_line_for_each_generation(self):
        with Server(tiny_model(), "--admin-listen", "127.0.0.1:0") as server, \
                grpc.insecure_channel(server.admin_address) as channel:
            admin = admin_pb2_grpc.AdminServiceStub(channel)
            admin.SetLogLevel(admin_pb2.SetLogLevelRequest(level=admin_pb2.LOG_LEVEL_WARN),
                              timeout=10)
            server.ask(greedy([1], 3))
            admin.SetLogLevel(admin_pb2.SetLogLevelRequest(level=admin_pb2.LOG_LEVEL_INFO),
                              timeout=10)
            request = greedy([1], 3)
            request.request_id = "told"
            server.ask(request)
            told = [line["request_id"] for line in server.access_lines(1)
                    if line["method"] == "Generate"]
            self.assertEqual(told, ["told"])

    def test_without_the_right_nothing_is_done(self):
        path = self.write_tokens(web={}, root={"admin": True})
        with Server(tiny_model(), "--access-tokens", path, "--admin-listen", "127.0.0.1:0") \
                as server, grpc.insecure_channel(server.admin_address) as channel:
            admin = admin_pb2_grpc.AdminServiceStub(channel)
            abort = admin_pb2.AbortAnyRequest(request_ids=["nobody"])
            for token, code in [(None, grpc.StatusCode.UNAUTHENTICATED),
                                ("web-token", grpc.StatusCode.PERMISSION_DENIED)]:
                with self.assertRaises(grpc.RpcError) as raised:
                    admin.AbortAny(abort, timeout=10, metadata=bearer(token))
                self.assertEqual(raised.exception.code(), code)
            answer = admin.AbortAny(abort, timeout=10, metadata=bearer("root-token"))
            self.assertEqual(answer.num_aborted, 0)


if __name__ == "__main__":
    unittest.main()
