#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run train.py for all networks, formats and arms of each seed, two runs at a time.

    sweep.py BUILD --records FILE [--seeds 1-10] [--minutes M] [--data mnist|cifar10:DIR] ...

When a run has ended, its record is appended to FILE as a line. A recorded run is not repeated. Stopping the program, for
example with Ctrl-C, loses only the runs in progress. The runs of one seed follow each other, so that arms can be compared in
pairs. With --minutes a run does not begin if it would not end in time, and the exit status is still 0. --also FILE first
copies the records of another file. --compare FILE finally prints how many runs have the same bits as in another file.
"""
import argparse
import contextlib
import ctypes
import fcntl
import importlib.util
import json
import multiprocessing
import multiprocessing.connection
import os
import platform
import signal
import sys
import time

from plan import ARMS, EPOCHS, EXPERIMENT, FORMATS, NETWORKS, SEEDS, Settings

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "adapters", "python")
PR_SET_PDEATHSIG = 1
SILENCE_S = 30  # an epoch is reported if nothing was printed for this time


def cpu_name():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.machine())


def machine():
    """Return the properties of the machine that the bits of a run and its duration depend on, in addition to the settings."""
    import torch
    return {"cpu": cpu_name(), "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release().split("-")[0],
            "torch": torch.__version__}


def process(pipe, build, data, folder):
    """Receive settings. During a run send the number of completed epochs, and finally the record. Load the data only once."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["FPISA_LIBRARY"] = os.path.join(build, "libfpisa.so")
    sys.path.insert(0, PACKAGE)
    import data as images
    import train
    try:
        loaded, here = images.load(data, folder), machine()
        pipe.send(None)
        while True:
            try:
                settings = Settings(*pipe.recv())
            except EOFError:
                return
            pipe.send({**train.run(settings, loaded, os.path.join(build, "fpisa"), pipe.send), "machine": here})
    except Exception as e:
        pipe.send(str(e) if isinstance(e, RuntimeError) else f"{type(e).__name__}: {e}")


# -- records ------------------------------------------------------------------

def read(path):
    """Return the records in a file, or none if the file does not exist. Skip an incomplete last line. Raise SystemExit for any
    other broken line.
    """
    records = []
    if os.path.exists(path):
        with open(path) as f:
            for n, line in enumerate(f, 1):
                try:
                    records += [json.loads(line)] if line.endswith("\n") else []
                except ValueError as e:
                    sys.exit(f"{path}:{n}: {e}; remove the line to repeat its run")
    return records


def write(path, records):
    """Replace the records in the file."""
    with open(path, "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in records)


KEY = "experiment", "data", "model", "format", "arm", "seed", "epochs"  # settings that identify a run


def key(record):
    return tuple(record[k] for k in KEY)


class Records:
    """A file of records that only this sweep writes while it runs."""

    def __init__(self, path):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.file = open(path, "ab+")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"training: another sweep is writing {path}; wait until it finishes, or stop it")
        self.all = {key(r): r for r in read(path)}
        self.file.seek(0)
        self.file.truncate(self.file.read().rfind(b"\n") + 1)

    def add(self, record):
        self.all[key(record)] = record
        self.file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())


# -- the sweep -----------------------------------------------------------------

class Clock:
    """Durations of runs by network. The durations come from runs that ended in this sweep, or if there are none from the epochs
    of current runs.
    """

    def __init__(self, minutes):
        self.began = self.said = time.monotonic()
        self.limit_s, self.took, self.under_way = minutes * 60 if minutes else None, {}, {}

    def begin(self, who, settings):
        self.under_way[who] = settings, time.monotonic(), 0

    def epoch(self, who, done):
        """Note a completed epoch. Return whether it is time to report the epoch."""
        self.under_way[who] = *self.under_way[who][:2], done
        due = time.monotonic() - self.said > SILENCE_S
        self.said = time.monotonic() if due else self.said
        return due

    def end(self, who):
        self.under_way.pop(who, None)

    def elapsed(self):
        return time.monotonic() - self.began

    def note(self, record):
        self.said = time.monotonic()
        self.took.setdefault(record["model"], []).append(record["seconds"])

    def expect(self, model):
        """Return the expected duration of a run in seconds, or None if it is unknown."""
        known = self.took.get(model) or [s for of_model in self.took.values() for s in of_model] or [
            (time.monotonic() - began) * settings.epochs / done for settings, began, done in self.under_way.values() if done]
        return sum(known) / len(known) if known else None

    def allows(self, model):
        return self.limit_s is None or self.elapsed() + (self.expect(model) or 0) < self.limit_s

    def left(self, todo, processes):
        """Return a sentence about the time that the current runs and the runs with these settings will take."""
        parts = [(s, 1 - done / s.epochs) for s, _, done in self.under_way.values()] + [(s, 1) for s in todo]
        seconds = sum(part * self.expect(s.model) for s, part in parts) / processes
        return f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{seconds:.0f} s left"


def start(args, pipes):
    """Start another process. The process sends None when it has the images."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    pipes[ours] = context.Process(target=process, args=(theirs, args.build, args.data, args.downloads), daemon=True)
    pipes[ours].start()
    theirs.close()


def sweep(args, todo, records, there=0):
    """Do the runs. Return whether no run failed. `there` is the number of runs that were done before."""
    clock, pipes, total, good = Clock(args.minutes), {}, there + len(todo), True
    start(args, pipes)
    done = there
    while pipes:
        for pipe in multiprocessing.connection.wait(list(pipes)):
            try:
                said = pipe.recv()
            except EOFError:
                pipes[pipe].join()
                said = f"a process ended with status {pipes[pipe].exitcode}"
            if isinstance(said, int):
                if clock.epoch(pipe, said):
                    names = ", ".join(f"{s.model} {s.format} {s.arm} seed {s.seed} epoch {n} of {s.epochs}"
                                      for s, _, n in clock.under_way.values())
                    print(f"training: {done}/{total}, under way {names}; {clock.left(todo, len(pipes))}", flush=True)
                continue
            clock.end(pipe)
            if isinstance(said, str):
                print(f"training: {said}", file=sys.stderr)
                good = False
                pipes.pop(pipe).join()
                continue
            if said:
                done += 1
                records.add(said)
                clock.note(said)
                print(f"training: {done}/{total} {said['model']} {said['format']} {said['arm']} seed {said['seed']}: "
                      f"{said['accuracy'][-1]:.1f}%, {said['seconds']:.0f} s; {clock.left(todo, len(pipes))}", flush=True)
            # wait until the first process has the images, so that other processes do not download them
            elif len(pipes) < args.processes and len(todo) > 1:
                start(args, pipes)
            if todo and clock.allows(todo[0].model):
                clock.begin(pipe, todo[0])
                with contextlib.suppress(BrokenPipeError):  # the process has died, which the next recv() reports
                    pipe.send(todo[0])
                todo.pop(0)
            else:
                pipe.close()
                pipes.pop(pipe).join()
    print(f"training: {done - there} runs in {clock.elapsed() / 60:.1f} min, {total - done} left"
          + ("; run the same command to continue" if total > done else ""), flush=True)
    return good


def twice(ours, theirs):
    """Return pairs of two runs with the same settings, one of ours and one of theirs. A copied record is not a second run."""
    theirs = {key(r): r for r in theirs}
    return [(r, theirs[key(r)]) for r in ours if theirs.get(key(r), r) != r]


def compare(records, path):
    pairs = twice(records.all.values(), read(path))
    same = sum(ours["weights"] == theirs["weights"] for ours, theirs in pairs)
    if pairs:
        cpus = ", ".join(sorted({theirs["machine"]["cpu"] for _, theirs in pairs}))
        print(f"training: of {len(pairs)} runs that {path} has too {same} ended with the same bits (there by {cpus})")


def span(text):
    first, _, last = text.partition("-")
    chosen = list(range(int(first), int(last or first) + 1))
    if not chosen or set(chosen) - set(SEEDS):
        raise argparse.ArgumentTypeError(f"{text} is not a seed or a range of seeds; the seeds are {SEEDS[0]} to {SEEDS[-1]}")
    return chosen


def words(known):
    def parse(text):
        chosen = text.split(",")
        unknown = [w for w in chosen if w not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is not known; choose from {', '.join(known)}")
        return chosen

    return parse


def arguments():
    p = argparse.ArgumentParser(prog="paper/training/sweep.py", description=__doc__.splitlines()[0])
    p.add_argument("build", metavar="BUILD", type=os.path.abspath)
    p.add_argument("--records", metavar="FILE", required=True)
    p.add_argument("--also", metavar="FILE")
    p.add_argument("--compare", metavar="FILE")
    p.add_argument("--data", default="mnist")
    p.add_argument("--seeds", metavar="N[-M]", type=span, default=[SEEDS[0]])
    p.add_argument("--epochs", type=int, default=EPOCHS)
    p.add_argument("--minutes", type=float, help="of the whole")
    p.add_argument("--processes", type=int, default=2)
    for name, known in ("models", NETWORKS), ("formats", FORMATS), ("arms", ARMS):
        p.add_argument(f"--{name}", metavar=name[:-1].upper() + ",...", type=words(list(known)), default=list(known))
    args = p.parse_args()
    args.downloads = os.path.join(args.build, "training")
    return args


def main():
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    args = arguments()
    if not importlib.util.find_spec("torch"):
        sys.exit("training: torch is not installed; run make training, which installs python3-torch")
    records = Records(args.records)
    wanted = [Settings(args.data.partition(":")[0], m, f, a, s, args.epochs) for s in args.seeds
              for f in args.formats for m in args.models for a in args.arms]
    wanted = {(EXPERIMENT, *w[:5], w.epochs): w for w in wanted}
    for r in read(args.also) if args.also else []:
        if key(r) in wanted and key(r) not in records.all:
            records.add(r)
    todo = [w for k, w in wanted.items() if k not in records.all]
    print(f"training: {len(wanted)} runs, {len(wanted) - len(todo)} of them are in {args.records}", flush=True)
    good = not todo or sweep(args, todo, records, len(wanted) - len(todo))
    if args.compare:
        compare(records, args.compare)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("training: stopped; run the same command to continue")
