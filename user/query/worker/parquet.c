// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parquet by pyarrow, if it is installed: a Python process reads the file and writes CSV. The file's contents are not
 * trusted, so a separate process reads it. That process gets only the two files, a pipe for its messages, and names of
 * columns.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "query/lib/column.h"
#include "parquet.h"

#define WHY 200

/*
 * Write the columns named by the arguments, batch by batch. NULL is empty; text is in quotes. If a row group cannot be
 * read or written, find the column that is the reason.
 */
static const char script[] =
	"import sys\n"
	"names = sys.argv[1:]\n"
	"try:\n"
	"    import pyarrow, pyarrow.csv as csv, pyarrow.parquet as parquet\n"
	"except ImportError:\n"
	"    sys.exit('no pyarrow in python3: pip install pyarrow, or give the table as CSV')\n"
	"def write(out, names, groups):\n"
	"    with csv.CSVWriter(out, pyarrow.schema([schema.field(n) for n in names])) as w:\n"
	"        for group in groups:\n"
	"            try:\n"
	"                for batch in f.iter_batches(columns=names, row_groups=[group]):\n"
	"                    w.write_batch(batch.select(names))\n"
	"            except Exception as e:\n"
	"                if len(names) > 1:\n"
	"                    for n in names:\n"
	"                        write(pyarrow.BufferOutputStream(), [n], [group])\n"
	"                    raise\n"
	"                sys.exit('column %s: %s' % (*names, ' '.join(str(e).split())))\n"
	"try:\n"
	"    try:\n"
	"        f = parquet.ParquetFile(open(0, 'rb'), page_checksum_verification=True)\n"
	"    except TypeError:\n"
	"        sys.exit('pyarrow %s does not check pages of Parquet: pip install a newer one' % pyarrow.__version__)\n"
	"    schema = f.schema_arrow\n"
	"    for n in names:\n"
	"        if schema.names.count(n) != 1:\n"
	"            sys.exit('column %s is not in the file, or there twice' % n)\n"
	"        if pyarrow.types.is_nested(schema.field(n).type):\n"
	"            sys.exit('column %s is %s, which no type of a schema takes' % (n, schema.field(n).type))\n"
	"    out = open(1, 'wb')\n"
	"    write(out, names, range(f.num_row_groups))\n"
	"    out.flush()\n"
	"except Exception as e:\n"
	"    sys.exit(' '.join(str(e).split()))\n";

static int temporary(void)
{
	const char *directory = getenv("TMPDIR");
	int fd = open(directory ? directory : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd >= 0 ? fd : memfd_create("fpisa-parquet", MFD_CLOEXEC);
}

static void child(pid_t parent, int in, int out, int errors, const char *const *columns, int n)
{
	const char *argv[FPISA_COLUMNS_MOST + 6] = {"python3", "-I", "-B", "-c", script};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	signal(SIGPIPE, SIG_DFL);
	/* The descriptors may occupy each other's places. */
	in = fcntl(in, F_DUPFD, 3);
	out = fcntl(out, F_DUPFD, 3);
	errors = fcntl(errors, F_DUPFD, 3);
	if (in < 0 || out < 0 || errors < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(errors, 2) < 0)
		_exit(126);
	closefrom(3);
	memcpy(argv + 5, columns, (size_t)n * sizeof(*columns));
	execvp("python3", (char *const *)argv);
	_exit(127);
}

/* Wait until the process, which writes `out`, has more to say. Return 0, or -errno with the message set. */
static int wait_for_more(const struct parquet_wait *wait, const char *name, int fd, int out)
{
	uint64_t heard = fpisa_now();
	struct stat now;
	off_t size = -1;
	int rc;

	while (!(rc = wait->turn(wait->arg, fd))) {
		if (!fstat(out, &now) && now.st_size != size) {
			size = now.st_size;
			heard = fpisa_now();
		}
		if (wait->timeout_ms && fpisa_now() > heard + wait->timeout_ms * 1000000ull)
			return fpisa_fail(-ETIMEDOUT, "%s: the process that reads Parquet has written nothing in %u ms",
					  name, wait->timeout_ms);
	}
	return rc < 0 ? rc : 0;
}

/*
 * Read the process's messages until it ends, and keep the last WHY bytes. Return 0, or -errno with the message set if
 * the wait was given up.
 */
static int hear(const struct parquet_wait *wait, const char *name, int fd, int out, char why[WHY + 1])
{
	char more[WHY];
	size_t n = 0;
	ssize_t got;
	int err;

	while (!(err = wait_for_more(wait, name, fd, out)) && (got = read(fd, more, sizeof(more))) > 0) {
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
	return err;
}

int parquet_to_csv(int fd, const char *name, const char *const *columns, int n, const struct parquet_wait *wait)
{
	char why[WHY + 1] = "";
	int out = temporary(), end[2], status = 0, err = 0;
	pid_t parent = getpid(), pid;

	if (out < 0)
		return fpisa_fail(-errno, "%s: temporary file: %s; set TMPDIR", name, strerror(errno));
	if (pipe2(end, O_CLOEXEC)) {
		close(out);
		return fpisa_fail(-errno, "%s: %s", name, strerror(errno));
	}
	pid = fork();
	if (!pid)
		child(parent, fd, out, end[1], columns, n);
	close(end[1]);
	if (pid > 0) {
		err = hear(wait, name, end[0], out, why);
		if (err)
			kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(end[0]);
	if (pid > 0 && !err && WIFEXITED(status) && !WEXITSTATUS(status))
		return out;
	close(out);
	if (err)
		return err;
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return fpisa_fail(-ENOENT,
				  "%s: reading Parquet needs python3; install it with pyarrow, or give the "
				  "table as CSV",
				  name);
	return fpisa_fail(-EINVAL, "%s: %s", name, *why ? why : "the process that reads Parquet was killed");
}
