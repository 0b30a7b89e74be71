# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
# The extension of fpisa.torch (doc/torch.md). It has its own targets: neither `make all` nor `make install` needs PyTorch.
# `make test` builds it if PyTorch's headers are installed. $(B)/torch/fpisa is the whole package, ready to use.

TORCH_INCLUDE := /usr/include/torch/csrc/distributed/c10d/ProcessGroup.hpp
# TORCH_HEADERS is empty if the extension cannot be built.
TORCH_HEADERS = $(and $(wildcard $(TORCH_INCLUDE)),$(wildcard /usr/include/pybind11/pybind11.h),$(wildcard \
	/usr/lib/python3/dist-packages/torch))

TORCH_DIR := adapters/torch
# The version of PyTorch from PyPI. `make torch TORCH=2.15.0` builds $(B)/torch-2.15.0, whose env/ contains PyTorch
# 2.15.0. Empty means the version of Debian.
TORCH :=
TORCH_OUT := $(B)/torch$(addprefix -,$(TORCH))
TORCH_PYTHON := $(if $(TORCH),$(abspath $(TORCH_OUT))/env/bin/python,$(PYTHON))
TORCH_SRC := $(addprefix $(TORCH_DIR)/,backend.cpp group.hpp report.hpp staging.hpp together.hpp unclean.hpp views.hpp setup.py rules.mk)
TORCH_PACKAGE := $(patsubst $(PY_DIR)/%,$(TORCH_OUT)/fpisa/%,$(wildcard $(PY_DIR)/*.py) $(PY_DIR)/py.typed) \
	$(TORCH_OUT)/fpisa/torch/__init__.py

.PHONY: torch torch-tested
torch: $(TORCH_OUT)/built $(TORCH_PACKAGE)

# The version that `make test` installs and builds for. Its tests are skipped if it cannot be installed.
TORCH_NEWEST := 2.15.0
torch-tested: | $(B)/libfpisa.so
	$(Q)if $(MAKE) -s $(B)/torch-$(TORCH_TESTED)/env/usable; then \
		$(MAKE) --no-print-directory TORCH=$(TORCH_TESTED) torch; \
	else echo "make test: skip the tests with PyTorch $(TORCH_TESTED), which cannot be installed"; fi

$(B)/torch-%/env/usable: tests/torch/environment.py tests/torch/without_cuda.py
	$(call say,PIP,torch==$*)
	$(Q)$(PYTHON) -B $< $* $(@D) && touch $@

$(TORCH_OUT)/built: $(TORCH_SRC) include/fpisa.h $(if $(TORCH),$(TORCH_OUT)/env/usable) | $(B)/libfpisa.so
	$(Q)test -n "$(TORCH)$(TORCH_HEADERS)" || { echo "make torch: the headers of PyTorch are not installed; install python3-torch libtorch-dev pybind11-dev python3-dev" >&2; exit 1; }
	$(call say,TORCH,$(TORCH_OUT))
	$(Q)rm -rf $(TORCH_OUT)/fpisa/torch/_backend* && mkdir -p $(@D)
	$(Q)cd $(TORCH_DIR) && FPISA_BUILD=$(abspath $(B)) CFLAGS="$(CFLAGS)" LDFLAGS="$(LDFLAGS)" $(TORCH_PYTHON) -B setup.py -q \
		build_ext --build-lib $(abspath $(TORCH_OUT)) --build-temp $(abspath $(TORCH_OUT))/obj > $(abspath $@).log 2>&1 || \
		{ tail -n 40 $(abspath $@).log >&2; exit 1; }
	$(Q)touch $@

# Link the Python files, so that edits take effect without a build.
$(TORCH_OUT)/fpisa/torch/__init__.py: $(TORCH_DIR)/fpisa/torch/__init__.py
	$(Q)mkdir -p $(@D) && ln -sfn $(abspath $<) $@
$(TORCH_OUT)/fpisa/%: $(PY_DIR)/%
	$(Q)mkdir -p $(@D) && ln -sfn $(abspath $<) $@

# Build the wheels that users install, in build/wheel: fpisa with both libraries inside, and fpisa-torch for the version TORCH
# of PyTorch. The wheel does not include the libraries of PyTorch.
.PHONY: wheels
wheels: $(LIBS:=.so) $(if $(TORCH),$(TORCH_OUT)/env/usable)
	$(Q)FPISA_WHEEL_LIBRARY=$(abspath $(B)) $(MAKE) --no-print-directory wheel
	$(call say,WHEEL,fpisa-torch)
	$(Q)mkdir -p $(WHEEL)/tree && tar -c --exclude=__pycache__ $(TORCH_DIR) include | tar -x -C $(WHEEL)/tree
	$(Q)FPISA_BUILD=$(abspath $(B)) $(PYTHON) -m pip --disable-pip-version-check $(if $(TORCH),--python $(TORCH_PYTHON)) wheel --no-index \
		--no-deps --no-build-isolation -w $(WHEEL)/raw $(WHEEL)/tree/$(TORCH_DIR) >> $(WHEEL)/build.log 2>&1 || \
		{ tail -20 $(WHEEL)/build.log; exit 1; }
	$(Q)$(AUDITWHEEL) --exclude 'libtorch*' --exclude 'libc10*' --exclude libfpisa.so.1 $(WHEEL)/raw/*.whl >> $(WHEEL)/build.log 2>&1 || \
		{ tail -20 $(WHEEL)/build.log; exit 1; }
	$(Q)rm -rf $(WHEEL)/raw $(WHEEL)/tree && ls $(WHEEL)/fpisa_torch-*

.PHONY: install-torch
install-torch: torch
	install -d $(DESTDIR)$(PY_DESTDIR)/fpisa/torch
	install -m 644 $(TORCH_DIR)/fpisa/torch/__init__.py $(B)/torch/fpisa/torch/_backend*.so $(DESTDIR)$(PY_DESTDIR)/fpisa/torch/
