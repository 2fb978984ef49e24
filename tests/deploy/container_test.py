"""The image and the compose file: what they say fits the tree, the server and each other."""

import json
import os
import re
import tempfile
import unittest

from deploy_files import (DEPLOY, UID, assert_flags, default_s, documents, printed_config, read,
                          version)


def instructions(path):
    """[(instruction, its argument)] of a Dockerfile, continued lines joined."""
    text = re.sub(r"^#.*\n", "", read(path), flags=re.M)
    text = re.sub(r"\\\n\s*", "", text)
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line]


class DockerfileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lines = instructions("deploy/Dockerfile.cpu")
        stages = [i for i, (name, _) in enumerate(lines) if name == "FROM"]
        cls.builder, cls.runtime = lines[stages[0]:stages[-1]], lines[stages[-1]:]

    def said(self, name):
        (argument,) = [a for n, a in self.runtime if n == name]
        return argument

    def test_it_runs_as_nobody_and_is_ended_by_the_signal_that_drains(self):
        self.assertEqual(self.said("USER"), f"{UID}:{UID}")
        self.assertEqual(self.said("STOPSIGNAL"), "SIGTERM")

    def test_no_shell_stands_between_the_signal_and_the_server(self):
        self.assertEqual(json.loads(self.said("ENTRYPOINT")), ["quire"])
        self.assertEqual(json.loads(self.said("CMD")), ["serve"])
        health = self.said("HEALTHCHECK")
        self.assertEqual(json.loads(health[health.index("CMD") + 3:]), ["quire", "healthcheck"])

    def test_its_environment_and_ports_are_those_of_the_server(self):
        env = dict(pair.split("=", 1) for pair in self.said("ENV").split())
        assert_flags(self, env)
        ports = [env[name].rsplit(":", 1)[1] for name in ("QUIRE_LISTEN", "QUIRE_METRICS_LISTEN")]
        self.assertEqual(self.said("EXPOSE").split(), ports)

    def test_only_the_first_stage_has_what_builds(self):
        def installed(stage):
            return [needs for name, argument in stage if name == "RUN"
                    for needs in re.findall(r"deploy/install\.sh (\w+)", argument)]
        self.assertEqual(installed(self.builder), ["build"])
        self.assertEqual(installed(self.runtime), ["run"])

    def test_the_binary_keeps_the_names_that_stack_dumps_need(self):
        building = " ".join(argument for name, argument in self.builder if name == "RUN")
        strips = re.findall(r"(?:\S+ )?\S*\bstrip\b[^&|;]*", building)
        self.assertEqual(strips, ["&& strip --strip-debug /opt/quire/bin/quire"])

    def test_every_folder_that_is_compiled_is_in_the_context(self):
        kept = re.findall(r"^!(\S+)", read(".dockerignore"), re.M)
        for folder in re.findall(r"^add_subdirectory\((\w+)\)", read("CMakeLists.txt"), re.M):
            self.assertIn(folder, kept)


class ComposeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (compose,) = documents("deploy/compose.yaml")
        cls.services, cls.volumes = compose["services"], compose["volumes"]
        cls.quire = cls.services["quire"]

    def test_images_of_others_are_pinned_and_ours_is_of_this_version(self):
        for name, service in self.services.items():
            with self.subTest(name):
                tag = service["image"].rsplit(":", 1)[1]
                self.assertRegex(tag, r"^v?\d+\.\d+\.\d+$")
        self.assertEqual(self.quire["image"], "quire:" + version())

    def test_every_file_it_mounts_is_there_and_read_only(self):
        for name, service in self.services.items():
            for volume in service["volumes"]:
                # A default of ${NAME:-default} has a colon too.
                source, target, *mode = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume).split(":")
                with self.subTest(name, target=target):
                    if source in self.volumes:
                        continue
                    self.assertEqual(mode, ["ro"])
                    if source != "../build/models":  # deploy/fetch_model.sh makes that one
                        self.assertTrue(os.path.exists(os.path.join(DEPLOY, source)), source)

    def test_the_server_can_write_nothing_and_is_given_the_time_to_drain(self):
        self.assertIs(self.quire["read_only"], True)
        self.assertEqual(self.quire["cap_drop"], ["ALL"])
        self.assertEqual(self.quire["user"], f"{UID}:{UID}")
        env = self.quire["environment"]
        assert_flags(self, env)
        drain = float(env["QUIRE_DRAIN_DELAY"]) + float(env["QUIRE_DRAIN_TIMEOUT"])
        self.assertGreaterEqual(int(self.quire["stop_grace_period"].removesuffix("s")), drain + 10)

    def test_nothing_is_published_beyond_this_machine(self):
        for name, service in self.services.items():
            for port in service["ports"]:
                with self.subTest(name, port=port):
                    self.assertTrue(port.startswith("127.0.0.1:"))

    def test_prometheus_asks_the_server_and_grafana_asks_prometheus(self):
        (config,) = documents("deploy/prometheus/prometheus.yaml")
        (job,) = config["scrape_configs"]
        port = self.quire["environment"]["QUIRE_METRICS_LISTEN"].rsplit(":", 1)[1]
        self.assertEqual(job["static_configs"], [{"targets": [f"quire:{port}"]}])
        (sources,) = documents("deploy/grafana/provisioning/datasources/prometheus.yaml")
        self.assertEqual([s["url"] for s in sources["datasources"]], ["http://prometheus:9090"])
        (boards,) = documents("deploy/grafana/provisioning/dashboards/quire.yaml")
        mounts = dict(v.split(":")[1::-1] for v in self.services["grafana"]["volumes"])
        self.assertEqual([mounts[p["options"]["path"]] for p in boards["providers"]],
                         ["./grafana"])

    def test_dashboards_use_the_data_source_there_is(self):
        (sources,) = documents("deploy/grafana/provisioning/datasources/prometheus.yaml")
        known = {s["uid"] for s in sources["datasources"]}
        folder = os.path.join(DEPLOY, "grafana")
        for name in os.listdir(folder):
            if name.endswith(".json"):
                text = read(os.path.join("deploy/grafana", name))
                variables = {v["name"] for v in json.loads(text)["templating"]["list"]
                             if v["type"] == "datasource"}
                for uid in set(re.findall(r'"uid": *"([^"]+)"', text.split('"panels"', 1)[1])):
                    with self.subTest(name, uid=uid):
                        self.assertTrue(uid in known or uid.strip("${}") in variables)


class UnitTest(unittest.TestCase):
    """deploy/quire.service, for machines without containers."""

    def setUp(self):
        lines = re.findall(r"^(\w+)=(.*)$", read("deploy/quire.service"), re.M)
        self.unit = dict(lines)
        self.assertEqual(len(self.unit), len(lines), "a name that stands there twice")

    def test_what_no_restart_mends_is_not_restarted(self):
        self.assertEqual(self.unit["Restart"], "on-failure")
        self.assertEqual(self.unit["RestartPreventExitStatus"].split(), ["2", "3", "130"])

    def test_a_reload_reads_the_only_file_that_settings_are_in(self):
        self.assertEqual(self.unit["ExecReload"], "kill -HUP $MAINPID")
        self.assertEqual(self.unit["Environment"], "QUIRE_CONFIG=/etc/quire/quire.toml")
        # Flags and other variables outrank the file: what they set, no reload changes.
        self.assertTrue(self.unit["ExecStart"].endswith("/bin/quire serve"))
        self.assertNotIn("EnvironmentFile", self.unit)
        self.assertIn("/etc/quire/quire.toml", read("deploy/quire.service").split("[Unit]")[0])

    def test_the_example_of_that_file_says_the_model_and_the_log_level(self):
        path = os.path.join(DEPLOY, "quire.toml")
        origins = dict(re.findall(r"^([\w-]+) = .*  # (.*)$", printed_config(path), re.M))
        for name in ("model", "log-level"):
            self.assertRegex(origins[name], rf"^{re.escape(path)}:\d+$")

    def test_what_the_example_has_as_comments_is_right_too(self):
        text, count = re.subn(r"^# (?=[\w-]+ = )", "", read("deploy/quire.toml"), flags=re.M)
        self.assertGreater(count, 0)
        with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            self.assertEqual(printed_config(file.name).count(f"# {file.name}:"), count + 2)

    def test_it_waits_for_the_whole_drain(self):
        drain = sum(map(default_s, ("--drain-delay", "--drain-timeout")))
        self.assertGreaterEqual(float(self.unit["TimeoutStopSec"]), drain + 10)


if __name__ == "__main__":
    unittest.main()
