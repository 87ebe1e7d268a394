"""The files of deploy/ fit each other, the program, and the tools that read them."""

import collections
import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time

import pytest
import requests
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import schemas
from conftest import FIXTURES, PROGRAM, ROOT, Server, free_ports
from test_deploy_proxy import find
from test_tls import certificate

DEPLOY = ROOT / "deploy"
LIMIT = 60.0
# How long the server waits for requests in flight, unless a flag says otherwise.
DRAIN_SECONDS = 30


def documents(name):
    """The documents of a YAML file."""
    return [each for each in yaml.safe_load_all((DEPLOY / name).read_text()) if each]


def by_kind(name):
    """The documents of a file, which has one of each kind."""
    return kinds(documents(name))


def kinds(documents):
    """Documents by their kinds, of which each is there once."""
    found = {each["kind"]: each for each in documents}
    assert len(found) == len(documents)
    return found


def check(arguments, places):
    """Have `ovms serve` check arguments, with files of this machine in place of those they name."""
    arguments = placed(arguments, places)
    command = [PROGRAM, *arguments, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"


def flag(arguments, name):
    """The value of `--name=value`, or `--name value`."""
    words = " ".join(arguments).replace("=", " ").split()
    return words[words.index(name) + 1]


def test_the_configuration_of_the_package_is_one():
    """It names no model and loads."""
    config = DEPLOY / "config.json"
    flags = ["serve", f"--config_path={config}", "--port=9000", "--rest_port=8000"]
    check(flags, {})


def unit():
    """The settings of the unit, with every value of those that may stand twice."""
    settings = {}
    for line in (DEPLOY / "systemd/ovms.service").read_text().splitlines():
        if line and line[0] not in "#[":
            name, value = line.split("=", 1)
            settings.setdefault(name, []).append(value)
    return settings


def test_the_unit_stops_the_server_alone():
    """Workers of Python nodes answer what has begun."""
    assert unit()["KillMode"] == ["mixed"]


def defaults():
    """What the unit's file of variables sets, read as systemd and as a shell would."""
    text = (DEPLOY / "systemd/ovms.default").read_text()
    words = [word for line in text.splitlines() for word in shlex.split(line, comments=True)]
    return dict(word.split("=", 1) for word in words)


def test_the_unit_starts_the_program():
    """Its flags are taken, and those of the file of variables."""
    variables = defaults()
    command = unit()["ExecStart"][0]
    # `${NAME}` is one word, `$NAME` are several.
    words = []
    for word in command.split():
        if word.startswith("$") and not word.startswith("${"):
            words += variables[word[1:]].split()
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], word))
    assert words[0] == "/usr/bin/ovms"
    check(words[1:], {"/etc/ovms/config.json": DEPLOY / "config.json"})
    assert "${OVMS_REST_PORT}/v1/config/reload" in unit()["ExecReload"][0]
    assert int(unit()["TimeoutStopSec"][0]) > DRAIN_SECONDS
    assert "127.0.0.1" in variables["OVMS_OPTIONS"], "it is not open to the network as installed"


def test_a_reload_of_the_unit_says_what_is_wrong(running, tmp_path):
    """The command that systemd runs fails with the server's words."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("no curl here")
    config = tmp_path / "config.json"
    shutil.copy(DEPLOY / "config.json", config)
    server = running.start("unit", "--config_path", str(config), "--file_system_poll_wait_seconds=0")
    command = unit()["ExecReload"][0].replace("${OVMS_REST_PORT}", str(server.rest_port)).split()
    command[0] = curl
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
    path = FIXTURES / "models/no-such-model"
    models = [{"config": {"name": "gone", "base_path": str(path)}}]
    config.write_text(json.dumps({"model_config_list": models}))
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 22, done
    assert '"error"' in done.stdout


def test_systemd_takes_the_unit(tmp_path):
    """Every setting is known, and the service may do little."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    path = tmp_path / "ovms.service"
    text = (DEPLOY / "systemd/ovms.service").read_text()
    path.write_text(text.replace("/usr/bin/ovms", PROGRAM).replace("/usr/bin/curl", PROGRAM))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=LIMIT
    )
    errors = [line for line in done.stderr.splitlines() if "ovms.service" in line]
    assert not errors, errors
    command = [analyze, "security", "--offline=true", "--threshold=20", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze here cannot look at files")
    assert done.returncode == 0, done.stdout.splitlines()[-1]


def instructions():
    """The instructions of the container file, continued lines put together."""
    text = (DEPLOY / "Containerfile").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def of(name):
    """The operands of the instructions of a name."""
    return [rest for instruction, rest in instructions() if instruction == name]


def test_the_container_is_made_of_the_wheel():
    """What is copied is what `make wheel` writes, and its environment is where the runtime is looked for."""
    (operands,) = of("COPY")
    assert operands.split()[0] == "dist/ovms-*.whl"
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    assert [line for line in ignored if line.startswith("!")] == ["!dist"]
    assert "build.py dist" in (ROOT / "Makefile").read_text()
    places = [word for word in of("ENV")[0].split() if word.endswith("=/opt/openvino")]
    assert len(places) == 2 and "-m venv /opt/openvino" in of("RUN")[-1]


def test_the_container_has_the_paths_of_that_of_the_cpp_server():
    """Files that make an image from it run `pip3`, for the packages of Python nodes, and the program by its path."""
    variables = dict(word.split("=", 1) for word in of("ENV")[0].split())
    assert variables["PATH"].split(":")[0] == "/opt/openvino/bin"
    assert "ln -s /opt/openvino/bin/ovms /ovms/bin/ovms" in of("RUN")[-1]


def test_the_container_starts_the_program(running):
    """Its command is taken, with and without `serve`, and so is its question for health."""
    assert json.loads(of("ENTRYPOINT")[0]) == ["ovms"]
    command = json.loads(of("CMD")[0])
    places = {"/etc/ovms/config.json": DEPLOY / "config.json"}
    check(command, places)
    check(command[1:], places)
    assert of("EXPOSE")[0].split() == [flag(command, "--port"), flag(command, "--rest-port")]
    assert of("STOPSIGNAL") == ["SIGTERM"]
    question = json.loads(re.search(r"CMD (\[.*\])", of("HEALTHCHECK")[0])[1])
    assert question == ["ovms", "infer", "--status", "--wait", "3s"]
    assert f"OVMS_URL=localhost:{flag(command, '--port')}" in of("ENV")[0].split()
    server = running.start("container", "--config_path", str(DEPLOY / "config.json"))
    for address, is_well in [(server.grpc, True), ("127.0.0.1:1", False)]:
        environment = {**os.environ, "OVMS_URL": address}
        asked = subprocess.run(
            [PROGRAM, *question[1:]], env=environment, capture_output=True, timeout=LIMIT
        )
        assert (asked.returncode == 0) == is_well, address


def test_the_pods_fit_the_server(running, tmp_path):
    """Arguments, ports, probes, labels, volumes, and times."""
    found = by_kind("kubernetes/ovms.yaml")
    deployment, service = found["Deployment"]["spec"], found["Service"]["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    # The file of the ConfigMap, with a model that is there.
    text = found["ConfigMap"]["data"]["config.json"]
    models = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}["models"]
    (entry,) = json.loads(text)["model_config_list"]
    path = entry["config"]["base_path"]
    assert path.startswith(f"{models}/")
    config = tmp_path / "config.json"
    config.write_text(text.replace(path, str(FIXTURES / "models/classifier")))
    check(container["args"], {"/etc/ovms/config.json": config})

    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert str(ports["grpc"]) == flag(container["args"], "--port")
    assert str(ports["http"]) == flag(container["args"], "--rest-port")
    # Clients of the service do not come to the third.
    assert {port["targetPort"] for port in service["ports"]} == set(ports) - {"management"}
    reached = [port["port"] for rule in found["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]]
    assert sorted(reached) == sorted(ports)
    assert str(ports["management"]) == flag(container["args"], "--management-port")
    annotations = deployment["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["management"])
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (
        deployment["selector"]["matchLabels"],
        service["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", found["Deployment"]["metadata"]["name"])
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes

    assert pod["terminationGracePeriodSeconds"] > pause_and_drain(container)

    server = managed(running, "pod", "--config_path", str(config), "--metrics_enable")
    scaled = found["HorizontalPodAutoscaler"]["spec"]
    assert_metrics(server, json.dumps(scaled))
    (keda,) = documents("kubernetes/keda.yaml")
    assert keda["spec"]["scaleTargetRef"]["name"] == scaled["scaleTargetRef"]["name"]
    probe(server, container, "management")
    metrics = requests.get(server.url(annotations["prometheus.io/path"]), timeout=LIMIT)
    assert metrics.status_code == 200


def managed(running, name, *flags):
    """A server whose REST side here is its management port."""
    (port,) = free_ports(1)
    server = running.start(name, *flags, f"--management-port={port}", "--management-bind-address=127.0.0.1")
    return Server(name, server.port, port)


def placed(arguments, places):
    """Arguments with files and ports of this machine in place of those that they name."""
    for old, new in places.items():
        assert any(old in each for each in arguments), f"{old} is not in {arguments}"
        arguments = [each.replace(old, str(new)) for each in arguments]
    return arguments


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    """A certificate, its key, and a file of identities."""
    folder = tmp_path_factory.mktemp("secrets")
    own, signing = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = certificate("An authority", signing, authority=True)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "tls.key").write_bytes(own.private_bytes(pem, form, serialization.NoEncryption()))
    (folder / "tls.crt").write_bytes(certificate("localhost", own, (authority, signing)).public_bytes(pem))
    (folder / "ca.crt").write_bytes(authority.public_bytes(pem))
    made = subprocess.run([PROGRAM, "key", "new", "--name", "team"], capture_output=True, text=True, timeout=LIMIT)
    (folder / "auth.toml").write_text(re.search(r"^\[\[.*", made.stdout, re.DOTALL | re.MULTILINE)[0])
    return folder


def test_the_pods_for_clients_that_are_not_trusted_fit_the_server(running, secrets, tmp_path):
    """What the comment says to do gives manifests of the schemas, and arguments with which probes pass and strangers do not."""
    text = (DEPLOY / "kubernetes/ovms.yaml").read_text()
    assert "sed 's/#+ //' deploy/kubernetes/ovms.yaml" in text
    secured = [each for each in yaml.safe_load_all(text.replace("#+ ", "")) if each]
    for document in secured:
        schemas.validate(document)
    found = kinds(secured)
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    named = {volume["name"]: volume.get("secret", {}).get("secretName") for volume in pod["volumes"]}
    assert set(mounts) == set(named)
    for name in ("tls", "auth"):
        assert f"kubectl create secret generic {named[name]} " in text
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_config_list": []}))
    files = {mounts["tls"]: secrets, mounts["auth"]: secrets, "/etc/ovms/config.json": config}
    arguments = placed(container["args"], files)
    check(arguments, {})
    ports = dict(zip(("--port=9000", "--rest-port=8000", "--management-port=8001"), free_ports(3), strict=True))
    ports = {old: f"{old.split('=')[0]}={new}" for old, new in ports.items()}
    # No Redis is here.
    arguments = [each for each in placed(arguments, ports) if not each.startswith("--sequence-")]
    addresses = [f"--{each}-bind-address=127.0.0.1" for each in ("grpc", "rest", "management")]
    running.launch("secured", [*arguments, *addresses])
    _, rest, management = (int(each.split("=")[1]) for each in ports.values())
    probe(Server("secured", None, management), container, "management")
    stranger = {"verify": secrets / "ca.crt", "timeout": LIMIT}
    with pytest.raises(requests.exceptions.RequestException):
        requests.get(f"https://localhost:{rest}/v2", **stranger)
    trusted = requests.get(f"https://localhost:{rest}/v2", cert=(secrets / "tls.crt", secrets / "tls.key"), **stranger)
    assert trusted.status_code == 401, "it has no key"


def test_the_hardened_unit_starts_the_program(secrets, tmp_path):
    """The line that is to be taken in place of the other one is one that the server takes."""
    text = (DEPLOY / "systemd/ovms.default").read_text()
    (block,) = re.findall(r'^# (OVMS_OPTIONS=".*?")$', text, re.DOTALL | re.MULTILINE)
    (words,) = shlex.split(re.sub(r"\\\n# *", " ", block))
    credentials = "/run/credentials/ovms.service/"
    identities = tmp_path / "auth.toml"
    of_certificates = '\n[[identity]]\nname = "camera"\ncertificates = ["camera.example"]\ninfer = ["*"]\n'
    identities.write_text((secrets / "auth.toml").read_text() + of_certificates)
    places = {
        f"{credentials}server.pem": secrets / "tls.crt",
        f"{credentials}server.key": secrets / "tls.key",
        f"{credentials}ca.pem": secrets / "ca.crt",
        f"{credentials}auth.toml": identities,
        "/var/log/ovms": tmp_path,
    }
    config = ["serve", "--config-path", str(DEPLOY / "config.json"), "--port", "9000", "--rest-port", "8000"]
    check([*config, *words.removeprefix("OVMS_OPTIONS=").split()], places)


def probe(server, container, port):
    """Ask what the probes of a container ask."""
    for name, path in (
        ("startupProbe", "/v2/health/ready"),
        ("readinessProbe", "/v2/health/ready"),
        ("livenessProbe", "/v2/health/live"),
    ):
        asked = container[name]["httpGet"]
        assert (asked["path"], asked["port"]) == (path, port)
        answer = requests.get(server.url(path), timeout=LIMIT)
        assert 200 <= answer.status_code < 400, name


def test_the_runtime_of_kserve_fits_the_server(running):
    """Arguments, ports, probes, and what the example of a service asks for."""
    (runtime,) = documents("kserve/runtime.yaml")
    example = by_kind("kserve/service.yaml")["InferenceService"]
    stateful = by_kind("kserve/stateful.yaml")["InferenceService"]
    (container,) = runtime["spec"]["containers"]
    assert container["name"] == "kserve-container"
    model = FIXTURES / "models/classifier"
    places = {"{{.Name}}": "m", "/mnt/models": model}
    check(container["args"], places)
    total = FIXTURES / "models/running_total"
    more = stateful["spec"]["predictor"]["model"]["args"]
    check(container["args"] + more, places | {"/mnt/models": total})
    port = int(flag(container["args"], "--rest-port"))
    assert [each["containerPort"] for each in container["ports"]] == [port]
    assert runtime["spec"]["annotations"]["prometheus.kserve.io/port"] == str(port)
    flags = [f"--model_path={total}", "--stateful", "--metrics_enable"]
    server = running.start("kserve", "--model_name=m", *flags)
    (keda,) = documents("kubernetes/keda.yaml")
    assert_metrics(server, json.dumps(keda))
    probe(server, container, port)

    formats = [(each["name"], each["version"]) for each in runtime["spec"]["supportedModelFormats"]]
    for each in (example, stateful):
        predictor = each["spec"]["predictor"]
        asked = predictor["model"]
        assert asked["runtime"] == runtime["metadata"]["name"]
        assert (asked["modelFormat"]["name"], asked["modelFormat"]["version"]) in formats
        assert asked["protocolVersion"] in runtime["spec"]["protocolVersions"]
        assert predictor["terminationGracePeriodSeconds"] > pause_and_drain(container)
        assert_metrics(server, json.dumps(predictor["autoScaling"]))


def pause_and_drain(container):
    """How many seconds a container may take to stop."""
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    return pause + int(flag(container["args"], "--shutdown-timeout-seconds"))


def assert_metrics(server, text):
    """Every family that an autoscaler is configured with is one that the server has."""
    named = set(re.findall(r"ovms_\w+", text))
    assert named
    page = requests.get(server.url("/metrics"), timeout=LIMIT).text
    for name in named:
        assert f"# TYPE {name} gauge" in page, name


MANIFESTS = sorted(str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("*.yaml"))


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_fit_the_schemas_of_their_projects(name):
    """Those of Kubernetes, KServe, and KEDA, with no key more than they have."""
    for document in documents(name):
        schemas.validate(document)


@pytest.mark.parametrize(
    ("name", "kind", "path", "value", "error"),
    [
        ("kubernetes/ovms.yaml", "Deployment", "spec.replica", 2, "'replica' was unexpected"),
        ("kubernetes/ovms.yaml", "Deployment", "spec.template.spec.containers.0.ports", "h", "'h' is not"),
        ("kubernetes/ovms.yaml", "HorizontalPodAutoscaler", "spec.maxReplicas", "x", "'x' is not of type"),
        ("kubernetes/ovms.yaml", "PodDisruptionBudget", "spec.selector.labels", {}, "'labels' was unexpected"),
        ("kubernetes/redis.yaml", "StatefulSet", "spec.serviceName", 1, "1 is not of type"),
        ("kubernetes/keda.yaml", "ScaledObject", "spec.triggers.0.metadata", 4, "4 is not of type"),
        ("kubernetes/keda.yaml", "ScaledObject", "spec.minReplicas", 4, "'minReplicas' was unexpected"),
        ("kserve/runtime.yaml", "ServingRuntime", "spec.container", [], "has no such key"),
        ("kserve/runtime.yaml", "ServingRuntime", "spec.multiModel", "no", "'no' is no bool"),
        ("kserve/runtime.yaml", "ServingRuntime", "spec.containers.0.arg", [], "'arg' was unexpected"),
        ("kserve/service.yaml", "InferenceService", "spec.predictor.autoScaling.metrics.0.target", {}, "no such key"),
        ("kserve/service.yaml", "InferenceService", "spec.predictor.model.storageUri", 1, "1 is no str"),
    ],
)
def test_a_broken_manifest_is_reported(name, kind, path, value, error):
    """Keys that are none, and values of another type."""
    document = by_kind(name)[kind]
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place = document
    for key in parents:
        place = place[key]
    place[last] = value
    with pytest.raises(schemas.Unfit, match=re.escape(error)):
        schemas.validate(document)


def test_the_redis_of_the_pods_keeps_what_it_has_answered(tmp_path):
    """It starts with the arguments of the manifest, and one killed comes back with the last write."""
    found = by_kind("kubernetes/redis.yaml")
    (container,) = found["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    pods = by_kind("kubernetes/ovms.yaml")["Deployment"]["spec"]["template"]
    (server,) = pods["spec"]["containers"]
    (port,) = found["Service"]["spec"]["ports"]
    address = f"redis://{found['Service']['metadata']['name']}:{port['port']}"
    assert flag(server["args"], "--sequence-store") == address
    (rule,) = found["NetworkPolicy"]["spec"]["ingress"]
    allowed = rule["from"][0]["podSelector"]["matchLabels"]
    assert allowed.items() <= pods["metadata"]["labels"].items()
    stateful = by_kind("kserve/stateful.yaml")["InferenceService"]["spec"]["predictor"]
    assert flag(stateful["model"]["args"], "--sequence-store") == address
    assert allowed.items() <= stateful["labels"].items()

    (own,) = free_ports(1)
    program, *arguments = [
        str(tmp_path) if each == "/data" else each.replace(str(port["port"]), str(own))
        for each in container["args"]
    ]
    command = [find(program), *arguments, "--bind", "127.0.0.1"]
    for expected in (b"+OK", b"$1\r\n1"):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                question = b"SET a 1\r\n" if expected == b"+OK" else b"GET a\r\n"
                assert answered(own, question) == expected
            finally:
                # Else its end would be waited for, whatever has failed.
                process.kill()


def answered(port, question):
    """What a Redis answers that is about to listen, and then reads what it has kept."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
                connection.sendall(question)
                answer = connection.recv(100).strip()
            if not answer.startswith(b"-LOADING"):
                return answer
        except ConnectionRefusedError:
            pass
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_help_of_the_fleet_needs_no_ray(tmp_path):
    """Whoever has not installed Ray yet can read it, and is shown how."""
    # As if it were not installed.
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError('no ray', name='ray')\n")

    def run(*words):
        return subprocess.run(
            [sys.executable, DEPLOY / "ray/fleet.py", *words],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    shown = run("--help")
    assert shown.returncode == 0 and "start the fleet" in shown.stdout, shown.stderr
    refused = run("status")
    assert refused.returncode == 1 and "requirements.txt" in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("load", ["pending", "sequences"])
def test_the_fleet_follows_requests_and_live_sequences(load):
    """As many replicas as the load needs: more when three looks agree, fewer when none has needed them for long."""
    of_fleet = application_of_ray().Fleet
    fleet = of_fleet.__new__(of_fleet)
    fleet.options = {"pending_each": 8, "sequences_each": 200, "min": 2, "max": 6, "idle_seconds": 0.0}
    fleet.looks, fleet.ending = collections.deque(), False

    def looks(each, up):
        fleet.known = {slot: {"pending": 0, "sequences": 0} | {load: each} for slot in range(2)}
        return [fleet.wanted(up) for _ in range(4)]

    of_one = {"pending": 8, "sequences": 200}[load]
    assert looks(0, 2)[-1] == 2
    # Two times two and a half.
    assert looks(2.5 * of_one, 2) == [2, 2, 5, 5]
    assert looks(100 * of_one, 5)[-1] == 6
    assert looks(0, 6)[-1] == 2


def test_the_application_of_ray_can_be_read_at_a_sitting():
    """At most 400 lines: somebody takes it over who runs no Kubernetes."""
    lines = (DEPLOY / "ray/fleet.py").read_text().splitlines()
    assert len(lines) <= 400


def application_of_ray():
    """The module, which can be read without Ray."""
    spec = importlib.util.spec_from_file_location("fleet", DEPLOY / "ray/fleet.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
