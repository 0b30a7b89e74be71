# SPDX-License-Identifier: GPL-2.0-only
"""Compare deploy/ with the tree: manifests, metrics, scripts, and the capabilities in doc/deploy.md, which tests/image tests."""
import glob
import json
import os
import re
import shutil
import subprocess

import pytest

from lab import FPISA, TOP, setting

DEPLOY = os.path.join(TOP, "deploy")
# Each kind has an apiVersion, and fields that the API server requires.
KINDS = {
    "Namespace": ("v1", []),
    "ConfigMap": ("v1", ["data"]),
    "Secret": ("v1", ["type", "stringData"]),
    "Service": ("v1", ["spec.selector", "spec.clusterIP"]),
    "DaemonSet": ("apps/v1", ["spec.selector.matchLabels", "spec.template.metadata.labels", "spec.template.spec.containers"]),
    "Deployment": ("apps/v1", ["spec.selector.matchLabels", "spec.template.metadata.labels", "spec.template.spec.containers"]),
    "Job": ("batch/v1", ["spec.template.spec.restartPolicy", "spec.template.spec.containers"]),
}
MANIFESTS = sorted(glob.glob(DEPLOY + "/kubernetes/*.yaml"))
SCRIPTS = [*sorted(glob.glob(DEPLOY + "/slurm/*")), DEPLOY + "/image/make", TOP + "/.ci/run"]


def read(*path):
    with open(os.path.join(TOP, *path)) as f:
        return f.read()


def documents(path):
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed; make test installs it")
    with open(path) as f:
        return list(yaml.safe_load_all(f))


def at(document, path):
    for key in path.split("."):
        document = document[key]
    return document


def pods(path):
    """Return (kind, spec of its pods) of each document that has pods."""
    return [(d["kind"], d["spec"]["template"]["spec"]) for d in documents(path) if "template" in d.get("spec", {})]


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


@pytest.mark.parametrize("path", MANIFESTS, ids=os.path.basename)
def test_manifest(path):
    for d in documents(path):
        version, required = KINDS[d["kind"]]
        assert d["apiVersion"] == version and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", d["metadata"]["name"])
        assert d["kind"] == "Namespace" or d["metadata"]["namespace"] == "fpisa"
        for field in required:
            assert at(d, field), field
        if "matchLabels" in d.get("spec", {}).get("selector", {}):
            assert d["spec"]["selector"]["matchLabels"].items() <= d["spec"]["template"]["metadata"]["labels"].items()
    for _, pod in pods(path):
        volumes = {v["name"] for v in pod["volumes"]}
        for c in containers(pod):
            assert c["image"].endswith(":" + setting("VERSION"))
            assert {m["name"] for m in c["volumeMounts"]} <= volumes


@pytest.mark.parametrize("path", MANIFESTS, ids=os.path.basename)
def test_manifest_by_schema(path):
    """Every field follows the schema of Kubernetes, if kubernetes-validate is installed."""
    validate = pytest.importorskip("kubernetes_validate")
    for d in documents(path):
        validate.validate(d, validate.latest_version(), strict=True)


def test_names_that_manifests_share():
    """Secrets, configurations and selectors refer to existing objects."""
    every = [d for path in MANIFESTS for d in documents(path)]
    named = {kind: {d["metadata"]["name"] for d in every if d["kind"] == kind} for kind in KINDS}
    labels = [d["spec"]["template"]["metadata"]["labels"] for d in every if "template" in d.get("spec", {})]
    for path in MANIFESTS:
        for _, pod in pods(path):
            assert {v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v} <= named["Secret"]
            assert {v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v} <= named["ConfigMap"]
            hosts = {e["value"] for c in containers(pod) for e in c.get("env", []) if e["name"] == "FPISA_MANAGER"}
            assert hosts <= named["Service"]
    for d in every:
        if d["kind"] == "Service":
            selector = {k: v for k, v in d["spec"]["selector"].items() if k != "job-name"}  # Kubernetes itself adds this label
            assert any(selector.items() <= of.items() for of in labels)
            assert d["spec"]["selector"].get("job-name", "train") in named["Job"]


def test_configuration_of_the_cluster(tmp_path):
    """The program accepts the configuration of the cluster."""
    config, = [d for d in documents(DEPLOY + "/kubernetes/aggregator.yaml") if d["kind"] == "ConfigMap"]
    (tmp_path / "fpisa.conf").write_text(config["data"]["fpisa.conf"])
    p = subprocess.run([FPISA, "config", "check", tmp_path / "fpisa.conf"], text=True, capture_output=True)
    assert p.returncode == 0 and "no errors; interfaces: 0" not in p.stdout, p.stderr


def needs():
    """Return doc/deploy.md's table as {verb: capabilities}."""
    return {verb: set(re.findall(r"CAP_(\w+)", caps)) for verb, caps in re.findall(r"^\| `([\w ]+)` \| (.*?) \|", read("doc/deploy.md"), re.M)}


def test_capabilities():
    """Manifests and the compose file grant exactly the capabilities of the page, which tests/image tests."""
    page = needs()
    for path in MANIFESTS:
        for _, pod in pods(path):
            for c in containers(pod):
                context, verb = c["securityContext"], (c.get("args") or [""])[0]
                assert context["capabilities"]["drop"] == ["ALL"]
                assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
                took = set(context["capabilities"].get("add", []))
                assert took == page["load" if verb == "config" else verb if verb in page else "worker"], (path, c["name"])
    demo = documents(DEPLOY + "/compose.yaml")[0]["services"]["demo"]
    assert set(demo["cap_add"]) == page["demo"] and demo["cap_drop"] == ["ALL"] and demo["read_only"]


def metrics():
    """Return the metrics of `fpisa stats --prometheus`. doc/interfaces.txt lists counters of jobs by their JSON names."""
    text = read("doc/interfaces.txt")
    return set(re.findall(r"^\S+\tmetric\t(\w+)$", text, re.M)) | \
        {f"fpisa_{name}_total" for name in re.findall(r"^\S+\tcounter\t(?!v_)(\w+)$", text, re.M)}


def expressions():
    with open(DEPLOY + "/prometheus/dashboard.json") as f:
        panels = json.load(f)["panels"]
    rules = [r["expr"] for g in documents(DEPLOY + "/prometheus/alerts.yml")[0]["groups"] for r in g["rules"]]
    return [t["expr"] for p in panels for t in p["targets"]] + rules


def test_metrics_exist():
    drops = set(re.findall(r"^\S+\tcounter\tv_(\w+): \d+ drop$", read("doc/interfaces.txt"), re.M))
    for e in expressions():
        names = set(re.findall(r"\bfpisa_\w+", e))
        assert names and names <= metrics(), names - metrics()
        for reasons in re.findall(r'fpisa_drops_total\{reason=~?"([^"]*)"', e):
            assert set(reasons.split("|")) <= drops, reasons


def test_packages_of_pages_and_images():
    """Every package that pages and images name is built."""
    built = set(re.findall(r"^Package: (.*)", read("debian", "control"), re.M))
    image = read("deploy", "image", "make").replace('"libfpisa$soversion"', "libfpisa" + setting("SOVERSION"))
    named = re.findall(r"(?<![\w/.])(?:python3-fpisa|libfpisa)[\w-]*", read("doc", "deploy.md") + image)
    assert named and set(named) <= built, set(named) - built


def test_dashboard():
    with open(DEPLOY + "/prometheus/dashboard.json") as f:
        d = json.load(f)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in d["panels"]]
    assert len(set(places)) == len(places) and len({p["id"] for p in d["panels"]}) == len(places)
    assert all(p["title"] and p["datasource"]["uid"] == "${source}" for p in d["panels"])


def test_alerts_by_promtool():
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    p = subprocess.run(["promtool", "check", "rules", DEPLOY + "/prometheus/alerts.yml"], text=True, capture_output=True)
    assert p.returncode == 0, p.stdout + p.stderr


@pytest.mark.parametrize("path", SCRIPTS, ids=os.path.basename)
def test_script(path):
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed; make test installs it")
    p = subprocess.run(["shellcheck", "--exclude=SC1090,SC1091,SC2016", path], text=True, capture_output=True)
    assert p.returncode == 0, p.stdout


@pytest.fixture
def slurm(tmp_path):
    """Return (environment, function that runs a script), with the files of a site and a stand-in for fpisa that records its calls."""
    for name, text in ("fpisa", '#!/bin/sh\necho "$*" "$FPISA_KEY" > "$FPISA_RUN/said"\n'), ("keys", "train:1:secret\n"), \
            ("slurm.conf", f"FPISA_MANAGER=10.0.0.1:18000\nFPISA_SITE_KEY={tmp_path}/keys\n"):
        (tmp_path / name).write_text(text)
    (tmp_path / "fpisa").chmod(0o755)
    env = {**os.environ, "FPISA": str(tmp_path / "fpisa"), "FPISA_RUN": str(tmp_path / "run"), "SLURM_JOB_ID": "12",
           "FPISA_SLURM_CONF": str(tmp_path / "slurm.conf"), "SLURM_JOB_UID": str(os.geteuid())}
    return env, lambda name: subprocess.run([os.path.join(DEPLOY, "slurm", name)], env=env, text=True, capture_output=True)


@pytest.mark.parametrize("manager", ["10.0.0.1", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:18000"])
def test_addresses_of_the_manager(slurm, tmp_path, manager):
    """The prolog passes doctor the address without brackets and port. Otherwise it would drain all nodes."""
    env, run = slurm
    (tmp_path / "slurm.conf").write_text(f"FPISA_MANAGER={manager}\nFPISA_SITE_KEY={tmp_path}/keys\n")
    assert run("prolog").returncode == 0
    assert (tmp_path / "run" / "said").read_text().split()[2] == manager.removesuffix(":18000").strip("[]")


def test_prolog_and_epilog(slurm, tmp_path):
    """Only the user can read the key while the job runs. Afterwards no file is left. If doctor finds a fault, the node is drained."""
    env, run = slurm
    for _ in range(2):  # the second time is that of a requeued job
        assert run("prolog").returncode == 0
    key = tmp_path / "run" / "12" / "keys"
    assert key.read_text() == "train:1:secret\n" and key.stat().st_mode & 0o777 == 0o400 and key.parent.stat().st_mode & 0o777 == 0o700
    assert key.stat().st_uid == os.geteuid() and (tmp_path / "run").stat().st_mode & 0o777 == 0o711
    assert (tmp_path / "run" / "said").read_text() == f"doctor --worker 10.0.0.1 {tmp_path}/keys\n"
    assert run("epilog").returncode == 0 and not key.parent.exists()
    (tmp_path / "fpisa").write_text("#!/bin/sh\nexit 1\n")
    assert run("prolog").returncode == 1


@pytest.mark.parametrize("source", ["user/lib/call.c", "user/datapath/families.c", "bpf/fpisa.bpf.c", "adapters/python/sums/state.c"])
def test_big_endian_is_refused(source):
    """On a big-endian target the compiler first prints a single error, which gives the reason."""
    flags = ["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__", "-std=gnu11", "-fmax-errors=1", "-fsyntax-only",
             "-Iinclude", "-Iuser", "-Ibuild"]
    p = subprocess.run(["gcc", *flags, source], cwd=TOP, text=True, capture_output=True)
    errors = re.findall(r"error: .*", p.stderr)
    assert p.returncode and errors == ['error: #error "the wire format is little-endian and is read in place: big-endian hosts are not supported"'], p.stderr


def test_without_postgres():
    """Without PostgreSQL, no part that needs its headers is built."""
    p = subprocess.run(["make", "-s", "--no-print-directory", "print-FUZZ_USER", "print-PG_VERSION", "POSTGRESQLS=1 2"], cwd=TOP, text=True,
                       capture_output=True, check=True)
    assert "fdw" not in p.stdout.split() and not re.search(r"\d", p.stdout), p.stdout


def test_packages_of_two_versions_of_postgresql(tmp_path):
    """Each version of PostgreSQL has its own package and files, and the source package depends on both versions. The rest of debian/control
    does not change."""
    shutil.copytree(os.path.join(TOP, "debian"), tmp_path / "debian")
    before = (tmp_path / "debian" / "control").read_text()
    subprocess.run([tmp_path / "debian" / "versions", "18", "15"], check=True)
    after = (tmp_path / "debian" / "control").read_text()
    assert "PGVERSION" not in after and not list(tmp_path.glob("debian/*PGVERSION*"))
    for version in "18", "15":
        assert f"postgresql-server-dev-{version} " in after.split("\n\n")[0]
        paragraph, = [p for p in after.split("\n\n") if p.startswith(f"Package: postgresql-{version}-fpisa\n")]
        assert f"Depends: postgresql-{version}, " in paragraph
        assert f"/postgresql/{version}/lib/fpisa.so" in (tmp_path / "debian" / f"postgresql-{version}-fpisa.install").read_text()
    others = [[p for p in text.strip().split("\n\n")[1:] if not p.startswith("Package: postgresql-")] for text in (before, after)]
    assert others[0] == others[1]


def test_ci():
    """Each CI job runs a part of .ci/run, and together they run each suite of `make test` once."""
    workflow, = documents(os.path.join(TOP, ".github", "workflows", "test.yml"))
    job = workflow["jobs"]["test"]
    assert [s["run"] for s in job["steps"] if ".ci/run" in s.get("run", "")] == [".ci/run ${{ matrix.part }}"]
    script = read(".ci/run")
    assert {*job["strategy"]["matrix"]["part"], "long"} == set(re.findall(r"^(\w+)\)", script, re.M))
    suites = " ".join(re.findall(r'SUITES="([\w ]*)"', script)).split()
    known = re.search(r"^SUITES = \{(.*?)\}", read("tests/run"), re.M | re.S)[1]
    assert sorted(suites) == sorted(re.findall(r'"(\w+)":', known))


def test_ci_of_long_suites():
    """Each long suite has a machine, or one for each release (below), and no long suite runs at a push."""
    jobs = documents(os.path.join(TOP, ".github", "workflows", "test.yml"))[0]["jobs"]
    known = re.search(r"^LONG_SUITES = \{(.*?)\}", read("tests/run"), re.M | re.S)[1]
    assert sorted([*jobs["long"]["strategy"]["matrix"]["suite"], "distros"]) == sorted(re.findall(r'"([\w-]+)":', known))
    assert jobs["long"]["steps"][-1]["run"] == ".ci/run long ${{ matrix.suite }}"
    assert all("schedule" in jobs[name].get("if", "") for name in jobs if name != "test")


def test_ci_of_releases():
    """Every release of the suite has a machine of its own."""
    workflow, = documents(os.path.join(TOP, ".github", "workflows", "test.yml"))
    job = workflow["jobs"]["distros"]
    assert job["strategy"]["matrix"]["release"] == re.search(r'"FPISA_RELEASES", "(.*?)"', read("tests/run"))[1].split()
    assert job["env"] == {"FPISA_RELEASES": "${{ matrix.release }}"} and job["steps"][-1]["run"] == "make test-long SUITES=distros"
