/* SPDX-License-Identifier: GPL-2.0-only */
/* Define macros that cppcheck cannot expand: it does not read system headers, and their uses do not parse as C. */
#define LIBBPF_OPTS(type, name, ...) struct type name = {0, ##__VA_ARGS__}
#define TAILQ_FOREACH(var, head, field) for ((var) = (head)->tqh_first; (var); (var) = (var)->field.tqe_next)
#define bpf_object__for_each_program(pos, o) while (((pos) = bpf_object__next_program((o), (pos))))
#define bpf_object__for_each_map(pos, o) while (((pos) = bpf_object__next_map((o), (pos))))
#define TAILQ_FOREACH_REVERSE(var, head, headname, field) for ((var) = last_of(head); (var); (var) = before(var))
