# SPDX-License-Identifier: GPL-2.0-only
# The pipeline in hardware, and what it costs (doc/hardware.md). Tools are unpacked under $(B)/hw, not installed.

.PHONY: hw hw-area
hw:
	$(Q)$(PYTHON) -B paper/hw/check.py $(B) $(if $(HW_MUTATE),--mutate)

# Print the tables of doc/hardware.md, and fail if the page differs. With UPDATE=1, write the tables to the page.
hw-area:
	$(Q)$(PYTHON) -B paper/hw/area.py $(B) $(if $(UPDATE),--update)
