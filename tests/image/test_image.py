# SPDX-License-Identifier: GPL-2.0-only
"""`make image` makes containers that work with the capabilities of doc/deploy.md, and fail without any one of them. Their root is
read-only, the BPF filesystem is a mount, and the network is a Lab's."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from lab import ADDRESS, BPFFS, BUILD, TOP, end, setting, wait_until

PLACE = os.path.join(BUILD, "image")
VERSION = setting("VERSION")
# The containers may not raise limits, because raising them needs CAP_SYS_RESOURCE.
LIMITS = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]
RUNTIME = ["--runtime=runc"] if shutil.which("runc") else []
SUM = ("import fpisa, numpy, sys\n"
       "with fpisa.Group('{}', 'sums', int(sys.argv[1]), 2, key_file='/keys') as g:\n"
       "    v, _ = g.allreduce(numpy.arange(5000, dtype='float32'))\n"
       "print((v == 2 * numpy.arange(5000)).all())").format(ADDRESS)


def capabilities():
    """Return doc/deploy.md's table as a dictionary from container to the capabilities that it needs."""
    with open(os.path.join(TOP, "doc", "deploy.md")) as f:
        rows = re.findall(r"^\| `([\w ]+)` \| (.*?) \|", f.read(), re.M)
    return {verb: re.findall(r"CAP_(\w+)", caps) for verb, caps in rows}


NEEDS = capabilities()


@pytest.fixture(scope="module")
def images(mounts, tmp_path_factory):
    """Build the images in a private store."""
    if subprocess.run(["podman", *RUNTIME, "info"], capture_output=True).returncode if shutil.which("podman") else True:
        pytest.skip("podman does not run here")
    shutil.rmtree(PLACE, ignore_errors=True)
    store = tmp_path_factory.mktemp("store")
    forward = pathlib.Path("/proc/sys/net/ipv4/ip_forward")
    before = forward.read_text()
    (store / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{store}/graph"\nrunroot = "{store}/run"\n')
    os.environ["CONTAINERS_STORAGE_CONF"] = str(store / "storage.conf")
    debs = os.environ.get("FPISA_DEBS")  # packages from an earlier `make deb`
    p = subprocess.run(["make", *([] if debs else ["deb"]), "image", f"B={BUILD}", f"IMAGE={PLACE}", f"DEB={debs or PLACE + '/deb'}",
                        "DEB_BUILD_PROFILES=pkg.fpisa.nopostgres pkg.fpisa.notorch pkg.fpisa.nompi"], cwd=TOP, text=True, capture_output=True)
    assert p.returncode == 0, p.stdout[-3000:] + p.stderr[-3000:]
    assert f"fpisa-aggregator:{VERSION}, by podman" in p.stdout and f"fpisa-worker:{VERSION}, by podman" in p.stdout
    yield
    subprocess.run(["podman", "rmi", "--all", "--force"], capture_output=True)
    forward.write_text(before)  # podman has switched it on for its network
    del os.environ["CONTAINERS_STORAGE_CONF"]
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.rmtree(store, ignore_errors=True)


def command(net, image, *argv, caps=(), options=()):
    return ["podman", *RUNTIME, "run", "--rm", *(["--security-opt=seccomp=unconfined"] if image == "aggregator" else []), "--read-only", "--read-only-tmpfs=false", "--cap-drop=all", *LIMITS, *(f"--cap-add={c}" for c in caps),
            "--security-opt=no-new-privileges", f"--network=ns:{net.path}", *options, f"fpisa-{image}:{VERSION}", *map(str, argv)]


def run(*argv, **options):
    p = subprocess.run(command(*argv, **options), text=True, capture_output=True)
    return p.returncode, p.stdout, p.stderr


def aggregator(net, *argv, without=None, verb=None, options=()):
    """Return a function that runs a verb with all capabilities that it needs, except `without`."""
    caps = [c for c in NEEDS[verb or argv[0]] if c != without]
    return run(net.agg, "aggregator", *argv, caps=caps, options=[f"--volume={BPFFS}:{BPFFS}", *options])


@pytest.mark.parametrize("without", NEEDS["load"])
def test_load_needs(images, lab, without):
    status, _, err = aggregator(lab(), "load", "p0", without=without)
    assert status == 1 and f"CAP_{without}" in err, err


def prepared(lab):
    """Prepare the host as the page asks."""
    net = lab()
    net.agg.sysctl("conf/lo/forwarding", 1)
    return net


def test_load_job_doctor(images, lab):
    net = prepared(lab)
    status, _, err = aggregator(net, "load", *net.ports)
    assert status == 0, err
    status, _, err = aggregator(net, "job", "add", "3", "--workers", ",".join(net.addresses), "--address", ADDRESS, verb="load")
    assert status == 0, err
    net.check_sum(3)
    for verb in ["status"], ["stats", "3", "--prometheus"], ["slots"]:
        status, out, err = aggregator(net, *verb, verb="stats")
        assert status == 0 and out, (verb, err)
    status, out, err = aggregator(net, "doctor")
    assert "verifier: the datapath's programs are accepted" in out, out + err
    for without in NEEDS["doctor"]:
        assert "ok     kernel: verifier" not in aggregator(net, "doctor", without=without)[1], without
    assert aggregator(net, "unload", verb="load")[0] == 0
    assert not os.path.exists(BPFFS + "/fpisa")


def configured(net, folder):
    net.fpisa("key", "new", "train", folder / "keys")
    (folder / "fpisa.conf").write_text("[manager]\nkey-file = /etc/fpisa/keys\nnetworks = 10.99.0.0/16\n")
    return [f"--volume={folder}:/etc/fpisa:ro"]


def test_serve_and_workers(images, lab, tmp_path):
    """A manager and two workers run in containers. The workers have no capability and run as nobody."""
    net = prepared(lab)
    status, _, err = aggregator(net, "load", *net.ports)
    assert status == 0, err
    options = [f"--volume={BPFFS}:{BPFFS}", *configured(net, tmp_path)]
    for without in NEEDS["serve"]:
        p = subprocess.Popen(command(net.agg, "aggregator", "serve", caps=[c for c in NEEDS["serve"] if c != without], options=options),
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert not p.stdout.readline().startswith("serving"), without
        finally:
            p.terminate()
            p.communicate(timeout=60)
    manager = subprocess.Popen(command(net.agg, "aggregator", "serve", caps=NEEDS["serve"], options=options), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        said = manager.stdout.readline()
        assert said.startswith("serving groups"), manager.stderr.read()
        key = tmp_path / "worker"
        shutil.copy(tmp_path / "keys", key)
        os.chown(key, 65534, 65534)
        ranks = [subprocess.Popen(command(w, "worker", "-c", SUM, r, caps=NEEDS["worker"], options=[f"--volume={key}:/keys:ro"]), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for r, w in enumerate(net.worker)]
        for p in ranks:
            out, err = p.communicate(timeout=120)
            assert (p.returncode, out) == (0, "True\n"), err
    finally:
        manager.terminate()
        manager.communicate(timeout=60)
        end(manager)
    wait_until("unload", lambda: aggregator(net, "unload", verb="load")[0] == 0)


def test_demo(images, lab):
    """The service of deploy/compose.yaml runs with the capabilities listed there."""
    with open(os.path.join(TOP, "deploy", "compose.yaml")) as f:
        text = f.read()
    caps = re.search(r"cap_add: \[(.*?)\]", text)[1].split(", ")
    argv = re.search(r"command: \[(.*?)\]", text)[1].replace('"', "").split(", ")
    options = ["--security-opt=unmask=/proc/sys"]
    assert sorted(caps) == sorted(NEEDS["demo"])
    net = lab()
    for without in caps:
        assert run(net.agg, "aggregator", *argv, caps=[c for c in caps if c != without], options=options)[0], without
    status, out, err = run(net.agg, "aggregator", *argv, caps=caps, options=options)
    assert status == 0 and "PASS: " in out, out + err


def test_compose(images, mounts):
    """A program that reads compose files accepts the file unchanged."""
    if not shutil.which("podman-compose"):
        pytest.skip("podman-compose is not installed; make test-long installs it")
    p = subprocess.run(["podman-compose", *(f"--podman-args={option}" for option in RUNTIME), "--podman-run-args=" + " ".join(LIMITS), "-f",
                        os.path.join(TOP, "deploy", "compose.yaml"), "run", "--rm", "-T", "demo"],
                       text=True, capture_output=True, env={**os.environ, "FPISA_VERSION": VERSION})
    assert p.returncode == 0 and "PASS: " in p.stdout, p.stdout + p.stderr
