// SPDX-License-Identifier: GPL-2.0-only
/* The verbs of a program; cli/verb.h has the contracts. */
#define _GNU_SOURCE /* environ */
#include "verb.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "print.h"
#include "report.h"

/* -- other programs -------------------------------------------------------- */

/* Find a program. Return 0 with its path, -ENOENT, or another -errno if this program's own directory is unknown. */
static int find_program(const char *name, char path[PATH_MAX])
{
	static const char *const places[] = {"", "../libexec/fpisa/", "../../sbin/"};
	char here[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);

	if (n < 0)
		return -errno;
	here[n] = 0;
	*(strrchr(here, '/') + 1) = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (snprintf(path, PATH_MAX, "%s%s%s", here, places[i], name) >= PATH_MAX)
			return -ENAMETOOLONG;
		if (!access(path, F_OK))
			return 0;
	}
	return -ENOENT;
}

int program_path(const char *name, char path[PATH_MAX])
{
	int err = find_program(name, path);

	if (err == -ENOENT)
		return refuse(err, "the program %s is not installed; install the package %s", name, name);
	return err ? fail(err, NULL, "%s", name) : 0;
}

static const struct program *program_of(const struct verbs *v, const char *word)
{
	for (size_t i = 0; i < v->programs; i++)
		if (!strcmp(v->program[i].word, word))
			return &v->program[i];
	return NULL;
}

/* Execute that program, with the words after argv[0] as arguments. Return only if this fails. */
static int become(const struct program *p, char **argv)
{
	char path[PATH_MAX];
	int err = find_program(p->name, path);

	if (err == -ENOENT)
		return refuse(err, "%s is a verb of the program %s, which is not installed; install the package %s",
			      p->word, p->name, p->name);
	if (err)
		return fail(err, NULL, "%s", p->name);
	argv[0] = (char *)p->name;
	execv(path, argv);
	return fail(-errno, NULL, "%s", path);
}

/* List that program's verbs, one in each line, if the program is installed. */
static void list_of(FILE *f, const char *name)
{
	char *argv[] = {(char *)name, (char *)"help", (char *)"--list", NULL};
	posix_spawn_file_actions_t actions;
	char path[PATH_MAX];
	pid_t pid;

	fflush(f);
	if (ferror(f) || find_program(name, path) || posix_spawn_file_actions_init(&actions))
		return;
	posix_spawn_file_actions_adddup2(&actions, fileno(f), STDOUT_FILENO);
	if (!posix_spawn(&pid, path, &actions, NULL, argv, environ))
		waitpid(pid, NULL, 0);
	posix_spawn_file_actions_destroy(&actions);
}

/* -- the table --------------------------------------------------------------- */

static bool is_here(const struct verb *v)
{
	return !v->is_here || v->is_here();
}

/* Return the number of argv's words that are the verb's name, or 0 if they name another verb. */
static int match(const struct verb *v, int argc, char **argv)
{
	const char *space = strchr(v->name, ' ');
	size_t first = space ? (size_t)(space - v->name) : strlen(v->name);

	if (argc < 1 || strlen(argv[0]) != first || strncmp(argv[0], v->name, first))
		return 0;
	if (!space)
		return 1;
	return argc > 1 && !strcmp(argv[1], space + 1) ? 2 : 0;
}

/* Return whether `word` is the first of the verb's two words. */
static bool in_group(const struct verb *v, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(v->name, word, n) && v->name[n] == ' ' && is_here(v);
}

static bool has_group(const struct verbs *v, const char *word)
{
	for (size_t i = 0; i < v->n; i++)
		if (in_group(&v->verb[i], word))
			return true;
	return false;
}

static const struct verb *find(const struct verbs *v, int argc, char **argv, int *words)
{
	for (size_t i = 0; i < v->n; i++) {
		*words = match(&v->verb[i], argc, argv);
		if (*words && is_here(&v->verb[i]))
			return &v->verb[i];
	}
	*words = 0;
	return NULL;
}

/* -- help -------------------------------------------------------------------- */

static void usage(FILE *f, const struct verb *v)
{
	fprintf(f, "usage: fpisa %s%s%s%s [--verbose]\n", v->name, *v->args ? " " : "", v->args,
		v->unpinned ? "" : " [--pin DIR]");
}

/* List the verbs, one in each line. `group` is the first word of the verbs to list, NULL: all. */
static void list(FILE *f, const struct verbs *v, const char *group)
{
	for (size_t i = 0; i < v->n; i++)
		if (is_here(&v->verb[i]) && (!group || !strncmp(v->verb[i].name, group, strlen(group))))
			fprintf(f, "  %-12s  %s\n", v->verb[i].name, v->verb[i].help);
}

static void help(FILE *f, const struct verbs *v, const char *group)
{
	fprintf(f, "usage: fpisa VERB ...; fpisa help VERB; fpisa --version\n");
	list(f, v, group);
	for (size_t i = 0; !group && i < v->programs; i++)
		if (!i || strcmp(v->program[i].name, v->program[i - 1].name))
			list_of(f, v->program[i].name);
}

/* Refuse an unknown verb in one line; name the verbs that share its first word. */
static int refuse_verb(const struct verbs *v, int argc, char **argv)
{
	char known[256] = "";
	size_t n = 0, left = 0;

	for (size_t i = 0; i < v->n; i++)
		left += in_group(&v->verb[i], argv[0]);
	for (size_t i = 0; i < v->n; i++)
		if (in_group(&v->verb[i], argv[0]) && n < sizeof(known))
			n += snprintf(known + n, sizeof(known) - n, "%s%s", v->verb[i].name,
				      !--left	? "" :
				      left == 1 ? " and " :
						  ", ");
	return refuse(BAD_USAGE,
		      n ? "'%s%s%s' is not a verb; the verbs are %s" :
			  "'%s%s%s' is not a verb; fpisa help lists the verbs",
		      argv[0], argc > 1 ? " " : "", argc > 1 ? argv[1] : "", known);
}

static int help_all(const struct verbs *v)
{
	help(stdout, v, NULL);
	fputs("Options of every verb:\n"
	      "  --pin DIR   directory of the datapath's pinned maps; default $FPISA_PIN, then\n"
	      "              /sys/fs/bpf/fpisa, then the directory where ip link pins. demo, soak, query\n"
	      "              worker and query run do not take it\n"
	      "  --verbose   show what libbpf and the verifier print\n"
	      "  -h, --help  print the help of the verb\n"
	      "  -V, --version  print the version\n"
	      "With --json, a verb that changes something prints one object, {\"done\": VERB, ...}, with its input and what it\n"
	      "created. A verb that fails prints no object.\n",
	      stdout);
	return 0;
}

static int help_verb(const struct verbs *v, int argc, char **argv)
{
	const struct verb *verb;
	int words;

	verb = find(v, argc, argv, &words);
	if (!verb && argc == 1 && has_group(v, argv[0])) {
		help(stdout, v, argv[0]);
		return 0;
	}
	if (!verb || argc > words)
		return refuse_verb(v, argc, argv);
	printf("%s: %s\n", verb->name, verb->help);
	usage(stdout, verb);
	if (verb->options)
		verb->options();
	if (verb->more)
		fputs(verb->more, stdout);
	return 0;
}

/* Run `fpisa help ...`. argv[-1] is "help", and another program's argv begins before that. */
static int help_of(const struct verbs *v, int argc, char **argv)
{
	const struct program *p = argc ? program_of(v, argv[0]) : NULL;

	if (p)
		return become(p, argv - 2);
	if (argc == 1 && !strcmp(argv[0], "--list")) {
		list(stdout, v, NULL);
		return 0;
	}
	return argc ? help_verb(v, argc, argv) : help_all(v);
}

/* -- dispatch ---------------------------------------------------------------- */

/* More descriptors than a verb has open at a time. Verbs that load programs or serve check further needs themselves. */
#define DESCRIPTORS 100

/*
 * Check the limit of descriptors. Without a free descriptor, an existing pin or interface could not be examined, and
 * would be taken for missing.
 */
static int check_descriptors(void)
{
	struct rlimit files;
	int fd[DESCRIPTORS], n = 0, err = 0;

	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < 2 * DESCRIPTORS) {
		files.rlim_cur = files.rlim_max < 2 * DESCRIPTORS ? files.rlim_max : 2 * DESCRIPTORS;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	while (n < DESCRIPTORS && (fd[n] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	if (n < DESCRIPTORS && (errno == EMFILE || errno == ENFILE))
		err = refuse(-errno, "cannot open %d descriptors: %s; raise the limit, ulimit -n 1024", DESCRIPTORS,
			     strerror(errno));
	while (n--)
		close(fd[n]);
	return err;
}

/* Run the verb; `argv` are the words after the program's own. */
static int run(const struct verbs *v, int argc, char **argv)
{
	const struct program *p = argc ? program_of(v, argv[0]) : NULL;
	const struct verb *verb;
	int words, err;

	if (argc < 1) {
		help(stderr, v, NULL);
		return BAD_USAGE;
	}
	if (p)
		return become(p, argv - 1);
	if (!strcmp(argv[0], "help"))
		return help_of(v, argc - 1, argv + 1);
	verb = find(v, argc, argv, &words);
	if (!verb)
		words = has_group(v, argv[0]);
	for (int i = words; (verb || i == words) && i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return words ? help_verb(v, words, argv) : help_all(v);
		if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-V")) {
			puts("fpisa " FPISA_VERSION_STRING);
			return 0;
		}
	}
	if (!verb && (argc > 1 || !words))
		return refuse_verb(v, argc, argv);
	if (!verb) {
		help(stderr, v, argv[0]);
		return BAD_USAGE;
	}
	/* getopt_long() names argv[0] in its error messages. */
	argv[words - 1] = (char *)"fpisa";
	err = check_descriptors() ?: verb->run(argc - words + 1, argv + words - 1);
	if (err == BAD_USAGE)
		usage(stderr, verb);
	return err;
}

/*
 * Open the standard descriptors that are closed. Otherwise the next opened file, perhaps a socket, would get their
 * number and the output.
 */
static void hold_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
}

int verbs_main(const struct verbs *v, int argc, char **argv)
{
	int err, lost;

	hold_standard_descriptors();
	err = run(v, argc - 1, argv + 1);
	lost = flush_stdout("stdout");
	return err == BAD_USAGE ? 2 : err || lost ? 1 : 0;
}
