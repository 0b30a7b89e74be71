# SPDX-License-Identifier: GPL-2.0-only
"""Run a command whose stderr, and optionally stdout, is a terminal."""
import contextlib
import os
import pty
import subprocess
import threading


class OnTerminal:
    """A program that runs on a terminal. `said` is the program's output so far."""

    def __init__(self, argv, stdout=subprocess.PIPE, **options):
        self.said = ""
        master, slave = pty.openpty()
        self.process = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=slave if stdout is None else stdout,
                                        stderr=slave, text=True, **options)
        os.close(slave)
        self.reader = threading.Thread(target=self.read, args=(master,))
        self.reader.start()

    def read(self, fd):
        with contextlib.suppress(OSError):  # EIO means that the process has ended
            while True:
                self.said += os.read(fd, 65536).decode()
        os.close(fd)

    def wait(self, timeout=60):
        """Wait for the end, after which `said` is complete. Return the exit status and stdout."""
        try:
            out, _ = self.process.communicate(timeout=timeout)
        finally:
            self.process.kill()
            self.process.wait()
            self.reader.join()
        return self.process.returncode, out

    def screen(self):
        """Return the text that the terminal shows in the end, without overwritten lines."""
        lines = [line.rsplit("\033[K", 1)[-1] for line in self.said.replace("\r\n", "\n").split("\n")]
        return "\n".join(line.strip("\r") for line in lines)
