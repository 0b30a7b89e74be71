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

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.DELETE_ON_ERROR:
