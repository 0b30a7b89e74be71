# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
# For Spark, in a jar without dependencies: exact sums as Aggregators (doc/sums.md), and the tables of workers as a catalog
# (doc/engines.md). SPARK_JARS: the folder with Spark's own jars.

SPARK_SRC := $(wildcard adapters/spark/io/fpisa/spark/*.java)
SPARK_JARS ?= $(SPARK_HOME)/jars

.PHONY: spark
spark: $(B)/spark/fpisa-spark.jar
$(B)/spark/fpisa-spark.jar: $(SPARK_SRC)
	$(Q)test -n "$(wildcard $(SPARK_JARS)/spark-sql*.jar)" || { echo "make spark: no jars of Spark in $(SPARK_JARS); set SPARK_HOME" \
		"or SPARK_JARS=" >&2; exit 1; }
	@mkdir -p $(@D)/classes
	$(call say,JAVAC,$@)
	$(Q)javac -Xlint:-options --release 17 -cp '$(SPARK_JARS)/*' -d $(@D)/classes $^
	$(Q)jar cf $@ -C $(@D)/classes .
