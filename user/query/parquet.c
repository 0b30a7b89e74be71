// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parquet by pyarrow, which is there or not: a Python process reads the file and writes CSV. What it reads is
 * somebody's data, so it reads apart from us; it gets two descriptors, and no arguments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "parquet.h"

#define WHY 200

/* Batch by batch; NULL is nothing, text is in quotes. */
static const char script[] =
	"import sys\n"
	"try:\n"
	"    import pyarrow.csv as csv, pyarrow.parquet as parquet\n"
	"except ImportError:\n"
	"    sys.exit('no pyarrow in python3: pip install pyarrow, or give the table as CSV')\n"
	"try:\n"
	"    f = parquet.ParquetFile(open(0, 'rb'))\n"
	"    out = open(1, 'wb')\n"
	"    with csv.CSVWriter(out, f.schema_arrow) as w:\n"
	"        for batch in f.iter_batches():\n"
	"            w.write_batch(batch)\n"
	"    out.flush()\n"
	"except Exception as e:\n"
	"    sys.exit(' '.join(str(e).split()))\n";

static int temporary(void)
{
	const char *directory = getenv("TMPDIR");
	int fd = open(directory ? directory : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd >= 0 ? fd : memfd_create("fpisa-parquet", MFD_CLOEXEC);
}

static void child(int in, int out, int errors)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	/* They may stand in each other's places. */
	in = fcntl(in, F_DUPFD, 3);
	out = fcntl(out, F_DUPFD, 3);
	errors = fcntl(errors, F_DUPFD, 3);
	if (in < 0 || out < 0 || errors < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(errors, 2) < 0)
		_exit(126);
	closefrom(3);
	execlp("python3", "python3", "-I", "-B", "-c", script, (char *)NULL);
	_exit(127);
}

/* What it says before it ends, the last WHY bytes of it. */
static void hear(int fd, char why[WHY + 1])
{
	char more[WHY];
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, more, sizeof(more))) > 0) {
		size_t drop = n + (size_t)got > WHY ? n + (size_t)got - WHY : 0;

		memmove(why, why + drop, n - drop);
		n -= drop;
		memcpy(why + n, more, (size_t)got);
		n += (size_t)got;
	}
	while (n && why[n - 1] == '\n')
		n--;
	why[n] = 0;
	for (size_t i = 0; i < n; i++)
		if (why[i] < ' ' || why[i] > '~')
			why[i] = ' ';
}

int parquet_to_csv(int fd, const char *name)
{
	char why[WHY + 1] = "";
	int out = temporary(), end[2], status = 0;
	pid_t pid;

	if (out < 0)
		return fpisa_fail(-errno, "%s: temporary file: %s; set TMPDIR", name, strerror(errno));
	if (pipe2(end, O_CLOEXEC)) {
		close(out);
		return fpisa_fail(-errno, "%s: %s", name, strerror(errno));
	}
	pid = fork();
	if (!pid)
		child(fd, out, end[1]);
	close(end[1]);
	if (pid > 0) {
		hear(end[0], why);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(end[0]);
	if (pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status))
		return out;
	close(out);
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return fpisa_fail(-ENOENT, "%s: there is no python3, which reads Parquet; install it with pyarrow, or give the "
					   "table as CSV", name);
	return fpisa_fail(-EINVAL, "%s: %s", name, *why ? why : "the process that reads Parquet was killed");
}
