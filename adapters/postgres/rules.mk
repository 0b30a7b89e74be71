# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
# The extension for PostgreSQL (doc/postgres.md). It has its own targets: neither `make all` nor `make install` needs
# PostgreSQL. `make test` builds it if the server's headers are installed. Set PG_CONFIG= for another version.

PG_CONFIG ?= /usr/lib/postgresql/$(PG_VERSION)/bin/pg_config
pg_dir = $(shell $(PG_CONFIG) --$(1) 2>/dev/null)
# PG_HEADERS is empty if the extension cannot be built.
PG_HEADERS = $(wildcard $(call pg_dir,includedir-server)/postgres.h)

PG_DIR := adapters/postgres
PG_OBJ := $(patsubst $(PG_DIR)/%.c,$(B)/postgres/%.o,$(wildcard $(PG_DIR)/*.c))
PG_FDW_OBJ := $(patsubst $(PG_DIR)/%.c,$(B)/postgres/%.o,$(wildcard $(PG_DIR)/fdw/*.c))
PG_SQL := $(PG_DIR)/fpisa.control $(wildcard $(PG_DIR)/fpisa--*.sql)
# The flags with which the server was built, because the server's headers rely on these flags.
PG_CFLAGS = -std=gnu11 $(WARN) $(CFLAGS) -fno-strict-aliasing -fwrapv -fPIC -fvisibility=hidden -Iinclude \
	-isystem $(call pg_dir,includedir-server)

.PHONY: postgres install-postgres uninstall-postgres
postgres: $(B)/postgres/fpisa.so $(B)/postgres/fpisa_fdw.so
	$(Q)ln -sfn "$(shell command -v $(PG_CONFIG))" $(B)/postgres/pg_config  # used by the server of tests/lib/postgres.py

$(PG_OBJ) $(PG_FDW_OBJ): $(B)/postgres/%.o: $(PG_DIR)/%.c $(PG_DIR)/rules.mk
	$(Q)test -n "$(PG_HEADERS)" || { echo "make postgres: no headers of a PostgreSQL server by $(PG_CONFIG); install" \
		"postgresql-server-dev-N, of 15 to 18, or name another PG_CONFIG=" >&2; exit 1; }
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(PG_CFLAGS) $(DEP) -c $< -o $@

$(B)/postgres/fpisa.so: $(PG_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(CFLAGS) $(LDFLAGS) $^ -o $@

# The wrapper contains its own copy of the libraries and hides their symbols, because a server may use other versions.
# The sum functions do not need the libraries.
$(B)/postgres/fpisa_fdw.so: $(PG_FDW_OBJ) $(B)/libfpisa-query.a $(B)/libfpisa.a
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(CFLAGS) $(LDFLAGS) -Wl,--exclude-libs,ALL $^ -ldl -lpthread -lm -o $@

install-postgres: postgres
	install -d $(DESTDIR)$(call pg_dir,pkglibdir) $(DESTDIR)$(call pg_dir,sharedir)/extension
	install -m 755 $(B)/postgres/fpisa.so $(B)/postgres/fpisa_fdw.so $(DESTDIR)$(call pg_dir,pkglibdir)/
	install -m 644 $(PG_SQL) $(DESTDIR)$(call pg_dir,sharedir)/extension/

uninstall-postgres:
	rm -f $(addprefix $(DESTDIR)$(call pg_dir,pkglibdir)/,fpisa.so fpisa_fdw.so) \
		$(addprefix $(DESTDIR)$(call pg_dir,sharedir)/extension/,$(notdir $(PG_SQL)))
