# SPDX-License-Identifier: GPL-2.0-only
# make		build the datapath objects, the CLI and the library; run `make deps` once before
# make demo	install what is missing, build, and sum real gradients over real XDP;
#		DEMO_ARGS=--colocated: on four hosts without a further machine
# make test	install what is missing, build, and run every test that this machine can run
# make check	run the tests without installing anything; SUITES="unit model prog" selects suites of tests/run
# make test-long	run the tests that are too long for `make test`, two hours: bits, combinations, kernels
# make lint	check the order of the rooms of user/, and run cppcheck over user space, library and tests
# make coverage	report the lines that the unit tests run, by room
# make format	lay out C as .clang-format says; `make lint-tools` installs the version that this needs
# make stress	use the same slots from two CPUs, ROUNDS=1000000 of each variant, or of VARIANT=staged
# make fuzz	send hostile packets to the loaded datapath, CASES=10000000 SEED=S
# make fuzz-user	run libFuzzer on the parsers of user space, SECONDS=600 each, SEED=S
# make bench	measure speed beside other systems; results, plots and targets in build/bench; BENCH="arith wire" selects parts
# make bench-figures	measure README's figures: three runs on an idle machine, 9 minutes; make pictures draws them
# make training	train neural networks with five ways to add gradients, one seed, 25 minutes at most; make training-long runs ten seeds
# make training-page	write doc/training.md's tables and plots from paper/training/records; make training-again, -network and -cost measure the records
# make check-vm	run the tests under stock kernels in a VM; KERNEL="6.1 6.12" selects kernels; make vm-deps installs the tools
# make hw	check the pipeline in RTL against include/fpisa/mau.h, and prove properties; HW_MUTATE=1 plants faults
# make hw-area	measure the cost of that RTL in standard cells: the tables of doc/hardware.md; UPDATE=1 writes them
# make resources	write verifier instructions by program and memory by map to doc/resources.txt
# make interfaces	write the public interfaces, by version, to doc/interfaces.txt; edit NEWS.md first
# make release	is this tree ready for its tag? then the command that makes the tag (DEVELOPING.md, "Versions")
# make postgres	build the extension for PostgreSQL 15 to 18 (doc/postgres.md); make install-postgres installs it where pg_config says
# make torch	build the backend "fpisa" of torch.distributed in build/torch (doc/torch.md); make install-torch. TORCH=2.15.0: for that version
# make wheels	build the wheels of the package for Python, with libfpisa inside, and of that backend for TORCH=2.15.0, in build/wheel
# make python	build the exact sums of the package for Python (doc/sums.md); make wheel builds its wheel; make install-python
# make spark	build a jar with exact sums as Aggregators of Spark (doc/sums.md); needs javac and SPARK_HOME=
# make doors	install the engines of PyPI that some benchmarks compare with into build/doors
# make mpi	build the library that MPI programs preload (doc/mpi.md), for Open MPI and MPICH if installed; make install-mpi
# make man	write the manual pages and the completion to build/man and build/completion: man -l build/man/fpisa.8
# make install	install to DESTDIR= PREFIX=/usr/local; make uninstall removes it
# make deb	build Debian packages in build/deb, with those for PostgreSQL, PyTorch and MPI if their make targets work; DEB_ARCH=arm64
# make rpm	build the same as RPM packages in build/rpm, without those three
# make image	build container images of an aggregator and a worker from the packages (doc/deploy.md)
# make arm64	build everything for arm64 in build/arm64, with SYSROOT=build/vm/arm64/root, which vm/sysroot creates
# make clean	remove build/

# Compilers in order of preference. clang-19 comes first: every kernel of vm/kernels verifies its programs.
CLANGS := 19 20 21 22 18 17 16 15 14
OLD_CLANGS := 14 15 16 17 18 19 20 21 22
POSTGRESQLS := 18 17 16 15
installed_clang = $(shell for v in $(1); do command -v clang-$$v && break; done)
BPF_CLANG ?= $(or $(notdir $(call installed_clang,$(CLANGS))),clang)
# This older compiler also builds the datapath for tests, and provides libFuzzer.
OLD_CLANG ?= $(notdir $(call installed_clang,$(OLD_CLANGS)))
# The installed PostgreSQL, with or without the headers of its server.
pg_here = $(strip $(foreach v,$(POSTGRESQLS),$(if $(wildcard /usr/$(subst N,$v,$(1))),$v)))
PG_VERSION ?= $(firstword $(call pg_here,include/postgresql/N/server/postgres.h) $(call pg_here,lib/postgresql/N/bin/postgres))
# bpftool is not in the path if its package is for another kernel than the running one.
BPFTOOL ?= $(or $(shell bpftool version > /dev/null 2>&1 && echo bpftool),$(lastword $(sort $(wildcard /usr/lib/linux-tools*/*/bpftool))),bpftool)
CC ?= gcc
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
B ?= build
# Use one name for the build directory, because make compares dependencies by name.
override B := $(patsubst $(CURDIR)/%,%,$(B))

VERSION := 0.3.0
SOVERSION := 1

WARN := -Wall -Wextra -Werror=implicit-function-declaration -Wshadow -Wstrict-prototypes -Wno-missing-field-initializers
CFLAGS ?= -O2 -g
ALL_CFLAGS := -std=gnu11 $(WARN) $(CFLAGS) -Iinclude -Iuser -I$(B) -DFPISA_VERSION_STRING='"$(VERSION)"'
# Objects name their sources from the top of the tree, so they are the same wherever they are built.
BPF_CFLAGS := -std=gnu11 $(WARN) -g -O2 -ffile-compilation-dir=. -target bpf -mcpu=v3 -Iinclude -I$(B) -I/usr/include/$(shell uname -m)-linux-gnu
DEP = -MMD -MP -MF $@.d

Q := $(if $(V),,@)
say = @printf '  %-6s %s\n' $(1) $(2)
ifneq ($(V),)
say = @:
endif

LIB_SRC := $(wildcard user/lib/*.c user/lib/*/*.c)
QUERY_LIB_SRC := $(wildcard user/query/lib/*.c user/query/soft/*.c)
# Three programs: the core, which does not use the others, and two that use the core.
CORE_SRC := $(filter-out user/lib/%,$(wildcard user/*.c user/*/*.c))
QUERY_SRC := $(filter-out $(QUERY_LIB_SRC),$(wildcard user/query/*.c user/query/*/*.c))
LAB_SRC := $(wildcard user/lab/*.c user/lab/*/*.c)
CORE_SRC := $(filter-out $(QUERY_SRC) $(LAB_SRC),$(CORE_SRC))
CLI_SRC := $(CORE_SRC) $(QUERY_SRC) $(LAB_SRC)
UNIT_SRC := $(wildcard tests/unit/test_*.c tests/unit/*/test_*.c)
PROG_SRC := $(wildcard tests/prog/test_*.c tests/prog/*/test_*.c)
ORACLE_SRC := $(wildcard user/lab/oracle/*.c)
SUMS_SRC := $(wildcard adapters/python/sums/*.c)

LIB_OBJ := $(LIB_SRC:%.c=$(B)/obj/%.o)
QUERY_LIB_OBJ := $(QUERY_LIB_SRC:%.c=$(B)/obj/%.o)
LIBS := $(B)/libfpisa $(B)/libfpisa-query
CLI_OBJ := $(CLI_SRC:%.c=$(B)/obj/%.o)
PROGRAMS := $(B)/fpisa $(B)/fpisa-query $(B)/fpisa-lab
UNIT := $(UNIT_SRC:tests/%.c=$(B)/tests/%)
PROG := $(PROG_SRC:tests/%.c=$(B)/tests/%)

# Packages that a fresh Debian lacks, in the syntax of debian/deps. `make deps` installs only the missing ones.
comma := ,
among = $(1)@$(subst $(subst ,, ),$(comma),$(2))
# Needed by `make` and `make demo`
BUILD_PACKAGES := gcc libc6-dev linux-libc-dev $(call among,clang-N,$(CLANGS)) bpftool|linux-tools-generic libbpf-dev libxdp-dev \
	iproute2 util-linux libjson-c-dev libgmp-dev libmnl-dev libelf-dev zlib1g-dev libgnutls28-dev python3
# Needed by the tests and `make deb`
PACKAGES := $(BUILD_PACKAGES) build-essential ?$(call among,clang-N+libclang-rt-N-dev,$(OLD_CLANGS)) ?xdp-tools libcmocka-dev \
	python3-numpy python3-pip python3-pytest python3-setuptools python3-wheel ?python3-prometheus-client pkg-config binutils \
	ethtool locales ?gnuplot-nox ?cppcheck ?shellcheck ?sparse ?clang-format-14 man-db debhelper dh-python dpkg-dev ?lintian ?mmdebstrap ?nftables \
	?python3-yaml ?libpython3-dev
# Needed by guests with other kernels (vm/README.md)
VM_PACKAGES := ?qemu-system-x86 ?busybox-static cpio kmod xz-utils zstd
# Needed by arm64-long: a cross compiler, and emulated processes and machines
ARM_PACKAGES := ?gcc-aarch64-linux-gnu+qemu-user ?qemu-system-arm
# Needed to build and run images
IMAGE_PACKAGES := ?podman ?podman-compose
# Needed to build and test the extension for PostgreSQL (adapters/postgres/rules.mk)
PG_PACKAGES := ?$(call among,postgresql-N+postgresql-server-dev-N,$(or $(PG_VERSION),$(POSTGRESQLS))) ?valgrind
# Needed by the backend for PyTorch (adapters/torch/rules.mk)
TORCH_PACKAGES := ?python3-torch+libtorch-dev+pybind11-dev+python3-dev
# Needed to build and test the MPI adapter (adapters/mpi/rules.mk)
MPI_PACKAGES := ?openmpi-bin+libopenmpi-dev ?mpich+libmpich-dev ?gfortran
# Programs of other projects that mpi-long runs with the MPI adapter
MPI_PROGRAMS := ?lammps ?quantum-espresso+quantum-espresso-data ?python3-mpi4py
# Needed by the suite doors to run Spark, to build its jar (adapters/spark/rules.mk), and for its JDBC. The engines come from PyPI.
DOORS_PACKAGES := ?default-jdk-headless ?libpostgresql-jdbc-java python3-venv

.PHONY: all
all: $(B)/fpisa.o $(B)/fpisa_egress.o $(PROGRAMS) $(LIBS:=.so) $(LIBS:=.a)

# -- datapath -------------------------------------------------------------

# Build the stamp of the maps' layout first: every object contains it.
$(B)/abi.o: bpf/abi.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(BPF_CLANG) $(BPF_CFLAGS) $(DEP) -MT $@ -c $< -o $@

$(B)/fpisa_abi.h: $(B)/abi.o bpf/abi.py
	$(call say,ABI,$@)
	$(Q)$(BPFTOOL) -j btf dump file $< | $(PYTHON) -B bpf/abi.py > $@

$(B)/%.o: bpf/%.bpf.c $(B)/fpisa_abi.h
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(BPF_CLANG) $(BPF_CFLAGS) $(DEP) -MT $@ -c $< -o $@

# Further families, as include/fpisa/job.h lists them: X(number, name, lane bytes, register bits, limbs of mode exact).
FAMILIES := $(shell sed -n 's/^\tX.[0-9]*, \(w[^,]*\),.*/\1/p' include/fpisa/job.h)
FAMILY_OBJ := $(FAMILIES:%=$(B)/fpisa_%.o)
family_flags = $(shell sed -n 's/^\tX.[0-9]*, $(1), \([0-9]*\), \([0-9]*\), \([0-9]*\).*/-DFAMILY_BYTES=\1 -DFAMILY_RBITS=\2 \
	-DFAMILY_LIMBS=\3/p' include/fpisa/job.h)
$(FAMILY_OBJ): $(B)/fpisa_%.o: bpf/family.bpf.c $(B)/fpisa_abi.h
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(BPF_CLANG) $(BPF_CFLAGS) $(call family_flags,$*) $(DEP) -MT $@ -c $< -o $@

# The programs of queries, and those of the laboratory.
QUERY_OBJ := $(patsubst bpf/query/%.bpf.c,$(B)/fpisa_%.o,$(wildcard bpf/query/*.bpf.c))
LAB_OBJ := $(patsubst bpf/lab/%.bpf.c,$(B)/fpisa_%.o,$(wildcard bpf/lab/*.bpf.c))
$(QUERY_OBJ): $(B)/fpisa_%.o: bpf/query/%.bpf.c $(B)/fpisa_abi.h
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(BPF_CLANG) $(BPF_CFLAGS) $(DEP) -MT $@ -c $< -o $@

$(LAB_OBJ): $(B)/fpisa_%.o: bpf/lab/%.bpf.c $(B)/fpisa_abi.h
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(BPF_CLANG) $(BPF_CFLAGS) $(DEP) -MT $@ -c $< -o $@

# The programs that `fpisa bench` compares the datapath with, also built by an older compiler if there is one.
BENCH_CLANG ?= $(or $(OLD_CLANG),$(BPF_CLANG))
$(B)/fpisa_bench_old.o: bpf/lab/bench.bpf.c $(B)/fpisa_abi.h
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(BENCH_CLANG) $(BPF_CFLAGS) $(DEP) -MT $@ -c $< -o $@

$(B)/%.skel.h: $(B)/%.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

$(B)/families.skel.h: $(FAMILY_OBJ:.o=.skel.h)
	$(Q)printf '#include "%s"\n' $(^F) > $@

SKEL := $(B)/fpisa.skel.h $(B)/fpisa_egress.skel.h $(B)/fpisa_steer.skel.h $(B)/fpisa_tables.skel.h $(B)/fpisa_bench.skel.h \
	$(B)/fpisa_bench_old.skel.h $(B)/families.skel.h $(QUERY_OBJ:.o=.skel.h)

# -- library --------------------------------------------------------------

$(LIB_OBJ) $(QUERY_LIB_OBJ): $(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(DEP) -fPIC -fvisibility=hidden -c $< -o $@

$(B)/libfpisa.a: $(LIB_OBJ)
$(B)/libfpisa-query.a: $(QUERY_LIB_OBJ)
$(LIBS:=.a):
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# The library's name and the version that the CLI prints follow VERSION above.
$(LIBS:=.so) $(B)/obj/user/cli/verb.o: Makefile
# libfpisa-query contains hidden copies of its parts of libfpisa, so a program may use any versions of both.
$(B)/libfpisa.so: $(LIB_OBJ) user/lib/libfpisa.map
$(B)/libfpisa-query.so: $(QUERY_LIB_OBJ) $(B)/libfpisa.a user/query/lib/libfpisa-query.map
$(LIBS:=.so):
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(CFLAGS) $(LDFLAGS) -Wl,-soname,$(@F).$(SOVERSION) -Wl,-z,defs -Wl,--exclude-libs,ALL \
		-Wl,-z,nodelete -Wl,--version-script,$(filter %.map,$^) $(filter %.o,$^) $(filter %.a,$^) -lpthread -lm -o $@.$(VERSION)
	$(Q)ln -sf $(@F).$(VERSION) $@.$(SOVERSION) && ln -sf $(@F).$(SOVERSION) $@

# -- CLI ------------------------------------------------------------------

# Build all skeletons first. The dependency files say which of them a file includes.
$(B)/obj/user/%.o: user/%.c | $(SKEL)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(DEP) -c $< -o $@

CLI_LIBS := -lbpf -lmnl -ljson-c -lgmp -lpthread -lm
$(B)/obj/core.a: $(filter-out %/main.o,$(CORE_SRC:%.c=$(B)/obj/%.o))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/fpisa: $(B)/obj/user/main.o
$(B)/fpisa-query: $(QUERY_SRC:%.c=$(B)/obj/%.o) $(B)/libfpisa-query.a
$(B)/fpisa-query: CLI_LIBS += -lz
$(B)/fpisa-lab: $(LAB_SRC:%.c=$(B)/obj/%.o)
$(PROGRAMS): $(B)/obj/core.a $(B)/libfpisa.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter-out %/libfpisa.a,$(filter %.a,$^)) $(B)/libfpisa.a $(CLI_LIBS) -o $@

# -- tests ----------------------------------------------------------------

SAN ?= -fsanitize=address,undefined -fno-sanitize-recover=all
TEST_CFLAGS := -std=gnu11 $(WARN) -g -O1 -Iinclude -Iuser -Itests -Itests/prog -I$(B)

# Compile the tests' shared code once for each kind: san, with sanitizers, for unit tests; tsan, for threads; chk, plain.
$(B)/san/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(TEST_CFLAGS) $(SAN) $(DEP) -c $< -o $@

$(B)/tsan/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(TEST_CFLAGS) -O2 -fsanitize=thread $(DEP) -c $< -o $@

$(B)/chk/%.o: %.c | $(SKEL)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(TEST_CFLAGS) $(DEP) -c $< -o $@

UNIT_COMMON := tests/vectors.c $(ORACLE_SRC) user/lab/tables/entries.c $(LIB_SRC) $(QUERY_LIB_SRC)
$(UNIT): $(B)/tests/unit/%: $(B)/san/tests/unit/%.o $(UNIT_COMMON:%.c=$(B)/san/%.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN) $^ -lcmocka -lgmp -lpthread -lm -o $@

$(B)/tests/unit/test_privilege: $(B)/san/user/host/privilege.o
$(B)/tests/unit/test_calls: $(patsubst %,$(B)/san/%.o,tests/cases user/cli/names user/cli/progress user/cli/report)
$(B)/tests/unit/test_membership $(B)/tests/unit/test_many_ranks: $(patsubst %.c,$(B)/san/%.o,$(wildcard user/manager/*.c) user/plan/shares.c $(addprefix user/cli/,names.c options.c progress.c report.c))
$(B)/tests/unit/test_leaves: $(B)/san/user/manager/leaves.o
$(B)/tests/unit/test_waiting_ranks: $(B)/san/user/manager/calls.o
$(B)/tests/unit/test_agent: $(B)/san/user/serve/agent_jobs.o
$(B)/tests/unit/test_log: $(patsubst %,$(B)/san/user/cli/%.o,log progress report)
$(B)/tests/unit/query/test_partition: $(patsubst %,$(B)/san/user/query/worker/%.o,schema text partition files hive parquet engine listing identity database)
$(B)/tests/unit/query/test_batch: $(B)/san/user/query/worker/batch.o
$(B)/tests/unit/test_stack: $(patsubst %,$(B)/san/user/%.o,host/kind host/stack job/port)
$(B)/tests/unit/test_links: $(patsubst %,$(B)/san/user/%.o,plan/shares cli/progress cli/report)
$(B)/tests/unit/query/test_sender: $(B)/san/user/query/worker/sender.o
$(B)/tests/unit/query/test_query_values: $(B)/san/user/query/worker/reduction.o
$(B)/tests/unit/test_sums: $(SUMS_SRC:%.c=$(B)/san/%.o)

PROG_COMMON := tests/prog/harness.c tests/vectors.c tests/cases.c user/cli/names.c user/cli/progress.c user/cli/report.c user/lib/base/error.c $(ORACLE_SRC) \
	user/datapath/families.c user/query/datapath/queries.c user/lab/tables/entries.c user/lab/tables/kernel.c user/lib/soft/blocks.c \
	user/query/soft/query.c tests/prog/query/queries.c tests/prog/query/query_oracle.c
$(PROG): $(B)/tests/prog/%: $(B)/chk/tests/prog/%.o $(PROG_COMMON:%.c=$(B)/chk/%.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $^ -lcmocka -lbpf -lgmp -lpthread -lm -o $@

# The library's threads under ThreadSanitizer.
TSAN := $(addprefix $(B)/tests/tsan/,test_mem test_udp test_progress test_schedules)
$(TSAN): $(B)/tests/tsan/%: $(B)/tsan/tests/unit/%.o $(UNIT_COMMON:%.c=$(B)/tsan/%.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -fsanitize=thread $^ -lcmocka -lgmp -lpthread -lm -o $@

# The same for processes that join groups over a network: tests/netns/groups/test_threads.py.
TSAN_LIB := $(B)/tests/tsan/libfpisa.so
TSAN_PIC := $(LIB_SRC:%.c=$(B)/tsan-pic/%.o)
$(TSAN_PIC): $(B)/tsan-pic/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(TEST_CFLAGS) -O2 -fPIC -fsanitize=thread $(DEP) -c $< -o $@

$(TSAN_LIB): $(TSAN_PIC)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -fsanitize=thread $^ -lpthread -lm -o $@

# Two CPUs on the same slots, ROUNDS of each variant.
.PHONY: stress
ROUNDS ?= 1000000
stress: $(B)/tests/prog/test_concurrency
	$(Q)$(if $(VARIANT),FPISA_VARIANT="$(VARIANT)") FPISA_ROUNDS=$$(($(ROUNDS) / 8)) $(B)/tests/prog/test_concurrency

# Check the order of the rooms, and run static analysis. tests/lint/cppcheck lists what is left out and why.
.PHONY: lint
lint: $(CLI_OBJ) $(LIB_OBJ) $(QUERY_LIB_OBJ)
	$(Q)tests/lint/rooms.py $(B) && tests/lint/names.py && tests/lint/run $(B)
	$(Q)for check in format scripts python sparse; do tests/lint/$$check $(B) || test $$? = 77 || exit 1; done

.PHONY: coverage
coverage:
	$(Q)$(MAKE) --no-print-directory B=$(B)/coverage SAN=--coverage coverage-programs
	$(Q)find $(B)/coverage -name '*.gcda' -delete
	$(Q)tests/coverage.py $(B)/coverage $(UNIT:$(B)/%=$(B)/coverage/%)
.PHONY: coverage-programs
coverage-programs: $(UNIT)

.PHONY: format lint-tools
format:
	$(Q)tests/lint/format $(B) --write
lint-tools:
	$(Q)for t in clang-format ruff; do tests/lint/tool $(B) $$t --install || exit 1; done

# Fuzzers (tests/fuzz): the user-space side of each is built with sanitizers.
PACKETS_OWN := tests/fuzz/mutate.c tests/fuzz/headers.c tests/prog/harness.c user/datapath/families.c user/lab/tables/kernel.c
PACKETS_SRC := $(PACKETS_OWN) tests/vectors.c user/lab/tables/entries.c $(LIB_SRC) $(QUERY_LIB_SRC)
PACKETS_packets := tests/fuzz/packets.c tests/fuzz/checker.c tests/fuzz/targets.c
PACKETS_queries := tests/fuzz/queries.c tests/fuzz/query_checker.c tests/prog/query/queries.c user/query/datapath/queries.c
FUZZ := $(B)/tests/fuzz/packets $(B)/tests/fuzz/queries
$(patsubst %.c,$(B)/san/%.o,$(PACKETS_OWN) $(PACKETS_packets) $(PACKETS_queries)): | $(SKEL)
$(B)/tests/fuzz/packets: $(PACKETS_packets:%.c=$(B)/san/%.o)
$(B)/tests/fuzz/queries: $(PACKETS_queries:%.c=$(B)/san/%.o)
$(B)/tests/fuzz/packets $(B)/tests/fuzz/queries: $(PACKETS_SRC:%.c=$(B)/san/%.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN) $(filter %.o,$^) -lbpf -lpthread -lm -o $@

# libFuzzer targets for what user space parses, with their corpora in tests/fuzz/corpus.
FUZZ_CC ?= $(OLD_CLANG)
# Empty if the compiler has no libFuzzer.
LIBFUZZER := $(wildcard $(shell $(or $(FUZZ_CC),:) -print-resource-dir 2>/dev/null)/lib/*/libclang_rt.fuzzer*.a)
FUZZ_USER := $(if $(LIBFUZZER),$(filter-out $(if $(call pg_here,include/postgresql/N/server/postgres.h),,fdw),$(patsubst tests/fuzz/user_%.c,%,$(wildcard tests/fuzz/user_*.c))))
FUZZ += $(FUZZ_USER:%=$(B)/tests/fuzz/user_%)
PARSERS := $(filter-out user/cli/verb.c,$(wildcard user/cli/*.c)) user/lib/base/error.c user/lib/base/utf8.c
FUZZ_worker := $(LIB_SRC)
FUZZ_address := user/lib/address.c user/lib/lookup.c user/lib/base/fork.c user/lib/base/error.c
FUZZ_gradients := $(PARSERS) user/lab/values/gradients.c user/lab/values/npy.c
FUZZ_args := tests/fuzz/stand_ins.c $(PARSERS) user/datapath/names.c $(wildcard user/job/*.c) user/plan/shares.c user/config/load.c user/lab/demo/demo.c user/lab/demo/options.c \
	$(addprefix user/verbs/,job_add.c job_list.c job_show.c job_del.c job_shrink.c load.c unload.c slots.c stats.c counters.c status.c group_view.c prometheus.c upgrade.c) \
	user/lib/manager/protocol.c
FUZZ_partial := adapters/python/sums/state.c
FUZZ_partition := user/query/worker/schema.c user/query/worker/text.c user/query/worker/condition.c user/query/lib/column.c user/query/lib/decimal.c user/lib/base/error.c
FUZZ_CHANNEL := tests/fuzz/channel.c tests/fuzz/input.c $(filter-out user/lib/manager/channel.c,$(LIB_SRC)) $(QUERY_LIB_SRC)
FUZZ_control := tests/fuzz/silent_udp.c $(filter-out user/lib/transport/udp.c,$(FUZZ_CHANNEL)) $(filter-out $(addprefix user/query/worker/,worker.c newcomers.c),$(wildcard user/query/worker/*.c)) $(PARSERS)
FUZZ_master := $(filter-out user/lib/transport/udp.c,$(FUZZ_CHANNEL))
FUZZ_MANAGER := user/lib/manager/protocol.c user/lib/manager/psk.c user/lib/base/error.c
FUZZ_SOCKETS := tests/fuzz/sockets.c tests/fuzz/tls_fake.c tests/fuzz/message.c tests/fuzz/input.c user/lib/manager/channel.c $(FUZZ_MANAGER)
FUZZ_channel := $(FUZZ_SOCKETS)
FUZZ_conn := $(FUZZ_SOCKETS) user/serve/conn.c user/serve/refusals.c user/host/listen.c user/lib/manager/watch.c user/lib/manager/interface.c user/plan/shares.c $(wildcard user/manager/*.c) $(filter-out user/cli/log.c $(FUZZ_SOCKETS),$(PARSERS))
# Fuzzers of the foreign data wrapper, if the server's headers are installed.
FUZZ_fdw := tests/fuzz/input.c adapters/postgres/fdw/values.c adapters/postgres/fdw/query.c
$(patsubst %.c,$(B)/fuzz/%.o,tests/fuzz/user_fdw.c $(filter adapters/%,$(FUZZ_fdw))): FUZZ_CFLAGS = -fno-strict-aliasing -fwrapv \
	-Iadapters/postgres -isystem $(call pg_dir,includedir-server)
FUZZ_helper := tests/fuzz/input.c user/serve/helper_jobs.c user/manager/remote.c user/serve/requests.c user/job/spec.c user/datapath/job_check.c user/manager/policy.c user/datapath/names.c \
	$(filter-out user/cli/log.c user/cli/report.c,$(PARSERS)) $(filter-out user/lib/base/error.c,$(FUZZ_MANAGER))
FUZZ_link := tests/fuzz/handles.c user/lib/messages.c user/lib/manager/protocol.c user/lib/base/error.c
FUZZ_connection := $(FUZZ_SOCKETS) tests/fuzz/handles.c $(addprefix user/lib/,connection.c link.c messages.c address.c lookup.c base/fork.c manager/watch.c)
$(B)/tests/fuzz/user_connection: FUZZ_LDFLAGS = $(addprefix -Wl$(comma)--wrap=,clock_gettime pthread_create pthread_join pthread_mutex_lock \
	pthread_mutex_unlock socket fpisa_find_host fpisa_psk_last fpisa_channel_close fpisa_channel_flush fpisa_channel_send fpisa_channel_work)
FUZZ_config := $(FUZZ_args) user/config/parser.c user/manager/policy.c $(filter-out $(FUZZ_args),$(FUZZ_MANAGER))
FUZZ_manager := $(PARSERS) user/plan/shares.c $(wildcard user/manager/*.c) $(FUZZ_MANAGER)
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all
# Do not trace operands of comparisons, which takes half of the time: targets write well-formed messages themselves.
FUZZ_COVER := -fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp
# Stand-ins are not instrumented. Their copies to and from the code under test are still checked, in the library's functions.
FUZZ_STAND_INS := $(addprefix $(B)/fuzz/tests/fuzz/,$(addsuffix .o,channel handles input message silent_udp sockets tls_fake))
$(FUZZ_STAND_INS): FUZZ_COVER := -fno-sanitize=all -fno-builtin
$(B)/fuzz/%.o: %.c
	@mkdir -p $(@D)
	$(call say,FUZZ,$@)
	$(Q)$(FUZZ_CC) $(TEST_CFLAGS) -Wno-gnu-variable-sized-type-not-at-end -O2 $(FUZZ_SAN) $(FUZZ_COVER) $(FUZZ_CFLAGS) $(DEP) -c $< -o $@

fuzz_objects = $(addprefix $(B)/fuzz/,tests/fuzz/asan.o $(FUZZ_$(1):.c=.o))
.SECONDEXPANSION:
$(B)/tests/fuzz/user_%: $(B)/fuzz/tests/fuzz/user_%.o $$(call fuzz_objects,$$*)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_SAN) -fsanitize=fuzzer $(FUZZ_LDFLAGS) $(filter %.o,$^) -ljson-c -lz -lpthread -lm -o $@

.PHONY: fuzz fuzz-user
CASES ?= 10000000
SECONDS ?= 600
fuzz: $(B)/tests/fuzz/packets $(B)/tests/fuzz/queries
	$(Q)for f in $^; do $$f --cases $(CASES) $(if $(SEED),--seed $(SEED)) || exit 1; done
fuzz-user: $(FUZZ_USER:%=$(B)/tests/fuzz/user_%)
	$(Q)for t in $(FUZZ_USER); do tests/fuzz/run $(B) $$t $(SECONDS) $(SEED) || exit 1; done

# -- measurements -----------------------------------------------------------

.PHONY: bench
# Processes with libfpisa, each in its own network namespace.
$(B)/chk/bench/%.o: TEST_CFLAGS += -O2
$(B)/bench/contenders: $(patsubst %.c,$(B)/chk/%.o,$(filter-out %/vector.c,$(wildcard bench/contenders/*.c))) \
	$(filter-out %/main.o,$(LAB_SRC:%.c=$(B)/obj/%.o)) $(B)/obj/core.a $(B)/libfpisa.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter %.o,$^) $(filter %.a,$^) -lxdp $(CLI_LIBS) -o $@

# SwitchML's arithmetic for bench/training and training/cost_rank.py, through ctypes.
$(B)/bench/libquantise.so: $(addprefix bench/contenders/,vector.c switchml.c vector.h switchml.h)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(TEST_CFLAGS) -O2 -shared -fPIC $(filter %.c,$^) -o $@

# Programs under BPF_PROG_TEST_RUN, as in the tests of queries.
$(B)/bench/query: $(B)/chk/bench/query.o $(PROG_COMMON:%.c=$(B)/chk/%.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $^ -lcmocka -lbpf -lgmp -lpthread -lm -o $@

# The cost of memory for sums by groups, beside bench/sums.py.
$(B)/bench/gather: bench/gather.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -std=gnu11 $(WARN) -O3 $< -o $@

$(B)/bench/endian: paper/endian.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -std=gnu11 $(WARN) -O3 $< -o $@

# Run all parts, or BENCH="arith wire". This installs the other collectives.
BENCH_PACKAGES := openmpi-bin python3-mpi4py python3-torch
BENCH ?= arith endian query pruning wire steer worker collective topology mpi mpi-exact training training-colocated training-exact sum merge
# The targets that a part needs in addition to the programs of build/.
BENCH_endian := $(B)/bench/endian
BENCH_query := $(B)/bench/query
BENCH_wire := $(B)/bench/contenders
BENCH_worker := $(B)/bench/contenders
BENCH_mpi := mpi
BENCH_mpi-exact := mpi
BENCH_training := torch $(B)/bench/libquantise.so
BENCH_training-colocated := $(BENCH_training)
BENCH_training-exact := $(BENCH_training)
BENCH_training-large := $(BENCH_training)
BENCH_sum := postgres
BENCH_merge := postgres
BENCH_sums := python $(B)/bench/gather
BENCH_reproducible := python postgres doors
BENCH_engines := postgres doors
# The engines of PyPI, in build/doors. Without PyPI, parts leave engines out.
.PHONY: doors
doors:
	$(Q)$(PYTHON) -B tests/doors/run.py $(B) --install || test $$? = 77
bench: PACKAGES += $(BENCH_PACKAGES) $(if $(filter sum merge reproducible engines,$(BENCH)),$(PG_PACKAGES)) $(if $(filter training%,$(BENCH)),$(TORCH_PACKAGES)) \
	$(if $(filter mpi mpi-exact,$(BENCH)),$(MPI_PACKAGES)) $(if $(filter reproducible engines,$(BENCH)),$(DOORS_PACKAGES))
bench: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all $(foreach part,$(BENCH),$(BENCH_$(part)))
	$(Q)$(PYTHON) -B bench/run.py $(B) $(BENCH)

# Three runs, for README's table and pictures. The part `errors` does not need an idle machine.
.PHONY: bench-figures pictures
bench-figures: PACKAGES += $(BENCH_PACKAGES)
bench-figures: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all $(B)/bench/contenders
	$(Q)$(PYTHON) -B bench/report/readme.py run $(B)
pictures: $(PROGRAMS)
	$(Q)mkdir -p $(B)/pictures && $(B)/fpisa analyze --workers 8 --plot $(B)/pictures/gradients data/gradients/*.f32 \
		> /dev/null && cp $(B)/pictures/gradients-error.svg doc/pictures/error.svg
	$(Q)$(PYTHON) -B bench/report/readme.py write

include paper/training/rules.mk

# Build the datapath with the oldest compiler installed too. Its BPF tests run beside the others.
OLD := $(B)/old-clang
.PHONY: old-compiler prog-tests
prog-tests: $(B)/fpisa.o $(B)/fpisa_egress.o $(PROG)
old-compiler: | all
	$(Q)$(if $(filter-out $(BPF_CLANG),$(OLD_CLANG)),$(MAKE) --no-print-directory B=$(OLD) BPF_CLANG=$(OLD_CLANG) prog-tests, \
		rm -rf $(OLD))

# The same for arm64 by a cross compiler, over the libraries that vm/sysroot unpacks: programs, and the tests that run there (tests/arm64).
# The BPF objects are these: their machine is BPF's, whatever the processor.
ARM := $(B)/arm64
ARM_TESTS := $(UNIT) $(addprefix $(B)/tests/prog/,test_ops test_pipeline query/test_query query/test_query_filter)
.PHONY: arm64 arm64-programs
arm64-programs: all $(ARM_TESTS)
arm64: all
	$(Q)mkdir -p $(ARM) && cp -p $(B)/*.o $(SKEL) $(FAMILY_OBJ:.o=.skel.h) $(B)/fpisa_abi.h $(ARM)/
	$(Q)$(MAKE) --no-print-directory B=$(ARM) CC="aarch64-linux-gnu-gcc --sysroot=$(SYSROOT)" AR=aarch64-linux-gnu-ar SAN= arm64-programs

include adapters/postgres/rules.mk adapters/python/rules.mk adapters/spark/rules.mk adapters/torch/rules.mk adapters/mpi/rules.mk

MAN := $(B)/man/fpisa.8 $(B)/man/fpisa-wire.7 $(B)/man/libfpisa.3 $(B)/man/libfpisa-query.3
.PHONY: test-build check test test-long demo deps
test-build: all man python $(UNIT) $(PROG) $(FUZZ) $(B)/bench/endian $(B)/bench/gather $(B)/bench/query $(B)/bench/contenders $(B)/bench/libquantise.so $(TSAN) $(TSAN_LIB) old-compiler \
	$(if $(PG_HEADERS),postgres) $(if $(TORCH_HEADERS),torch) $(if $(MPIS),mpi)

# Run the tests of what is built; SUITES="unit prog" picks some. `make test` sets TORCH_TESTED.
check: test-build $(if $(TORCH_TESTED),torch-tested)
	$(Q)$(if $(TORCH_TESTED),FPISA_TORCH=$(abspath $(B)/torch-$(TORCH_TESTED))) tests/run $(B) $(SUITES)

# Tests that are too long for `make test`: bits at length, the other combinations of netns, all kernels.
test-long: PACKAGES += $(VM_PACKAGES) $(ARM_PACKAGES) $(PG_PACKAGES) $(TORCH_PACKAGES) $(MPI_PACKAGES) $(MPI_PROGRAMS) $(DOORS_PACKAGES) $(IMAGE_PACKAGES)
test-long: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory check SUITES="$(or $(SUITES),hw-long postgres-long torch-long doors prog-long netns-long mpi-long arm64-long distros image vm-long)"

deps:
	$(Q)debian/deps $(if $(filter deps,$(MAKECMDGOALS)),--table) $(foreach p,$(PACKAGES),'$p')

# Run a second make, so that this file's shell calls find the packages that deps installed.
test: PACKAGES += $(if $(filter vm,$(or $(SUITES),vm)),$(VM_PACKAGES)) \
	$(if $(filter postgres package,$(or $(SUITES),postgres)),$(PG_PACKAGES)) \
	$(if $(filter python training netns package,$(or $(SUITES),netns)),$(TORCH_PACKAGES)) \
	$(if $(filter mpi package,$(or $(SUITES),mpi)),$(MPI_PACKAGES))
test: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory check SUITES="$(SUITES)" $(if $(filter netns,$(or $(SUITES),netns)),TORCH_TESTED=$(TORCH_NEWEST))

demo: PACKAGES := $(BUILD_PACKAGES)
demo: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all
	$(Q)$(B)/fpisa demo $(DEMO_ARGS)

include paper/hw/rules.mk

# -- records for review -------------------------------------------------------

.PHONY: resources
resources: $(PROGRAMS)
	$(Q)for of in '' query; do $(B)/fpisa $$of resources || exit 1; done > doc/resources.txt && cat doc/resources.txt

# Record the API, the wire and the names in outputs, each with the version that changed it. Fail if NEWS.md lacks a change.
.PHONY: interfaces
interfaces: $(PROGRAMS) $(LIBS:=.so)
	$(Q)$(PYTHON) -B tests/tree/interfaces.py $(B) --write

# VERSION above is the one source; what states it too has to agree, and NEWS.md to begin with the tag, its day and highlights.
.PHONY: release
release:
	$(Q)$(PYTHON) -B tests/tree/release.py

# -- install ------------------------------------------------------------------

LIBDIR ?= $(PREFIX)/lib
SBINDIR ?= $(PREFIX)/sbin
# Programs that fpisa runs for verbs of its other packages. It looks for them relative to its own path.
LIBEXECDIR ?= $(abspath $(SBINDIR)/../libexec/fpisa)
MANDIR ?= $(PREFIX)/share/man
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
UNITDIR ?= $(PREFIX)/lib/systemd/system
CONFDIR := /etc/fpisa

# Manual pages and completion come from the CLI's own help, the header and doc/wire.md.
render = $(call say,DOC,$@) && mkdir -p $(@D) && $(PYTHON) -B doc/man/render.py
$(MAN) $(B)/man/functions $(B)/completion/fpisa: doc/man/render.py doc/man/table.py
$(B)/man/fpisa.8: doc/man/fpisa.8.in $(PROGRAMS)
	$(render) verbs $(B)/fpisa $< > $@
$(B)/man/fpisa-wire.7: doc/wire.md
	$(render) wire $< > $@
$(B)/man/lib%.3: doc/man/lib%.3.in include/%.h
	$(render) api include/$*.h $< > $@
$(B)/man/functions: include/fpisa.h include/fpisa-query.h
	$(render) names include/fpisa.h | sed 's/$$/ libfpisa/' > $@
	$(Q)$(PYTHON) -B doc/man/render.py names include/fpisa-query.h | sed 's/$$/ libfpisa-query/' >> $@
$(B)/completion/fpisa: doc/man/completion.py $(PROGRAMS)
	$(call say,DOC,$@) && mkdir -p $(@D) && $(PYTHON) -B $< $(B)/fpisa > $@

# Debian packages in $(B)/deb, from a copy of the tree: nothing is written beside it.
DEB := $(B)/deb
DEB_TREE := $(DEB)/fpisa-$(VERSION)
# The date of the last commit, or of this file without a repository.
DAY = $(or $(shell git log -1 --format=%ct 2>/dev/null),$(shell stat -c %Y Makefile))

# To build for arm64, install the libraries DEB_LIBRARIES with the suffix :arm64 beside this machine's.
DEB_ARCH ?=
DEB_LIBRARIES := linux-libc-dev libbpf-dev libxdp-dev libjson-c-dev libgmp-dev libmnl-dev zlib1g-dev libgnutls28-dev
# Build a package for each version of PostgreSQL whose headers are installed.
DEB_POSTGRESQLS = $(or $(call pg_here,include/postgresql/N/server/postgres.h),$(PG_VERSION),15)
# Build profiles that leave out what cannot be built here.
DEB_WITHOUT = $(if $(and $(PG_HEADERS),$(DEB_NATIVE)),,pkg.fpisa.nopostgres) $(if $(and $(TORCH_HEADERS),$(DEB_NATIVE)),,pkg.fpisa.notorch) \
	$(if $(and $(filter 2,$(words $(MPIS))),$(DEB_NATIVE)),,pkg.fpisa.nompi)
DEB_NATIVE = $(if $(DEB_ARCH),,yes)

.PHONY: deb
deb:
	$(Q)rm -rf $(DEB_TREE) && mkdir -p $(DEB_TREE)
	$(Q)tar -c --exclude-vcs --exclude='./build*' --exclude=__pycache__ . | tar -x -C $(DEB_TREE)
	$(Q)printf 'fpisa ($(VERSION)) unstable; urgency=medium\n\n  * Version $(VERSION).\n\n -- %s  %s\n' \
		"$$(sed -n 's/^Maintainer: //p' debian/control)" "$$(date -Rud @$(DAY))" > $(DEB_TREE)/debian/changelog
	$(Q)$(DEB_TREE)/debian/versions $(DEB_POSTGRESQLS)
	$(Q)cd $(DEB_TREE) && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u B -u VERSION -u DESTDIR -u PREFIX \
		DEB_BUILD_PROFILES="$(strip $(DEB_BUILD_PROFILES) $(DEB_WITHOUT))" $(if $(DEB_ARCH),DEB_BUILD_OPTIONS=nocheck) \
		sh -c 'dpkg-buildpackage $(DEB_ARCH:%=-a%) -us -uc -b -j$$(nproc) && touch built' 2>&1 | tee ../build.log | \
		sed -nu 's/^   \(debian.rules override_\)*dh_/  DEB     /p'; \
		test -e built || { tail -n 40 ../build.log; exit 1; }
	$(Q)rm -rf $(DEB_TREE) && ls $(DEB)/*_$(VERSION)_*.deb

# RPM packages in $(B)/rpm, from a copy of the tree. Set RPMBUILD_FLAGS=--nodeps if the libraries are not installed as RPMs.
RPM := $(B)/rpm
.PHONY: rpm
rpm:
	$(Q)command -v rpmbuild > /dev/null || { echo "make rpm: rpmbuild is not installed" >&2; exit 1; }
	$(Q)rm -rf $(RPM) && mkdir -p $(RPM)/SOURCES
	$(Q)tar -c --exclude-vcs --exclude='./build*' --exclude=__pycache__ --transform 's,^\.,fpisa-$(VERSION),' . | gzip -n > $(RPM)/SOURCES/fpisa-$(VERSION).tar.gz
	$(Q)env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL rpmbuild -bb --quiet $(RPMBUILD_FLAGS) -D '_topdir $(abspath $(RPM))' -D 'fpisa_version $(VERSION)' \
		-D '_smp_mflags -j$(shell nproc)' rpm/fpisa.spec > $(RPM)/build.log 2>&1 || { tail -n 40 $(RPM)/build.log; exit 1; }
	$(Q)rm -rf $(RPM)/BUILD $(RPM)/BUILDROOT $(RPM)/SOURCES && ls $(RPM)/RPMS/*/*.rpm

# Images for containers of $(DEB), by podman, docker or buildah.
IMAGE ?= $(B)/image
.PHONY: image
image: | $(filter deb,$(MAKECMDGOALS))
	$(Q)deploy/image/make $(DEB) $(IMAGE) $(VERSION) $(SOVERSION)

# A variable of this file, for tests: make -s print-BPF_CLANG.
print-%:
	@echo '$($*)'

.PHONY: man install uninstall clean help
UNITS = fpisa.service fpisa-manager.service
man: $(MAN) $(B)/man/functions $(B)/completion/fpisa
install: all man
	install -d $(addprefix $(DESTDIR),$(SBINDIR) $(LIBDIR)/fpisa $(LIBDIR)/pkgconfig $(PREFIX)/include \
		$(addprefix $(MANDIR)/man,3 7 8) $(COMPLETIONDIR) $(UNITDIR) $(CONFDIR))
	install -m 755 $(B)/fpisa $(DESTDIR)$(SBINDIR)/fpisa
	install -d $(DESTDIR)$(LIBEXECDIR)
	install -m 755 $(B)/fpisa-query $(B)/fpisa-lab $(DESTDIR)$(LIBEXECDIR)/
	install -m 644 $(B)/fpisa.o $(B)/fpisa_egress.o $(DESTDIR)$(LIBDIR)/fpisa/
	install -m 755 $(LIBS:=.so.$(VERSION)) $(DESTDIR)$(LIBDIR)/
	for l in $(notdir $(LIBS)); do ln -sf $$l.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$$l.so.$(SOVERSION) && \
		ln -sf $$l.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/$$l.so || exit 1; done
	install -m 644 $(LIBS:=.a) $(DESTDIR)$(LIBDIR)/
	install -m 644 include/fpisa.h include/fpisa-query.h $(DESTDIR)$(PREFIX)/include/
	for pc in user/lib/libfpisa.pc user/query/lib/libfpisa-query.pc; do \
		sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' $$pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/$${pc##*/} || exit 1; done
	sed 's|@LIBDIR@|$(LIBDIR)|' $(B)/man/fpisa.8 > $(DESTDIR)$(MANDIR)/man8/fpisa.8
	install -m 644 $(B)/man/fpisa-wire.7 $(DESTDIR)$(MANDIR)/man7/
	install -m 644 $(B)/man/libfpisa.3 $(B)/man/libfpisa-query.3 $(DESTDIR)$(MANDIR)/man3/
	while read f of; do ln -sf $$of.3 $(DESTDIR)$(MANDIR)/man3/$$f.3; done < $(B)/man/functions
	install -m 644 $(B)/completion/fpisa $(DESTDIR)$(COMPLETIONDIR)/
	for u in $(UNITS); do sed 's|@SBINDIR@|$(SBINDIR)|' user/system/$$u.in > $(DESTDIR)$(UNITDIR)/$$u; done
	test -e $(DESTDIR)$(CONFDIR)/fpisa.conf || install -m 640 user/system/fpisa.conf $(DESTDIR)$(CONFDIR)/
	$(if $(DESTDIR),,test "$$(id -u)" != 0 || ldconfig)

# Keep a configuration that was edited.
uninstall: $(B)/man/functions
	rm -f $(addprefix $(DESTDIR),$(SBINDIR)/fpisa $(addprefix $(PREFIX)/include/,fpisa.h fpisa-query.h) $(MANDIR)/man8/fpisa.8 \
		$(foreach l,$(notdir $(LIBS)),$(LIBDIR)/$l.so* $(LIBDIR)/$l.a $(LIBDIR)/pkgconfig/$l.pc $(MANDIR)/man3/$l.3) \
		$(MANDIR)/man7/fpisa-wire.7 $(COMPLETIONDIR)/fpisa \
		$(addprefix $(UNITDIR)/,$(UNITS)))
	while read f of; do rm -f $(DESTDIR)$(MANDIR)/man3/$$f.3; done < $(B)/man/functions
	rm -rf $(DESTDIR)$(LIBDIR)/fpisa $(DESTDIR)$(LIBEXECDIR)
	! cmp -s user/system/fpisa.conf $(DESTDIR)$(CONFDIR)/fpisa.conf || rm $(DESTDIR)$(CONFDIR)/fpisa.conf
	rmdir $(DESTDIR)$(CONFDIR) 2>/dev/null || true

clean:
	rm -rf $(B)

help:
	@sed -n 's/^# \(make.*\)/\1/p' $(firstword $(MAKEFILE_LIST))

# -- other kernels (vm/README.md) -----------------------------------------------

.PHONY: vm-deps check-vm
vm-deps: PACKAGES += $(VM_PACKAGES)
vm-deps: deps

# The tests under the kernels of vm/kernels, or KERNEL="6.1 6.12"; needs `make vm-deps` once.
check-vm: all prog-tests old-compiler
	$(Q)$(if $(KERNEL),,vm/selftest &&) vm/check $(B) $(KERNEL)

# Skip the root directories of tests/package, which have other files of that name, and bench/, which may be of older sources.
DEPS := $(shell find $(B) \( -path $(B)/package -o -path $(B)/bench -o -path '$(B)/root-*' \) -prune -o -name '*.d' -type f -print 2>/dev/null)
-include $(DEPS)
# Rebuild what depended on sources that have moved.
NAMED := $(if $(DEPS),$(shell cat $(DEPS) | tr ' ' '\n' | grep '\.c$$' | sort -u))
MOVED := $(filter-out $(B)/% $(wildcard $(NAMED)),$(NAMED))
$(if $(MOVED),$(eval $(MOVED): ;))
.DELETE_ON_ERROR:
.SECONDARY:
