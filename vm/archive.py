# SPDX-License-Identifier: GPL-2.0-only
"""Use Debian's archive without installing anything. The apt state of this machine is only read. Other suites and architectures
have separate apt states under build/vm/apt, and use the mirror that is configured on this machine. apt checks signatures as
usual."""
import glob
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
    """Return the addresses of the archive and of its security archive from this machine's sources."""
    found = {}
    for line in output(["apt-get", "indextargets", "--format", "$(REPO_URI) $(LABEL)"]).splitlines():
        uri, label = line.split(" ", 1)
        found.setdefault(label, uri.rstrip("/"))
    if "Debian" not in found:
        fail("the configured sources have no Debian archive; add one, and run apt-get update")
    return found["Debian"], found.get("Debian-Security", found["Debian"] + "-security")


def configured():
    """Return the code name of the suite that this machine's apt is configured for."""
    found = output(["apt-get", "indextargets", "--format", "$(CODENAME)", "Created-By: Packages", "Origin: Debian", "Label: Debian"])
    return found.split()[0] if found.strip() else fail("the configured sources have no Debian archive; add one, and run apt-get update")


def private_apt(suites, arch="amd64"):
    """Return options with which apt uses only these suites of the configured mirror, and regards no package as installed."""
    top = os.path.join(STATE, "apt", "+".join(suites) + ("" if arch == "amd64" else "-" + arch))
    for part in ("lists/partial", "archives/partial"):
        os.makedirs(os.path.join(top, part), exist_ok=True)
    archive, security = mirrors()
    with open(os.path.join(top, "sources.list"), "w") as f:
        for suite in suites:
            uri = security if suite.endswith("-security") else archive
            f.write(f"deb [arch={arch} signed-by={KEYRING}] {uri} {suite} main\n")
    open(top + "/status", "w").close()  # the folder also contains apt's lock
    opts = {"Dir::Etc::SourceList": top + "/sources.list", "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null", "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State::Lists": top + "/lists", "Dir::Cache::archives": top + "/archives",
            "Dir::State::status": top + "/status", "APT::Architecture": arch, "APT::Architectures": arch,
            "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "Acquire::Languages": "none",
            "APT::Sandbox::User": "root"}
    opts = [arg for k, v in opts.items() for arg in ("-o", f"{k}={v}")]
    output(["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", *opts, "update"])
    return opts


def download(names, arch, folder):
    """Download packages of the configured suite and all of their dependencies. A package is a name or a file. Return the
    downloaded files.
    """
    os.makedirs(folder + "/partial")
    output(["apt-get", "-q", *private_apt([configured()], arch), "-o", f"Dir::Cache::archives={folder}", "install", "-y",
            "--no-install-recommends", "--download-only", *names])
    return glob.glob(folder + "/*.deb")


def make_merged(root):
    """Create an empty root in which bin, sbin and lib are links to those of usr."""
    for part in "lib", "bin", "sbin":
        os.makedirs(f"{root}/usr/{part}")
        os.symlink("usr/" + part, f"{root}/{part}")


def unpack(deb, root):
    """Unpack the files of a package below `root`. Keep existing links to directories."""
    output(["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"', "sh", deb, root])
