// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
package io.fpisa.spark;

import java.io.Externalizable;
import java.io.IOException;
import java.io.ObjectInput;
import java.io.ObjectOutput;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The exact sum of doubles. The limbs are 32 bits apart and start at 2^-1074, as in include/fpisa/superacc.h.
 * doc/partial.md describes the format of the bytes. Results are rounded once.
 */
public final class ExactSum implements Externalizable {
	private static final int LIMBS = 70;
	private static final int QUANTUM = -1074;
	private static final int ADDS = 512; // each add changes a limb by less than 2^53
	private static final int NEGATIVE = 1, SPECIALS = 2;
	private static final int HEAD = 16, COUNTS = 24, MAGNITUDE = 272;
	private static final long LOW = 0xffffffffL;

	private final long[] limb = new long[LIMBS];
	private int waiting;
	private long rows, nan, positive, negative;

	public void add(double x) {
		long bits = Double.doubleToRawLongBits(x), m = bits & ((1L << 52) - 1);
		int e = (int) (bits >>> 52) & 2047;

		rows++;
		if (e == 2047) {
			if (m != 0)
				nan++;
			else if (bits < 0)
				negative++;
			else
				positive++;
			return;
		}
		if (e != 0)
			m |= 1L << 52;
		if (bits < 0)
			m = -m;
		int place = Math.max(e, 1) - 1, shift = place & 31;
		limb[place >> 5] += m << shift & LOW;
		limb[(place >> 5) + 1] += m >> (32 - shift);
		if (++waiting == ADDS)
			carry();
	}

	private void carry() {
		long carry = 0;

		for (int i = 0; i < LIMBS - 1; i++) {
			carry += limb[i];
			limb[i] = carry & LOW;
			carry >>= 32;
		}
		limb[LIMBS - 1] += carry;
		waiting = 0;
	}

	public ExactSum merge(ExactSum other) {
		carry();
		other.carry();
		for (int i = 0; i < LIMBS; i++)
			limb[i] += other.limb[i];
		waiting = 1;
		rows = Math.addExact(rows, other.rows);
		nan += other.nan;
		positive += other.positive;
		negative += other.negative;
		return this;
	}

	/**
	 * * Return the sum as an integer in units of 2^-1074.
	 */
	private BigInteger units() {
		carry();
		ByteBuffer bytes = ByteBuffer.allocate(8 + 4 * (LIMBS - 1)).putLong(limb[LIMBS - 1]);
		for (int i = LIMBS - 2; i >= 0; i--)
			bytes.putInt((int) limb[i]);
		return new BigInteger(bytes.array());
	}

	public long rows() {
		return rows;
	}

	/** Return the sum, rounded once to nearest even. */
	public double value() {
		if (nan > 0 || positive > 0 && negative > 0)
			return Double.NaN;
		if (positive > 0 || negative > 0)
			return positive > 0 ? Double.POSITIVE_INFINITY : Double.NEGATIVE_INFINITY;
		BigInteger units = units(), size = units.abs();
		int drop = Math.max(0, size.bitLength() - 53);
		long m = size.shiftRight(drop).longValueExact();
		if (drop > 0 && size.testBit(drop - 1) && (size.getLowestSetBit() < drop - 1 || (m & 1) != 0))
			m++;
		return units.signum() * Math.scalb((double) m, drop + QUANTUM);
	}

	public byte[] toBytes() {
		BigInteger units = units(), size = units.abs();
		boolean special = (nan | positive | negative) != 0;
		int low = units.signum() == 0 ? 0 : size.getLowestSetBit();
		size = size.shiftRight(low);
		int magnitude = (size.bitLength() + 7) / 8;
		ByteBuffer out = ByteBuffer.allocate(HEAD + (special ? COUNTS : 0) + magnitude).order(ByteOrder.LITTLE_ENDIAN);

		out.put((byte) 'F').put((byte) 'S').put((byte) 1);
		out.put((byte) ((units.signum() < 0 ? NEGATIVE : 0) | (special ? SPECIALS : 0)));
		out.putShort((short) (magnitude == 0 ? 0 : low + QUANTUM)).putShort((short) 0).putLong(rows);
		if (special)
			out.putLong(nan).putLong(positive).putLong(negative);
		byte[] big = size.toByteArray();
		for (int i = 0; i < magnitude; i++)
			out.put(big[big.length - 1 - i]);
		return out.array();
	}

	/** Parse a partial. Throw IllegalArgumentException if the bytes are not a partial of doubles. */
	public static ExactSum fromBytes(byte[] bytes) {
		ExactSum made = new ExactSum();
		ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
		if (bytes.length < HEAD || in.get() != 'F' || in.get() != 'S' || in.get() != 1)
			throw new IllegalArgumentException("partial: the version is not 1");
		int flags = in.get();
		int exponent = in.getShort();
		if ((flags & ~(NEGATIVE | SPECIALS)) != 0 || in.getShort() != 0)
			throw new IllegalArgumentException("partial: version 1 does not have these flags");
		made.rows = in.getLong();
		if ((flags & SPECIALS) != 0) {
			if (in.remaining() < COUNTS)
				throw new IllegalArgumentException("partial: the bytes are cut short");
			made.nan = in.getLong();
			made.positive = in.getLong();
			made.negative = in.getLong();
		}
		made.checkCounts();
		byte[] big = new byte[in.remaining() + 1];
		for (int i = big.length - 1; i > 0; i--)
			big[i] = in.get();
		made.place(new BigInteger(big), exponent - QUANTUM, (flags & NEGATIVE) != 0, big.length - 1);
		return made;
	}

	private void checkCounts() {
		long finite = rows;
		for (long count : new long[] {nan, positive, negative}) {
			if (rows < 0 || count < 0 || count > finite)
				throw new IllegalArgumentException("partial: the counts contradict each other");
			finite -= count;
		}
	}

	private void place(BigInteger magnitude, int at, boolean minus, int bytes) {
		BigInteger finite = BigInteger.valueOf(rows - nan - positive - negative);
		if (bytes > MAGNITUDE || (at < 0 && magnitude.signum() != 0 && magnitude.getLowestSetBit() < -at)
				|| magnitude.bitLength() + at > 32 * (LIMBS - 2))
			throw new IllegalArgumentException("partial: the bytes are not a sum of doubles");
		BigInteger units = magnitude.shiftLeft(at);
		if (units.signum() != 0 && units.shiftRight(1024 - QUANTUM).compareTo(finite) >= 0)
			throw new IllegalArgumentException("partial: the sum is too large for the number of doubles");
		for (int i = 0; i < LIMBS && units.signum() != 0; i++) {
			long digit = units.longValue() & LOW;
			limb[i] = minus ? -digit : digit;
			units = units.shiftRight(32);
		}
	}

	@Override
	public void writeExternal(ObjectOutput out) throws IOException {
		byte[] bytes = toBytes();
		out.writeInt(bytes.length);
		out.write(bytes);
	}

	@Override
	public void readExternal(ObjectInput in) throws IOException {
		byte[] bytes = new byte[in.readInt()];
		in.readFully(bytes);
		ExactSum read = fromBytes(bytes);
		System.arraycopy(read.limb, 0, limb, 0, LIMBS);
		rows = read.rows;
		nan = read.nan;
		positive = read.positive;
		negative = read.negative;
	}
}
