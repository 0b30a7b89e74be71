# SPDX-License-Identifier: GPL-2.0-only
# The pipeline in hardware, and what it costs (doc/hardware.md). Tools are unpacked under $(B)/hw, not installed.

.PHONY: hw hw-area
hw:
	$(Q)$(PYTHON) -B paper/hw/check.py $(B) $(if $(HW_MUTATE),--mutate)

# Prints the tables of doc/hardware.md and fails where the page says something else; UPDATE=1 writes them there.
hw-area:
	$(Q)$(PYTHON) -B paper/hw/area.py $(B) $(if $(UPDATE),--update)
