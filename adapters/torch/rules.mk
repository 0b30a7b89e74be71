# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
# The extension of fpisa.torch (doc/torch.md), by targets of its own: neither `make all` nor `make install` needs PyTorch. What
# `make test` builds has it where PyTorch's headers are. $(B)/torch/fpisa is the whole package, to be used as it is.

TORCH_INCLUDE := /usr/include/torch/csrc/distributed/c10d/ProcessGroup.hpp
# Empty where it cannot be built.
TORCH_HEADERS = $(and $(wildcard $(TORCH_INCLUDE)),$(wildcard /usr/include/pybind11/pybind11.h),$(wildcard \
	/usr/lib/python3/dist-packages/torch))

TORCH_DIR := adapters/torch
TORCH_PACKAGE := $(patsubst $(PY_DIR)/%,$(B)/torch/fpisa/%,$(wildcard $(PY_DIR)/*.py) $(PY_DIR)/py.typed) \
	$(B)/torch/fpisa/torch/__init__.py

.PHONY: torch
torch: $(B)/torch/built $(TORCH_PACKAGE)

$(B)/torch/built: $(TORCH_DIR)/backend.cpp $(TORCH_DIR)/session.hpp $(TORCH_DIR)/views.hpp $(TORCH_DIR)/setup.py $(TORCH_DIR)/rules.mk \
		include/fpisa.h | $(B)/libfpisa.so
	$(Q)test -n "$(TORCH_HEADERS)" || { echo "make torch: no headers of PyTorch; install python3-torch libtorch-dev pybind11-dev python3-dev" >&2; exit 1; }
	$(call say,TORCH,$(B)/torch)
	$(Q)rm -rf $(B)/torch/fpisa/torch/_backend* && mkdir -p $(@D)
	$(Q)cd $(TORCH_DIR) && FPISA_BUILD=$(abspath $(B)) CFLAGS="$(CFLAGS)" LDFLAGS="$(LDFLAGS)" $(PYTHON) -B setup.py -q \
		build_ext --build-lib $(abspath $(B))/torch --build-temp $(abspath $(B))/torch/obj > $(abspath $@).log 2>&1 || \
		{ tail -n 40 $(abspath $@).log >&2; exit 1; }
	$(Q)touch $@

# Links: what is edited is what is used.
$(B)/torch/fpisa/torch/__init__.py: $(TORCH_DIR)/fpisa/torch/__init__.py
	$(Q)mkdir -p $(@D) && ln -sfn $(abspath $<) $@
$(B)/torch/fpisa/%: $(PY_DIR)/%
	$(Q)mkdir -p $(@D) && ln -sfn $(abspath $<) $@

.PHONY: install-torch
install-torch: torch
	install -d $(DESTDIR)$(PY_DESTDIR)/fpisa/torch
	install -m 644 $(TORCH_DIR)/fpisa/torch/__init__.py $(B)/torch/fpisa/torch/_backend*.so $(DESTDIR)$(PY_DESTDIR)/fpisa/torch/
