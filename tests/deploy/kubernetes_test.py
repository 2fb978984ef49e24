"""deploy/kubernetes is what Kubernetes takes, and its parts fit each other and the server."""

import copy
import glob
import json
import os
import unittest

import jsonschema

from deploy_files import DEPLOY, ROOT, UID, assert_flags, default_s, documents, log, version

FILES = sorted(glob.glob(os.path.join(DEPLOY, "kubernetes", "*")))
SCHEMAS = os.path.join(ROOT, "build", "kubernetes")
OLDEST, NEWEST = "v1.27", "v1.37"


def validator(kubernetes, document):
    """Checks an object of this apiVersion and kind; unknown fields are errors."""
    path = os.path.join(SCHEMAS, kubernetes + ".json")
    if not os.path.isfile(path):
        raise unittest.SkipTest(f"{path} is not there (tests/deploy/fetch_schemas.sh)")
    with open(path, encoding="utf-8") as source:
        schemas = json.load(source)
    group, _, api = ("/" + document["apiVersion"]).rpartition("/")
    wanted = {"group": group.strip("/"), "version": api, "kind": document["kind"]}
    (name,) = [name for name, schema in schemas["$defs"].items()
               if wanted in schema.get("x-kubernetes-group-version-kind", [])]
    return jsonschema.Draft202012Validator({**schemas, "$ref": "#/$defs/" + name})


def places(node, path=()):
    """Paths of all mappings and values in a document."""
    yield path
    for key, child in node.items() if isinstance(node, dict) else (
            enumerate(node) if isinstance(node, list) else ()):
        yield from places(child, path + (key,))


def at(node, path):
    for key in path:
        node = node[key]
    return node


class KubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.all = [d for path in FILES for d in documents(path)]
        by_kind = {d["kind"]: d for d in cls.all}
        cls.deployment, cls.service = by_kind["Deployment"], by_kind["Service"]
        cls.budget, cls.claim = by_kind["PodDisruptionBudget"], by_kind["PersistentVolumeClaim"]
        cls.policy = by_kind["NetworkPolicy"]
        cls.pod = cls.deployment["spec"]["template"]
        (cls.container,) = cls.pod["spec"]["containers"]

    def env(self):
        return {e["name"]: e["value"] for e in self.container["env"]}

    def test_every_object_fits_the_schemas_of_the_oldest_and_the_newest_version(self):
        self.assertTrue(all(path.endswith(".yaml") for path in FILES), FILES)
        for kubernetes in (OLDEST, NEWEST):
            for document in self.all:
                with self.subTest(kubernetes, kind=document["kind"]):
                    errors = list(validator(kubernetes, document).iter_errors(document))
                    self.assertEqual([e.message for e in errors], [])

    def test_a_field_that_is_unknown_or_of_the_wrong_type_anywhere_is_found(self):
        mutants = 0
        for document in self.all:
            check = validator(NEWEST, document)
            for path in places(document):
                for wrong in ("unknown", "type"):
                    mutant = copy.deepcopy(document)
                    node = at(mutant, path)
                    if wrong == "unknown":
                        if not isinstance(node, dict):
                            continue
                        node["replica"] = {"of": []}
                    elif path and not isinstance(node, (dict, list)):
                        at(mutant, path[:-1])[path[-1]] = {"of": []}
                    else:
                        continue
                    mutants += 1
                    with self.subTest(kind=document["kind"], path=path, wrong=wrong):
                        self.assertFalse(check.is_valid(mutant))
        log(f"{mutants} broken copies refused")
        self.assertGreater(mutants, 100)

    def test_selectors_ports_and_claims_name_what_there_is(self):
        labels = self.pod["metadata"]["labels"]
        for selector in (self.deployment["spec"]["selector"]["matchLabels"],
                         self.service["spec"]["selector"],
                         self.budget["spec"]["selector"]["matchLabels"],
                         self.policy["spec"]["podSelector"]["matchLabels"]):
            self.assertTrue(selector)
            self.assertLessEqual(selector.items(), labels.items())
        ports = {p["name"]: p["containerPort"] for p in self.container["ports"]}
        for port in self.service["spec"]["ports"]:
            self.assertEqual(ports[port["targetPort"]], port["port"])
        self.assertEqual(self.pod["metadata"]["annotations"]["prometheus.io/port"],
                         str(ports["metrics"]))
        for name, port in {"QUIRE_LISTEN": "grpc", "QUIRE_METRICS_LISTEN": "metrics"}.items():
            self.assertEqual(self.env()[name], f"0.0.0.0:{ports[port]}")
        allowed = [port["port"] for rule in self.policy["spec"]["ingress"]
                   for port in rule["ports"]]
        self.assertEqual(sorted(allowed), sorted(ports))
        (volume,) = self.pod["spec"]["volumes"]
        (mount,) = self.container["volumeMounts"]
        self.assertEqual(mount["name"], volume["name"])
        self.assertTrue(self.container["args"][1].startswith(mount["mountPath"] + "/"))
        self.assertEqual(volume["persistentVolumeClaim"]["claimName"],
                         self.claim["metadata"]["name"])
        self.assertTrue(mount["readOnly"] and volume["persistentVolumeClaim"]["readOnly"])
        self.assertEqual(self.container["image"], "quire:" + version())

    def test_probes_ask_for_what_each_is_about(self):
        def asks(kind):
            probe = self.container[kind]
            http = probe.get("httpGet")
            return (http["path"], http["port"]) if http else probe["grpc"]
        self.assertEqual(asks("startupProbe"), ("/startupz", "metrics"))
        self.assertEqual(asks("readinessProbe"), {"port": 50051})
        self.assertEqual(asks("livenessProbe"), ("/livez", "metrics"))
        # Readiness is off before the delay, in which clients may still come, is over.
        ready = self.container["readinessProbe"]
        seconds = ready["periodSeconds"] * ready["failureThreshold"] + ready["timeoutSeconds"]
        self.assertLess(seconds, float(self.env()["QUIRE_DRAIN_DELAY"]))
        self.assertGreater(ready["failureThreshold"], 1, "one slow answer takes a pod out")

    def test_liveness_gives_up_after_the_process_had_the_time_to_end_itself(self):
        alive = self.container["livenessProbe"]
        # The first failure may come as soon as /livez goes off.
        seconds = (default_s("--liveness-timeout")
                   + (alive["failureThreshold"] - 1) * alive["periodSeconds"])
        for name in ("QUIRE_LIVENESS_TIMEOUT", "QUIRE_WATCHDOG_TIMEOUT"):
            self.assertNotIn(name, self.env())
        self.assertGreater(seconds, default_s("--watchdog-timeout") + 5)

    def test_each_port_is_reached_by_those_that_it_is_for_and_by_no_others(self):
        policy = self.policy["spec"]
        self.assertEqual(sorted(policy["policyTypes"]), ["Egress", "Ingress"])
        self.assertNotIn("egress", policy)  # that is: nothing may go out
        reached = {port["port"]: rule["from"] for rule in policy["ingress"]
                   for port in rule["ports"]}
        self.assertEqual(reached, {
            "grpc": [{"podSelector": {}}],
            "metrics": [{"namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]})

    def test_the_grace_period_holds_the_whole_drain_without_a_hook(self):
        drain = sum(float(self.env()[name])
                    for name in ("QUIRE_DRAIN_DELAY", "QUIRE_DRAIN_TIMEOUT"))
        self.assertGreaterEqual(self.pod["spec"]["terminationGracePeriodSeconds"], drain + 10)
        self.assertNotIn("lifecycle", self.container)

    def test_the_pod_is_nobody_and_can_write_nothing(self):
        user = self.pod["spec"]["securityContext"]
        self.assertTrue(user["runAsNonRoot"])
        self.assertEqual((user["runAsUser"], user["runAsGroup"]), (UID, UID))
        self.assertEqual(user["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertEqual(self.container["securityContext"], {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]}})
        self.assertFalse(self.pod["spec"]["automountServiceAccountToken"])

    def test_nothing_in_the_environment_is_unknown_to_the_server(self):
        assert_flags(self, self.env())
        # Kubernetes would add QUIRE_PORT and more, for the Service of that name.
        self.assertIs(self.pod["spec"]["enableServiceLinks"], False)

    def test_a_disruption_leaves_a_replica(self):
        self.assertGreater(self.deployment["spec"]["replicas"],
                           self.budget["spec"]["maxUnavailable"])
        self.assertEqual(self.container["resources"]["limits"],
                         self.container["resources"]["requests"])


if __name__ == "__main__":
    unittest.main()
