// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
package io.fpisa.spark;

import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.expressions.Aggregator;

/** The common part of all aggregates of exact sums, which skip nulls. */
public abstract class Sum<T> extends Aggregator<Double, ExactSum, T> {
	@Override
	public ExactSum zero() {
		return new ExactSum();
	}

	@Override
	public ExactSum reduce(ExactSum sum, Double x) {
		if (x != null)
			sum.add(x);
		return sum;
	}

	@Override
	public ExactSum merge(ExactSum a, ExactSum b) {
		return a.merge(b);
	}

	@Override
	public Encoder<ExactSum> bufferEncoder() {
		return Encoders.javaSerialization(ExactSum.class);
	}

	/** An aggregate that returns the sum, rounded once. */
	public static final class Value extends Sum<Double> {
		@Override
		public Double finish(ExactSum sum) {
			return sum.value();
		}

		@Override
		public Encoder<Double> outputEncoder() {
			return Encoders.DOUBLE();
		}
	}

	/** An aggregate that returns the sum as a partial. */
	public static final class Partial extends Sum<byte[]> {
		@Override
		public byte[] finish(ExactSum sum) {
			return sum.toBytes();
		}

		@Override
		public Encoder<byte[]> outputEncoder() {
			return Encoders.BINARY();
		}
	}
}
