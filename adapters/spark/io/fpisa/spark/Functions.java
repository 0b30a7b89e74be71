// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
package io.fpisa.spark;

import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/** The names of the aggregates in SQL: fpisa_exact_sum(x) and fpisa_exact_partial(x). */
public final class Functions {
	private Functions() {
	}

	public static void register(SparkSession session) {
		session.udf().register("fpisa_exact_sum", functions.udaf(new Sum.Value(), Encoders.DOUBLE()));
		session.udf().register("fpisa_exact_partial", functions.udaf(new Sum.Partial(), Encoders.DOUBLE()));
	}
}
