# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
# The MPI adapter (doc/mpi.md), built once for each MPI whose compiler is installed. It has its own target: neither
# `make all` nor `make install` needs MPI.

MPI_DIR := adapters/mpi
# MPIS is empty if MPI is not installed.
MPIS := $(strip $(foreach m,openmpi mpich,$(if $(shell command -v mpicc.$(m)),$(if $(shell mpicc.$(m) -E -include mpi.h -x c \
	/dev/null >/dev/null 2>&1 && echo yes),$(m)))))
MPI_LIBS := $(MPIS:%=$(B)/mpi/%/libfpisa-mpi.so)

.PHONY: mpi install-mpi uninstall-mpi
mpi: $(MPI_LIBS)
	$(Q)test -n "$(MPIS)" || { echo "make mpi: neither mpicc.openmpi nor mpicc.mpich is there; install libopenmpi-dev or" \
		"libmpich-dev" >&2; exit 1; }

define mpi_rules
$(B)/mpi/$(1)/%.o: $(MPI_DIR)/%.c $(MPI_DIR)/rules.mk
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)mpicc.$(1) -std=gnu11 $$(WARN) $$(CFLAGS) -fPIC -fvisibility=hidden -Iinclude $$(DEP) -c $$< -o $$@

# The adapter contains its own libfpisa and hides the symbols, because a program may use another version of libfpisa.
# Link with libmpi, so that programs without MPI also start when they inherit LD_PRELOAD.
$(B)/mpi/$(1)/libfpisa-mpi.so: $(patsubst $(MPI_DIR)/%.c,$(B)/mpi/$(1)/%.o,$(wildcard $(MPI_DIR)/*.c)) $(B)/libfpisa.a
	$$(call say,LINK,$$@)
	$$(Q)mpicc.$(1) -shared $$(CFLAGS) $$(LDFLAGS) -Wl,-soname,libfpisa-mpi.so -Wl,-z,defs -Wl,--exclude-libs,ALL $$^ \
		-ldl -lpthread -lm -o $$@
endef
$(foreach m,$(MPIS),$(eval $(call mpi_rules,$(m))))

install-mpi: mpi
	for m in $(MPIS); do install -d $(DESTDIR)$(LIBDIR)/fpisa/$$m && \
		install -m 755 $(B)/mpi/$$m/libfpisa-mpi.so $(DESTDIR)$(LIBDIR)/fpisa/$$m/ || exit 1; done

uninstall-mpi:
	rm -f $(patsubst %,$(DESTDIR)$(LIBDIR)/fpisa/%/libfpisa-mpi.so,openmpi mpich)
