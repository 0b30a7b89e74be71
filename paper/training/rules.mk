# SPDX-License-Identifier: GPL-2.0-only
# Training by five ways to add gradients (doc/training.md). CIFAR10=DIR has the user's files of CIFAR-10 in place of MNIST.

.PHONY: training training-long training-page training-again training-network training-cost
TRAINING_PACKAGES := python3-torch
TRAINING_DATA := $(if $(CIFAR10),cifar10,mnist)
SHORT_RECORDS := $(B)/training/$(TRAINING_DATA).jsonl
LONG_RECORDS := paper/training/records/$(TRAINING_DATA).jsonl
training_sweep = $(PYTHON) -B paper/training/sweep.py $(B) --data $(if $(CIFAR10),"cifar10:$(CIFAR10)",mnist)
training training-long training-network training-cost: PACKAGES += $(TRAINING_PACKAGES)

# One seed, or SEEDS=9-10; the same command goes on where it was stopped.
training: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all
	$(Q)$(training_sweep) --records $(SHORT_RECORDS) $(if $(SEEDS),--seeds $(SEEDS)) --minutes 24 --compare $(LONG_RECORDS)
	$(Q)$(PYTHON) -B paper/training/report.py show $(SHORT_RECORDS)

# Ten seeds, two and a half hours at a time, from what is committed; with what `make training` did.
training-long: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all
	$(Q)$(training_sweep) --records $(LONG_RECORDS) --also $(SHORT_RECORDS) --seeds 1-10 --minutes 148

# What `make training` did, as second runs, which the page compares with the first.
training-again:
	$(Q)$(PYTHON) -B paper/training/report.py again $(B)/training/mnist.jsonl

training-page:
	$(Q)$(PYTHON) -B paper/training/report.py write

# A few steps over XDP, beside the same over `mem`.
training-network: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all
	$(Q)$(PYTHON) -B paper/training/network.py $(B) --arms exact,fpisa --record paper/training/records/network.jsonl

# What a sum costs a worker, beside a SwitchML-style one.
training-cost: deps
	$(Q)$(MAKE) -j$$(nproc) --no-print-directory all $(B)/bench/libquantise.so
	$(Q)$(PYTHON) -B paper/training/cost.py $(B) --record paper/training/records/cost.jsonl
