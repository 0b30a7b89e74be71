# SPDX-License-Identifier: GPL-2.0-only
"""Debian's archive without installing anything: this machine's apt state is only read, other suites and architectures get one
of their own under build/vm/apt, from the mirror that is configured here, with signatures checked as apt does."""
import os
import subprocess
import sys

TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATE = os.path.join(os.environ.get("FPISA_VM_STATE", os.path.join(TREE, "build")), "vm")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def fail(message):
    sys.exit(f"{os.path.relpath(os.path.abspath(sys.argv[0]), TREE)}: {message}")


def output(argv, **kw):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    if p.returncode:
        error = (p.stderr.strip() or p.stdout.strip() or f"exit status {p.returncode}").splitlines()[-1]
        fail(f"{' '.join(argv[:1] + argv[-2:])}: {error}")
    return p.stdout


def mirrors():
    """The archive's and its security part's addresses, as this machine's sources have them."""
    found = {}
    for line in output(["apt-get", "indextargets", "--format", "$(REPO_URI) $(LABEL)"]).splitlines():
        uri, label = line.split(" ", 1)
        found.setdefault(label, uri.rstrip("/"))
    if "Debian" not in found:
        fail("no Debian archive among the configured sources; name one there and run apt-get update")
    return found["Debian"], found.get("Debian-Security", found["Debian"] + "-security")


def configured():
    """The suite that this machine's archive is configured for, by its code name."""
    found = output(["apt-get", "indextargets", "--format", "$(CODENAME)", "Created-By: Packages", "Origin: Debian", "Label: Debian"])
    return found.split()[0] if found.strip() else fail("no Debian archive among the configured sources")


def private_apt(suites, arch="amd64"):
    """Options that make apt see only these suites, from the mirror that is configured, and nothing as installed."""
    top = os.path.join(STATE, "apt", "+".join(suites) + ("" if arch == "amd64" else "-" + arch))
    for part in ("lists/partial", "archives/partial"):
        os.makedirs(os.path.join(top, part), exist_ok=True)
    archive, security = mirrors()
    with open(os.path.join(top, "sources.list"), "w") as f:
        for suite in suites:
            uri = security if suite.endswith("-security") else archive
            f.write(f"deb [arch={arch} signed-by={KEYRING}] {uri} {suite} main\n")
    opts = {"Dir::Etc::SourceList": top + "/sources.list", "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null", "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State::Lists": top + "/lists", "Dir::Cache::archives": top + "/archives",
            "Dir::State::status": "/dev/null", "APT::Architecture": arch, "APT::Architectures": arch,
            "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "Acquire::Languages": "none",
            "APT::Sandbox::User": "root"}
    opts = [arg for k, v in opts.items() for arg in ("-o", f"{k}={v}")]
    output(["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", *opts, "update"])
    return opts


def unpack(deb, root):
    """Its files below `root`, whose links to directories stay."""
    output(["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"', "sh", deb, root])
