# SPDX-License-Identifier: GPL-2.0-only
# Training with five ways to add gradients (doc/training.md). CIFAR10=DIR uses the CIFAR-10 files in DIR instead of MNIST.

.PHONY: training training-long training-page training-again training-network training-cost
TRAINING_PACKAGES := python3-torch
TRAINING_DATA := $(if $(CIFAR10),cifar10,mnist)
SHORT_RECORDS := $(B)/training/$(TRAINING_DATA).jsonl
LONG_RECORDS := paper/training/records/$(TRAINING_DATA).jsonl
training_sweep = $(PYTHON) -B paper/training/sweep.py $(B) --data $(if $(CIFAR10),"cifar10:$(CIFAR10)",mnist)
training training-long training-network training-cost: PACKAGES += $(TRAINING_PACKAGES)

# Run one seed, or several seeds with SEEDS=9-10. After an interruption, the same command continues.
training: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all
	$(Q)$(training_sweep) --records $(SHORT_RECORDS) $(if $(SEEDS),--seeds $(SEEDS)) --minutes 24 --compare $(LONG_RECORDS)
	$(Q)$(PYTHON) -B paper/training/report.py show $(SHORT_RECORDS)

# Run ten seeds, for two and a half hours at a time. Start from the committed records and the runs of `make training`.
training-long: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all
	$(Q)$(training_sweep) --records $(LONG_RECORDS) --also $(SHORT_RECORDS) --seeds 1-10 --minutes 148

# Record the runs of `make training` as second runs, which the page compares with the first.
training-again:
	$(Q)$(PYTHON) -B paper/training/report.py again $(B)/training/mnist.jsonl

training-page:
	$(Q)$(PYTHON) -B paper/training/report.py write

# Run a few steps over XDP, and the same steps with transport `mem`.
training-network: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all
	$(Q)$(PYTHON) -B paper/training/network.py $(B) --arms exact,fpisa --record paper/training/records/network.jsonl

# Measure the cost of a sum for a worker, compared with a SwitchML-style sum.
training-cost: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all $(B)/bench/libquantise.so
	$(Q)$(PYTHON) -B paper/training/cost.py $(B) --record paper/training/records/cost.jsonl
