// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pictures of `fpisa analyze`. gnuplot reads a script with the data from its standard input.
 * There is a panel for each input, and a file for each of:
 *
 * 	PREFIX-ratio	figure 7 of the paper, share of the elements by max/min
 * 	PREFIX-error	figure 8 of the paper, share of the elements by |error|, with a line for each mode
 * 	PREFIX-source	section 5.2.1 of the paper, share of the error by source, with a bar for each mode
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyze.h"
#include "cli/names.h"
#include "cli/report.h"

#define PANEL_WIDTH 480
#define PANEL_HEIGHT 360

static const char *const pictures[] = {"ratio", "error", "source"};
static const char *const kinds[] = {"svg", "png"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct plot {
	FILE *script;
	const struct analyze_input *in;
	const struct analyze_figures *g;
	uint32_t inputs;
};

/* The buckets to draw are first to end - 1. */
struct span {
	int first, end;
};

/* -- the script --------------------------------------------------------- */

/* Write a gnuplot string literal without special characters. */
static void quote(FILE *f, const char *s)
{
	fputc('\'', f);
	for (; *s; s++) {
		fputc(*s, f);
		if (*s == '\'')
			fputc('\'', f);
	}
	fputc('\'', f);
}

static double percent(double n, double of)
{
	return of > 0 ? 100 * n / of : 0;
}

/* Extend the span to all nonzero buckets of a histogram. */
static void widen(struct span *s, const uint64_t *count, int n)
{
	for (int k = 0; k < n; k++) {
		if (!count[k])
			continue;
		s->first = k < s->first ? k : s->first;
		s->end = k >= s->end ? k + 1 : s->end;
	}
}

/* Return the top of the vertical axis for a histogram, but at least `top`. */
static double top_of(double top, const uint64_t *count, int n, uint64_t of)
{
	for (int k = 0; k < n; k++)
		top = fmax(top, 1.05 * percent(count[k], of));
	return top;
}

/* Write a data block with the share of each bucket. */
static void write_histogram(FILE *f, const char *name, int index, const uint64_t *count, struct span s, int offset,
			    uint64_t of)
{
	fprintf(f, "$%s%d <<EOD\n", name, index);
	for (int k = s.first; k < s.end; k++)
		fprintf(f, "%d %.9g\n", k + offset, percent(count[k], of));
	fprintf(f, "EOD\n");
}

static void begin_panel(const struct plot *p, uint32_t i, const char *x, const char *y)
{
	fprintf(p->script, "set title ");
	quote(p->script, p->in[i].name);
	fprintf(p->script, " noenhanced\nset xlabel '%s'\nset ylabel '%s'\n", x, y);
}

static void draw_ratio(const struct plot *p, uint32_t i)
{
	const struct analyze_figures *g = &p->g[i];
	struct span s = {0, ANALYZE_HEADROOM + 1};

	widen(&s, g->octaves, ANALYZE_OCTAVES);
	write_histogram(p->script, "ratio", 0, g->octaves, s, 0, g->nonzero);
	begin_panel(p, i, "max/min of an element", "elements, %");
	fprintf(p->script,
		"set xrange [%d:%d]\nset yrange [0:%.3g]\nset xtics autofreq format '2^{%%g}'\n"
		"set arrow 1 from %d, graph 0 to %d, graph 1 nohead front dashtype 2\n"
		"plot $ratio0 using ($1+0.5):2:(1) with boxes title '%.1f%% below 2^%d'\n"
		"unset arrow 1\n",
		s.first, s.end, top_of(1, g->octaves, ANALYZE_OCTAVES, g->nonzero), ANALYZE_HEADROOM, ANALYZE_HEADROOM,
		percent(analyze_below(g, ANALYZE_HEADROOM), g->nonzero), ANALYZE_HEADROOM);
}

static void draw_error(const struct plot *p, uint32_t i)
{
	const struct analyze_figures *g = &p->g[i];
	struct span s = {ANALYZE_DECADES, 0};
	double top = 1;

	for (int m = 0; m < g->modes; m++) {
		widen(&s, g->mode[m].decades, ANALYZE_DECADES);
		top = top_of(top, g->mode[m].decades, ANALYZE_DECADES, p->in[i].elements);
	}
	/* If all sums are exact, show the range of errors in the paper's figure. */
	if (s.first >= s.end)
		s = (struct span){-10 - ANALYZE_FIRST_DECADE, -8 - ANALYZE_FIRST_DECADE};
	for (int m = 0; m < g->modes; m++)
		write_histogram(p->script, "error", m, g->mode[m].decades, s, ANALYZE_FIRST_DECADE, p->in[i].elements);
	begin_panel(p, i, "|error| of a sum", "elements, %");
	fprintf(p->script, "set xrange [%d:%d]\nset yrange [0:%.3g]\nset xtics autofreq format '10^{%%g}'\nplot ",
		s.first + ANALYZE_FIRST_DECADE, s.end + ANALYZE_FIRST_DECADE, top);
	for (int m = 0; m < g->modes; m++)
		fprintf(p->script, "%s$error%d using ($1+0.5):2 with linespoints title '%s, %.1f%% without'",
			m ? ", " : "", m, name_of(mode_names, g->mode[m].job.mode),
			percent(g->mode[m].zero, p->in[i].elements));
	fprintf(p->script, "\n");
}

static void draw_source(const struct plot *p, uint32_t i)
{
	const struct analyze_figures *g = &p->g[i];

	fprintf(p->script, "$source0 <<EOD\n");
	for (int m = 0; m < g->modes; m++) {
		double all = 0;

		for (int k = 0; k < ANALYZE_SOURCES; k++)
			all += g->mode[m].source[k];
		fprintf(p->script, "%s", name_of(mode_names, g->mode[m].job.mode));
		for (int k = 0; k < ANALYZE_SOURCES; k++)
			fprintf(p->script, " %.9g", percent(g->mode[m].source[k], all));
		fprintf(p->script, "\n");
	}
	fprintf(p->script, "EOD\n");
	begin_panel(p, i, "mode", "of the error, %");
	fprintf(p->script,
		"set xrange [-0.6:%d-0.4]\nset yrange [0:100]\n"
		"set style histogram rowstacked\nset boxwidth 0.6\nplot ",
		g->modes);
	for (int k = 0; k < ANALYZE_SOURCES; k++)
		fprintf(p->script, "%s$source0 using %d:xtic(1) with histograms title '%s'", k ? ", " : "", k + 2,
			analyze_source_names[k]);
	fprintf(p->script, "\n");
}

static void write_picture(const struct plot *p, const char *picture, const char *kind, const char *path)
{
	static void (*const draw[])(const struct plot *, uint32_t) = {draw_ratio, draw_error, draw_source};
	FILE *f = p->script;

	fprintf(f, "reset\nset terminal %s size %u, %d\nset output ", strcmp(kind, "png") ? kind : "pngcairo",
		PANEL_WIDTH * p->inputs, PANEL_HEIGHT);
	quote(f, path);
	fprintf(f,
		"\nset style fill solid 0.6\nset key outside bottom center horizontal\nset multiplot layout "
		"1, %u\n",
		p->inputs);
	for (uint32_t i = 0; i < p->inputs; i++)
		for (size_t k = 0; k < COUNT(pictures); k++)
			if (!strcmp(picture, pictures[k]))
				draw[k](p, i);
	fprintf(f, "unset multiplot\nunset output\n");
}

/* -- gnuplot ------------------------------------------------------------ */

/* Run gnuplot with `input` as its standard input. If `input` is NULL, only check that gnuplot exists. */
static int run_gnuplot(FILE *input)
{
	char *const version[] = {"gnuplot", "--version", NULL}, *const script[] = {"gnuplot", NULL};
	posix_spawn_file_actions_t actions;
	int status, err;
	pid_t pid;

	err = -posix_spawn_file_actions_init(&actions);
	if (err)
		return fail(err, NULL, "gnuplot: cannot start");
	if (input)
		err = -posix_spawn_file_actions_adddup2(&actions, fileno(input), STDIN_FILENO);
	if (!err)
		err = -posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (!err)
		err = -posix_spawnp(&pid, "gnuplot", &actions, NULL, input ? script : version, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err)
		return fail(err, err == -ENOENT ? "install gnuplot-nox" : NULL, "gnuplot: cannot start");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return fail(-errno, NULL, "gnuplot: cannot wait for the process");
	if (status)
		return refuse(-EIO, "gnuplot failed; see its message above, or leave --plot out");
	return 0;
}

static void path_of(const struct analyze_options *o, size_t picture, size_t kind, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s-%s.%s", o->plot, pictures[picture], kinds[kind]);
}

int analyze_plot_check(const struct analyze_options *o)
{
	char path[PATH_MAX], *slash;

	if (strlen(o->plot) > PATH_MAX - 32 || strpbrk(o->plot, "\n\r"))
		return refuse(-EINVAL, "--plot: the prefix is too long or contains a line break; give another prefix");
	strcpy(path, o->plot);
	slash = strrchr(path, '/');
	if (slash)
		slash[1] = 0;
	else
		strcpy(path, ".");
	if (access(path, W_OK | X_OK))
		return fail(-errno, "give --plot a directory that can be written", "%s", path);
	return run_gnuplot(NULL);
}

int analyze_plot(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		 uint32_t inputs)
{
	struct plot p = {.script = tmpfile(), .in = in, .g = g, .inputs = inputs};
	char path[PATH_MAX];
	int err;

	if (!p.script)
		return fail(-errno, "make room in /tmp", "gnuplot: cannot create its script");
	for (size_t k = 0; k < COUNT(pictures); k++)
		for (size_t i = 0; i < COUNT(kinds); i++) {
			path_of(o, k, i, path);
			write_picture(&p, pictures[k], kinds[i], path);
		}
	if (fflush(p.script) || ferror(p.script))
		err = fail(-errno, NULL, "gnuplot: cannot write its script");
	else if (lseek(fileno(p.script), 0, SEEK_SET) < 0)
		err = fail(-errno, NULL, "gnuplot: cannot read its script");
	else
		err = run_gnuplot(p.script);
	fclose(p.script);
	return err;
}
