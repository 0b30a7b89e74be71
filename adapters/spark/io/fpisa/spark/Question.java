// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
package io.fpisa.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The part of a statement that workers compute, as the options of `fpisa query run`. */
final class Question implements SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownAggregates, SupportsPushDownTopN {
	static final int KEY_BYTES = 32;
	private static final int LIMIT = 65536;

	private final Program program;
	private final String table;
	private final StructType columns;
	private final int textBytes; // no text in a key has more
	private final List<String> options = new ArrayList<>();
	private Predicate[] pushed = {};
	private StructType schema; // of the rows that Spark gets
	private int[] places; // of its columns in the answer
	private boolean together; // the workers answer together, not each for itself

	Question(Program program, String table, StructType columns, int textBytes) {
		this.program = program;
		this.table = table;
		this.columns = columns;
		this.textBytes = textBytes;
		schema = columns;
		places = IntStream.range(0, columns.size()).toArray();
	}

	@Override
	public Predicate[] pushPredicates(Predicate[] predicates) {
		pushed = Arrays.stream(predicates).filter(p -> Conditions.of(p).isPresent()).toArray(Predicate[]::new);
		if (pushed.length > 0)
			options.addAll(List.of("--where", Arrays.stream(pushed).map(p -> Conditions.of(p).get()).collect(Collectors.joining(","))));
		return Arrays.stream(predicates).filter(p -> Conditions.of(p).isEmpty()).toArray(Predicate[]::new);
	}

	@Override
	public Predicate[] pushedPredicates() {
		return pushed;
	}

	@Override
	public void pruneColumns(StructType required) {
		schema = required;
		places = IntStream.range(0, required.size()).toArray();
		String[] names = required.isEmpty() ? new String[] {columns.fieldNames()[0]} : required.fieldNames();
		options.addAll(List.of("--columns", String.join(",", names)));
	}

	@Override
	public boolean pushTopN(SortOrder[] orders, int limit) {
		Optional<StructField> by = orders.length == 1 && !together ? column(orders[0].expression()) : Optional.empty();
		if (by.isEmpty() || by.get().dataType().equals(DataTypes.StringType) || limit < 1 || limit > LIMIT)
			return false;
		options.addAll(List.of("--value", by.get().name(), "--limit", String.valueOf(limit), "--prune", "workers"));
		if (orders[0].direction() == SortDirection.ASCENDING)
			options.add("--ascending");
		if (orders[0].nullOrdering() == NullOrdering.NULLS_FIRST)
			options.add("--nulls-first");
		together = true;
		return true;
	}

	@Override
	public boolean supportCompletePushDown(Aggregation aggregation) {
		return places(aggregation).isPresent();
	}

	@Override
	public boolean pushAggregation(Aggregation aggregation) {
		Optional<int[]> found = places(aggregation);
		if (found.isEmpty())
			return false;
		List<String> keys = keys(aggregation), values = values(aggregation);
		options.addAll(keys.isEmpty() ? List.of("--total") : List.of("--by", String.join(",", keys)));
		if (!values.isEmpty())
			options.addAll(List.of("--value", String.join(",", values), "--double-sums"));
		options.addAll(List.of("--prune", "workers"));
		schema = new StructType();
		for (String key : keys)
			schema = schema.add(columns.apply(key));
		for (AggregateFunc f : aggregation.aggregateExpressions())
			schema = schema.add(f.describe(), type(f));
		places = found.get();
		together = true;
		return true;
	}

	/** Return the places of keys and aggregates in the answer, if the workers compute all of them as Spark defines them. */
	private Optional<int[]> places(Aggregation aggregation) {
		List<String> keys = keys(aggregation), values = values(aggregation);
		AggregateFunc[] functions = aggregation.aggregateExpressions();

		if (keys == null || values == null || !fits(keys)
				|| values.stream().anyMatch(v -> columns.apply(v).dataType().equals(DataTypes.StringType)))
			return Optional.empty();
		int[] found = IntStream.range(0, keys.size() + functions.length).toArray();
		for (int i = 0; i < functions.length; i++) {
			int place = place(functions[i], values);
			if (place < 0)
				return Optional.empty();
			found[keys.size() + i] = keys.size() + place;
		}
		return Optional.of(found);
	}

	/** Return the place of an aggregate after the keys, or -1 if workers do not compute it. Section 3 of doc/query.md has the order. */
	private int place(AggregateFunc f, List<String> values) {
		boolean several = values.size() > 1;

		if (f instanceof CountStar)
			return several || values.isEmpty() || !columns.apply(values.get(0)).nullable() ? 0 : -1;
		int at = (several ? 1 : 0) + 5 * values.indexOf(column(f.children()[0]).get().name());
		DataType type = column(f.children()[0]).get().dataType();
		boolean isDay = type.equals(DataTypes.DateType) || type.equals(DataTypes.TimestampNTZType);
		if (f instanceof Count)
			return at;
		if (f instanceof Sum)
			return isDay ? -1 : at + 1;
		if (f instanceof Min)
			return at + 2;
		if (f instanceof Max)
			return at + 3;
		return type.equals(DataTypes.FloatType) || type.equals(DataTypes.DoubleType) ? at + 4 : -1; // Avg
	}

	/** Return the type of an aggregate in the answer, which Spark casts to its own. */
	private DataType type(AggregateFunc f) {
		if (f instanceof Count || f instanceof CountStar)
			return DataTypes.LongType;
		StructField c = column(f.children()[0]).get();
		if (f instanceof Avg || f instanceof Sum && c.dataType().equals(DataTypes.FloatType))
			return DataTypes.DoubleType;
		if (f instanceof Sum && !c.dataType().equals(DataTypes.DoubleType))
			return new DecimalType(38, c.dataType() instanceof DecimalType d ? d.scale() : 0);
		return c.dataType();
	}

	private Optional<StructField> column(Expression e) {
		return e instanceof NamedReference r && r.fieldNames().length == 1 ? Optional.of(columns.apply(r.fieldNames()[0])) : Optional.empty();
	}

	/** Return the names of the columns of GROUP BY, or null if one is an expression. */
	private List<String> keys(Aggregation aggregation) {
		List<String> names = new ArrayList<>();
		for (Expression e : aggregation.groupByExpressions()) {
			if (column(e).isEmpty())
				return null;
			names.add(column(e).get().name());
		}
		return names;
	}

	/** Return the names of the columns that are aggregated, or null if an aggregate is of another kind. */
	private List<String> values(Aggregation aggregation) {
		Set<String> names = new LinkedHashSet<>();
		for (AggregateFunc f : aggregation.aggregateExpressions()) {
			boolean distinct = f instanceof Count c && c.isDistinct() || f instanceof Sum s && s.isDistinct() || f instanceof Avg a && a.isDistinct();
			if (f instanceof CountStar)
				continue;
			if (distinct || !(f instanceof Count || f instanceof Sum || f instanceof Min || f instanceof Max || f instanceof Avg)
					|| column(f.children()[0]).isEmpty())
				return null;
			names.add(column(f.children()[0]).get().name());
		}
		return new ArrayList<>(names);
	}

	/** Return whether the keys have room, beside a byte that tells several values apart. A text has its bytes and one more. */
	private boolean fits(List<String> keys) {
		int bytes = 0;
		for (String key : keys) {
			DataType type = columns.apply(key).dataType();
			bytes += (columns.apply(key).nullable() ? 1 : 0) + (type.equals(DataTypes.StringType) ? textBytes + 1 : type.defaultSize());
		}
		return bytes < KEY_BYTES;
	}

	/** The options of the program for a partition. */
	record Part(Program program, String table, String workers, List<String> options, int[] places) implements InputPartition, Serializable {
		@Override
		public String[] preferredLocations() {
			return workers.contains(",") ? new String[] {} : new String[] {workers.replaceFirst(":\\d+$", "")};
		}
	}

	private record Asked(Program program, String table, StructType readSchema, List<String> options, int[] places, boolean together)
			implements Scan, Batch {
		@Override
		public String description() {
			return "fpisa query run " + table + " " + String.join(" ", options);
		}

		@Override
		public Batch toBatch() {
			return this;
		}

		@Override
		public InputPartition[] planInputPartitions() {
			String[] parts = together ? new String[] {program.workers} : program.workers.split(",");
			return Arrays.stream(parts).map(workers -> new Part(program, table, workers, options, places)).toArray(InputPartition[]::new);
		}

		@Override
		public PartitionReaderFactory createReaderFactory() {
			return new Rows();
		}
	}

	@Override
	public Scan build() {
		if (!together)
			options.addAll(List.of("--prune", "none"));
		return new Asked(program, table, schema, new ArrayList<>(options), places, together);
	}
}
