# SPDX-License-Identifier: GPL-2.0-only
# make		the datapath objects, the CLI, the library; needs `make deps` once
# make demo	install what is needed, build, sum real gradients over real XDP
# make test	install what is needed, build, run every test this machine can run
# make help	the other targets

BPF_CLANG ?= clang-19
BPFTOOL ?= bpftool
CC ?= gcc
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
B ?= build

VERSION := 0.1.0
SOVERSION := 0

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wno-missing-field-initializers
CFLAGS ?= -O2 -g
ALL_CFLAGS := -std=gnu11 $(WARN) $(CFLAGS) -Iinclude -Iuser -I$(B) -DFPISA_VERSION_STRING='"$(VERSION)"'
BPF_CFLAGS := -std=gnu11 $(WARN) -g -O2 -target bpf -mcpu=v3 -Iinclude -I/usr/include/$(shell uname -m)-linux-gnu
DEP = -MMD -MP -MF $@.d

Q := $(if $(V),,@)
say = @printf '  %-6s %s\n' $(1) $(2)
ifneq ($(V),)
say = @:
endif

LIB_SRC := $(wildcard user/lib/*.c)
CLI_SRC := $(wildcard user/*.c)
UNIT_SRC := $(wildcard tests/unit/test_*.c)
PROG_SRC := $(wildcard tests/prog/test_*.c)

LIB_OBJ := $(LIB_SRC:%.c=$(B)/obj/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/obj/%.o)
UNIT := $(UNIT_SRC:tests/%.c=$(B)/tests/%)
PROG := $(PROG_SRC:tests/%.c=$(B)/tests/%)

.PHONY: all
all: $(B)/fpisa.o $(B)/fpisa_egress.o $(B)/fpisa $(B)/libfpisa.so $(B)/libfpisa.a

# -- datapath -------------------------------------------------------------

$(B)/%.o: bpf/%.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(BPF_CLANG) $(BPF_CFLAGS) $(DEP) -MT $@ -c $< -o $@

$(B)/%.skel.h: $(B)/%.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $* > $@

SKEL := $(B)/fpisa.skel.h $(B)/fpisa_egress.skel.h

# -- library --------------------------------------------------------------

$(B)/obj/user/lib/%.o: user/lib/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(DEP) -fPIC -fvisibility=hidden -c $< -o $@

$(B)/libfpisa.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/libfpisa.so: $(LIB_OBJ) user/lib/libfpisa.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(CFLAGS) $(LDFLAGS) -Wl,-soname,libfpisa.so.$(SOVERSION) -Wl,-z,defs \
		-Wl,--version-script,user/lib/libfpisa.map $(LIB_OBJ) -lpthread -lm -o $@.$(VERSION)
	$(Q)ln -sf $(@F).$(VERSION) $@.$(SOVERSION) && ln -sf $(@F).$(SOVERSION) $@

# -- CLI ------------------------------------------------------------------

$(B)/obj/user/%.o: user/%.c $(SKEL)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(DEP) -c $< -o $@

$(B)/fpisa: $(CLI_OBJ) $(B)/libfpisa.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -lbpf -ljson-c -lgmp -lpthread -lm -o $@

# -- tests ----------------------------------------------------------------

SAN ?= -fsanitize=address,undefined -fno-sanitize-recover=all
TEST_CFLAGS := -std=gnu11 $(WARN) -g -O1 -Iinclude -Iuser -Iuser/lib -Itests -Itests/prog -I$(B)

$(B)/tests/unit/%: tests/unit/%.c tests/vectors.c user/oracle.c $(LIB_SRC)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(TEST_CFLAGS) $(SAN) $(DEP) -MT $@ $(filter %.c,$^) -lcmocka -lgmp -lpthread -lm -o $@

$(B)/tests/prog/%: tests/prog/%.c tests/prog/harness.c tests/vectors.c user/oracle.c $(SKEL)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(TEST_CFLAGS) $(DEP) -MT $@ $(filter %.c,$^) -lcmocka -lbpf -lgmp -lm -o $@

.PHONY: test-build
test-build: all $(UNIT) $(PROG)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.DELETE_ON_ERROR:
.SECONDARY:
