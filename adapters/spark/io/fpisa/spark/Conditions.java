// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
package io.fpisa.spark;

import java.time.LocalDate;
import java.util.Map;
import java.util.Optional;

import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;

/** Conditions in the form of `--where`. A condition without such a form stays with Spark. */
final class Conditions {
	private static final Map<String, String> COMPARISONS = Map.of("=", "=", "<>", "<>", "<", "<", "<=", "<=", ">", ">", ">=", ">=");
	private static final Map<String, String> MIRRORED = Map.of("=", "=", "<>", "<>", "<", ">", "<=", ">=", ">", "<", ">=", "<=");

	private Conditions() {
	}

	static Optional<String> of(Predicate predicate) {
		Expression[] of = predicate.children();
		Optional<String> column = of.length > 0 ? column(of[0]) : Optional.empty();

		switch (predicate.name()) {
		case "AND":
			return of((Predicate) of[0]).flatMap(a -> of((Predicate) of[1]).map(b -> a + "," + b));
		case "NOT": // so Spark writes <>
			return of[0] instanceof Predicate equal && equal.name().equals("=") ? of(new Predicate("<>", equal.children())) : Optional.empty();
		case "IS_NULL":
			return column.map(c -> c + " null");
		case "IS_NOT_NULL":
			return column.map(c -> c + " not null");
		default:
			return column.isPresent() ? comparison(COMPARISONS, predicate.name(), column, of, 1)
					: comparison(MIRRORED, predicate.name(), of.length > 1 ? column(of[1]) : column, of, 0);
		}
	}

	private static Optional<String> comparison(Map<String, String> operators, String name, Optional<String> column, Expression[] of, int value) {
		String operator = operators.get(name);
		if (operator == null || of.length != 2 || !(of[value] instanceof Literal<?> literal))
			return Optional.empty();
		return column.flatMap(c -> text(literal).map(v -> c + operator + v));
	}

	private static Optional<String> column(Expression e) {
		return e instanceof NamedReference r && r.fieldNames().length == 1 ? Optional.of(r.fieldNames()[0]) : Optional.empty();
	}

	/** Return whether a text can be an argument of a program. In a locale without UTF-8, Java replaces other characters by '?'. */
	private static boolean fits(String text) {
		return text.chars().allMatch(c -> c > 0 && c < 128);
	}

	/** Write a value as in the workers' files. */
	private static Optional<String> text(Literal<?> literal) {
		Object value = literal.value();
		DataType type = literal.dataType();

		if (value == null)
			return Optional.empty();
		if (type.equals(DataTypes.StringType))
			return Optional.of(value.toString()).filter(Conditions::fits).map(s -> "'" + s.replace("'", "''") + "'");
		if (type.equals(DataTypes.DateType))
			return Optional.of(LocalDate.ofEpochDay((Integer) value).toString());
		if (type.equals(DataTypes.FloatType) || type.equals(DataTypes.DoubleType))
			return Optional.of(Double.toString(((Number) value).doubleValue()));
		if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType))
			return Optional.of(value.toString());
		if (value instanceof Decimal decimal)
			return Optional.of(decimal.toJavaBigDecimal().toPlainString());
		return Optional.empty();
	}
}
