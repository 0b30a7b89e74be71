// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
package io.fpisa.spark;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;

import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The rows of an answer, in the executor that asks. */
final class Rows implements PartitionReaderFactory {
	private static final class Reader implements PartitionReader<ColumnarBatch> {
		private final Program.Answer answer;
		private final int[] places;

		Reader(Question.Part part) throws IOException {
			answer = part.program().ask(part.table(), part.workers(), part.options());
			places = part.places();
		}

		@Override
		public boolean next() throws IOException {
			return answer.next();
		}

		@Override
		public ColumnarBatch get() {
			try {
				List<FieldVector> columns = answer.columns();
				return new ColumnarBatch(Arrays.stream(places).mapToObj(i -> new ArrowColumnVector(columns.get(i))).toArray(ColumnVector[]::new),
						answer.rows());
			} catch (IOException e) {
				throw new java.io.UncheckedIOException(e);
			}
		}

		@Override
		public void close() throws IOException {
			answer.close();
		}
	}

	@Override
	public boolean supportColumnarReads(InputPartition partition) {
		return true;
	}

	@Override
	public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
		try {
			return new Reader((Question.Part) partition);
		} catch (IOException e) {
			throw new java.io.UncheckedIOException(e);
		}
	}

	@Override
	public PartitionReader<InternalRow> createReader(InputPartition partition) {
		throw new UnsupportedOperationException("rows come as columns");
	}
}
