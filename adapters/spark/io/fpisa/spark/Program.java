// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
package io.fpisa.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The program `fpisa query run`, with the options of a catalog. Driver and executors find it, and the key file, at the same path. */
final class Program implements Serializable {
	private final String command, key, timeout;
	final String workers;

	/** An answer in progress. Its batches are in Arrow's vectors. */
	static final class Answer implements AutoCloseable {
		private final Process process;
		private final RootAllocator allocator = new RootAllocator();
		private final ArrowStreamReader reader;

		Answer(Process process) {
			this.process = process;
			reader = new ArrowStreamReader(process.getInputStream(), allocator);
		}

		/** Load the next batch. Return false after the last batch of a complete answer. */
		boolean next() throws IOException {
			try {
				if (reader.loadNextBatch())
					return true;
			} catch (IOException e) {
				check();
				throw e;
			}
			check();
			return false;
		}

		List<FieldVector> columns() throws IOException {
			try {
				return reader.getVectorSchemaRoot().getFieldVectors();
			} catch (IOException e) {
				check();
				throw e;
			}
		}

		int rows() throws IOException {
			return reader.getVectorSchemaRoot().getRowCount();
		}

		StructType schema() throws IOException {
			columns();
			return ArrowUtils.fromArrowSchema(reader.getVectorSchemaRoot().getSchema());
		}

		/** Throw the program's last message if the program has failed. Other lines are counts, and how the program is used. */
		private void check() throws IOException {
			String said = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
			try {
				int status = process.waitFor();
				if (status != 0)
					throw new IOException(said.lines().filter(line -> line.startsWith("fpisa: ")).reduce((a, b) -> b)
							.orElse("fpisa query run ended with status " + status + "; see the log of this machine"));
			} catch (InterruptedException e) {
				throw new IOException(e);
			}
		}

		@Override
		public void close() throws IOException {
			process.destroy();
			reader.close();
			allocator.close();
		}
	}

	Program(CaseInsensitiveStringMap options) {
		command = options.getOrDefault("command", "fpisa");
		workers = Objects.requireNonNull(options.get("workers"), "the catalog has no option workers; list the workers' addresses");
		key = Objects.requireNonNull(options.get("key"), "the catalog has no option key; name a key file");
		timeout = options.getOrDefault("timeout", "10");
	}

	/** Ask workers for a table. */
	Answer ask(String table, String workers, List<String> options) throws IOException {
		List<String> argv = new ArrayList<>(List.of(command, "query", "run", table, "--workers", workers, "--key", key, "--timeout",
				timeout, "--format", "arrow"));
		argv.addAll(options);
		return new Answer(new ProcessBuilder(argv).start());
	}

	StructType schema(String table) throws IOException {
		try (Answer answer = ask(table, workers, List.of())) {
			return answer.schema();
		}
	}

	List<String> tables() throws IOException {
		try (Answer answer = ask("fpisa_tables", workers.split(",")[0], List.of("--columns", "name"))) {
			List<String> names = new ArrayList<>();
			while (answer.next())
				for (int i = 0; i < answer.rows(); i++)
					names.add(answer.columns().get(0).getObject(i).toString());
			Collections.sort(names);
			return names;
		}
	}
}
