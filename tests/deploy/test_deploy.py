"""What is in deploy/ fits the broker it starts: settings, ports, paths, metrics. It is checked by the tools that are here.

Not run here: docker (there is no engine), Kubernetes (there is no cluster), systemd (it is not init). Images are not built.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kompat.config.broker import DEFINITIONS
from kompat.config.load import _SHORTHANDS, NOT_SETTINGS, load, variable_of
from kompat.metrics.catalogue import HISTOGRAM, METRICS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
VARIABLES = {variable_of(name) for name in (*DEFINITIONS, *_SHORTHANDS)} | NOT_SETTINGS
SERIES = (
    set(METRICS)
    | {"up", "ALERTS"}
    | {
        f"{name}_{part}"
        for name, metric in METRICS.items()
        if metric.kind == HISTOGRAM
        for part in ("bucket", "sum", "count")
    }
)


def documents(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def manifests() -> dict[str, Any]:
    """By kind and name."""
    files = documents(DEPLOY / "kubernetes" / "kustomization.yaml")[0]["resources"]
    found = [document for file in files for document in documents(DEPLOY / "kubernetes" / file)]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in found}


def run(*command: str, cwd: Path = DEPLOY) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)  # noqa: S603


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.y*ml")), ids=lambda path: path.name)
def test_every_file_is_yaml(path: Path) -> None:
    assert documents(path)


# -- settings ----------------------------------------------------------------------------------------------------------
def compose() -> Any:
    return documents(DEPLOY / "docker-compose.yml")[0]


def dockerfile() -> list[tuple[str, str]]:
    """Instructions and what follows them."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "docker" / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def environments() -> dict[str, dict[str, str]]:
    found = {name: each["environment"] for name, each in compose()["services"].items() if "environment" in each}
    given = " ".join(rest for name, rest in dockerfile() if name == "ENV")
    found["Dockerfile"] = dict(re.findall(r"(KOMPAT_\w+)=(\S+)", given))
    return found


@pytest.mark.parametrize("where", environments())
def test_variables_are_settings_that_there_are(where: str) -> None:
    given = environments()[where]

    assert given
    assert set(given) <= VARIABLES
    load(environ={**environments()["Dockerfile"], **given})  # raises where a value makes no sense


@pytest.mark.parametrize(
    "text",
    [
        (DEPLOY / "systemd" / "kompat.properties").read_text(),
        manifests()["ConfigMap/kompat"]["data"]["kompat.properties"],
    ],
    ids=["systemd", "kubernetes"],
)
def test_files_of_settings_can_be_read(text: str, tmp_path: Path) -> None:
    file = tmp_path / "kompat.properties"
    file.write_text(text)

    config = load({"node-id": "1"}, file=str(file), environ={})

    assert config["kompat.backup.dir"] == "/var/lib/kompat/backups"


# -- containers --------------------------------------------------------------------------------------------------------
def test_the_image_is_small_and_runs_as_nobody_in_particular() -> None:
    steps = dockerfile()
    last = len(steps) - 1 - next(index for index, (name, _) in enumerate(reversed(steps)) if name == "FROM")
    final = steps[last:]

    assert [name for name, _ in steps].count("FROM") == 2
    assert "slim" in final[0][1]
    assert not any("apt-get" in rest or "build-essential" in rest for _, rest in final)
    assert ("USER", "10001:10001") in final
    assert ("ENTRYPOINT", '["kompat"]') in final
    assert any(name == "HEALTHCHECK" and "/health/live" in rest for name, rest in final)
    assert ("EXPOSE", "9092 8080") in final
    for _, rest in [step for step in steps if step[0] == "COPY"]:
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists(), source


def test_three_brokers_know_of_each_other_and_have_ports_and_data_of_their_own() -> None:
    services = {name: each for name, each in compose()["services"].items() if name.startswith("broker-")}
    members = {f"{n}@broker-{n}:9192" for n in (1, 2, 3)}

    assert len(services) == 3
    for name, each in services.items():
        environment = each["environment"]
        port = environment["KOMPAT_PORT"]
        assert set(environment["KOMPAT_CLUSTER"].split(",")) == members
        assert name == f"broker-{environment['KOMPAT_NODE_ID']}" == each["hostname"]
        assert f"127.0.0.1:{port}:{port}" in each["ports"]
        assert environment["KOMPAT_ADVERTISED"] == f"localhost:{port}"
    volumes = [volume for each in services.values() for volume in each["volumes"]]
    assert len(set(volumes)) == 3
    assert {volume.partition(":")[0] for volume in volumes} <= set(compose()["volumes"])
    targets = documents(DEPLOY / "prometheus" / "prometheus.yml")[0]["scrape_configs"][0]["static_configs"][0][
        "targets"
    ]
    assert targets == [f"{name}:8080" for name in services]


# -- Kubernetes --------------------------------------------------------------------------------------------------------
def test_services_budget_and_policy_select_the_pods() -> None:
    found = manifests()
    labels = found["StatefulSet/kompat"]["spec"]["template"]["metadata"]["labels"]

    assert found["StatefulSet/kompat"]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget/kompat"]["spec"]["selector"]["matchLabels"] == labels
    assert found["NetworkPolicy/kompat"]["spec"]["podSelector"]["matchLabels"] == labels
    for name in ("Service/kompat", "Service/kompat-brokers"):
        assert found[name]["spec"]["selector"] == labels
    headless = found["Service/kompat-brokers"]["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True  # else brokers wait for each other for ever
    assert found["StatefulSet/kompat"]["spec"]["serviceName"] == "kompat-brokers"
    assert found["StatefulSet/kompat"]["spec"]["podManagementPolicy"] == "Parallel"


def test_pods_are_probed_limited_and_bare_of_rights() -> None:
    pod = manifests()["StatefulSet/kompat"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    assert ports == {"kafka": 9092, "cluster": 9192, "http": 8080}
    assert container["livenessProbe"]["httpGet"] == {"path": "/health/live", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/health/ready", "port": "http"}
    assert container["resources"]["limits"]["memory"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["enableServiceLinks"] is False  # a service called kompat would make KOMPAT_PORT a setting
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    claims = manifests()["StatefulSet/kompat"]["spec"]["volumeClaimTemplates"]
    assert mounts == {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}


def test_the_members_in_the_settings_are_the_pods() -> None:
    replicas = manifests()["StatefulSet/kompat"]["spec"]["replicas"]
    settings = manifests()["ConfigMap/kompat"]["data"]["kompat.properties"]
    members = re.search(r"kompat\.cluster\.members=(.*)", settings)

    assert members is not None
    assert members[1].split(",") == [f"{n + 1}@kompat-{n}.kompat-brokers:9192" for n in range(replicas)]


def test_the_command_of_a_pod_is_one_that_the_broker_takes() -> None:
    from kompat.__main__ import parser_of

    (container,) = manifests()["StatefulSet/kompat"]["spec"]["template"]["spec"]["containers"]
    script = container["args"][0].removeprefix("exec kompat ")
    told = run("/bin/sh", "-c", f"HOSTNAME=kompat-2 NAMESPACE=ns; printf '%s\\n' {script}")

    given = parser_of("start").parse_args(told.stdout.splitlines())

    assert given.node_id == "3"
    assert given.advertised == "kompat-2.kompat-brokers.ns.svc:9092"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
def test_kustomize_renders_everything() -> None:
    rendered = run("kubectl", "kustomize", "kubernetes")

    assert rendered.returncode == 0, rendered.stderr
    assert {f"{each['kind']}/{each['metadata']['name']}" for each in yaml.safe_load_all(rendered.stdout)} == set(
        manifests()
    )


# -- systemd -----------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_the_unit_is_right_and_exposes_little(tmp_path: Path) -> None:
    unit = tmp_path / "kompat.service"
    text = (DEPLOY / "systemd" / "kompat.service").read_text()
    unit.write_text(text.replace("/opt/kompat/bin/kompat", "/bin/true"))  # what it starts is not installed here

    verified = run("systemd-analyze", "verify", str(unit))
    exposed = run("systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit))

    assert "kompat.service" not in verified.stderr, verified.stderr
    assert exposed.returncode == 0, exposed.stdout[-300:]
    assert "ProcSubset=pid" not in text  # /proc/sys tells whether the machine was restarted


# -- Prometheus and Grafana --------------------------------------------------------------------------------------------
@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here: apt install prometheus")
@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "prometheus/alerts.yml"),
        ("check", "config", "prometheus/prometheus.yml"),
        ("test", "rules", "prometheus/alerts_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_has_nothing_to_complain_about(command: tuple[str, ...]) -> None:
    ran = run("promtool", *command)

    assert ran.returncode == 0, ran.stdout + ran.stderr


def alerts() -> list[Any]:
    return [rule for group in documents(DEPLOY / "prometheus" / "alerts.yml")[0]["groups"] for rule in group["rules"]]


def test_every_alert_is_tested_and_explained() -> None:
    tested = {
        case["alertname"]
        for test in documents(DEPLOY / "prometheus" / "alerts_test.yml")[0]["tests"]
        for case in test.get("alert_rule_test", ())
    }
    told = (ROOT / "docs" / "operations.md").read_text()

    assert tested == {rule["alert"] for rule in alerts()}
    for rule in alerts():
        assert f"`{rule['alert']}`" in told


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:kompat|process)_\w+", re.sub(r'"[^"]*"', '""', expression)))


def test_alerts_and_dashboard_speak_of_metrics_that_there_are() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "kompat.json").read_text())
    targets = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]

    for expression in (*targets, *(rule["expr"] for rule in alerts())):
        assert names_in(expression) <= SERIES, expression


def test_panels_do_not_overlap() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "kompat.json").read_text())
    taken: set[tuple[int, int]] = set()

    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
