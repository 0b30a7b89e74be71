// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
package io.fpisa.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Set;

import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The tables of workers (`fpisa query worker`) as a catalog: doc/engines.md. */
public final class Catalog implements TableCatalog {
	private String name;
	private Program program;
	private int textBytes;

	private record Remote(String name, StructType schema, Program program, int textBytes) implements Table, SupportsRead {
		@Override
		public Set<TableCapability> capabilities() {
			return Set.of(TableCapability.BATCH_READ);
		}

		@Override
		public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
			return new Question(program, name, schema, textBytes);
		}
	}

	@Override
	public void initialize(String name, CaseInsensitiveStringMap options) {
		this.name = name;
		program = new Program(options);
		textBytes = options.getInt("text-bytes", Question.KEY_BYTES); // no text fits by default
		if (textBytes < 0)
			throw new IllegalArgumentException("text-bytes: " + textBytes + " is not a number of bytes");
	}

	@Override
	public String name() {
		return name;
	}

	@Override
	public Identifier[] listTables(String[] namespace) {
		try {
			return program.tables().stream().map(table -> Identifier.of(namespace, table)).toArray(Identifier[]::new);
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
	}

	@Override
	public Table loadTable(Identifier identifier) {
		try {
			return new Remote(identifier.name(), program.schema(identifier.name()), program, textBytes);
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
	}

	@Override
	public Table alterTable(Identifier identifier, TableChange... changes) {
		throw new UnsupportedOperationException("tables at workers are read-only");
	}

	@Override
	public boolean dropTable(Identifier identifier) {
		throw new UnsupportedOperationException("tables at workers are read-only");
	}

	@Override
	public void renameTable(Identifier from, Identifier to) {
		throw new UnsupportedOperationException("tables at workers are read-only");
	}
}
