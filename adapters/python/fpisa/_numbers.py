# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Convert Python numbers one by one. Refuse numbers that cannot be converted exactly."""
from __future__ import annotations

import array
import decimal
import functools
import itertools
import numbers
from typing import Any, Iterable, List, Optional, Set, Tuple

from ._blocks import Values, Whole, split, strides_of, with_nulls
from ._core import exactly
from ._scalars import plain

PLAIN = {int, float, complex, decimal.Decimal, type(None)}
MOST_EXPONENT = 10000  # limit for a Decimal in a list, because an exact sum has a digit for each power of ten


def exact_float(x: Any) -> float:
    if isinstance(x, (str, bytes)):
        raise TypeError(f"a value is {x!r}; values must be numbers")
    value = float(x)
    if value != x and x == x:
        raise OverflowError(f"{x} is not a float64; sum integers and decimals separately from floats")
    return value


def of_floats(items: List[Any], types: Set[type]) -> array.array:
    return array.array("d", items if types <= {float} else map(exact_float, items))


def of_complex(items: List[Any]) -> array.array:
    halves = ((x.real, x.imag) if isinstance(x, numbers.Complex) else (x, 0) for x in items)
    return array.array("d", map(exact_float, itertools.chain.from_iterable(halves)))


def of_integers(items: List[Any]) -> Tuple[str, array.array]:
    """Return the integers in a type that can represent all of them, or else as float64."""
    for type_, code in ("int64", "q"), ("uint64", "Q"):
        try:
            return type_, array.array(code, items)
        except OverflowError:
            pass
    return "float64", array.array("d", map(exact_float, items))


EXACT = decimal.Context(decimal.MAX_PREC, decimal.ROUND_HALF_EVEN, decimal.MIN_EMIN, decimal.MAX_EMAX, traps=[decimal.Inexact])


def of_decimals(items: List[Any]) -> Values:
    """Return decimals as values. The list may also contain integers and nulls."""
    these = items
    if set(map(type, items)) != {decimal.Decimal}:
        these = [x if isinstance(x, decimal.Decimal) else decimal.Decimal(int(x)) for x in items if x is not None]
    if not all(map(decimal.Decimal.is_finite, these)):
        raise TypeError("a Decimal is not finite; cast the values to float64")
    if max(map(abs, map(decimal.Decimal.adjusted, these))) > MOST_EXPONENT:
        raise OverflowError(f"a Decimal has an exponent beyond {MOST_EXPONENT} in size; cast the values to float64")
    total = functools.reduce(EXACT.add, these[1:], EXACT.plus(these[0]))  # with the smallest exponent of all, even if a zero has it
    scale = -int(total.as_tuple().exponent)

    def units() -> List[Optional[int]]:
        return [None if x is None else int(EXACT.scaleb(decimal.Decimal(x), scale)) for x in items]

    return Values([], [], False, Whole(int(EXACT.scaleb(total, scale)), scale, len(these), False, units))


def validity(items: List[Any]) -> bytes:
    """Return Arrow's validity bitmap. The bit of an item is 0 if the item is None."""
    digits = b"".join(b"0" if x is None else b"1" for x in reversed(items))
    return int(digits or b"0", 2).to_bytes(len(items) // 8 + 1, "little")


def of_numbers(these: Iterable[Any], shape: Optional[Tuple[int, ...]] = None) -> Values:
    """Return Python numbers as values, with None as a null."""
    items = list(these)
    with exactly():
        return of_items(items, shape)


def of_items(items: List[Any], shape: Optional[Tuple[int, ...]]) -> Values:
    if not set(map(type, items)) <= PLAIN:
        items = list(map(plain, items))
    there = [x for x in items if x is not None]
    types = set(map(type, there))
    integers = bool(types) and all(issubclass(t, numbers.Integral) for t in types)
    if decimal.Decimal in types and all(issubclass(t, (decimal.Decimal, numbers.Integral)) for t in types):
        return of_decimals(items)
    made_of = items if len(there) == len(items) else [0 if x is None else x for x in items]
    if any(issubclass(t, numbers.Complex) and not issubclass(t, numbers.Real) for t in types):
        type_, made = "complex128", of_complex(made_of)
    elif integers:
        try:
            type_, made = of_integers(made_of)
        except OverflowError:
            return Values([], [], True, Whole(sum(map(int, there)), 0, len(there), True, lambda: [None if x is None else int(x) for x in items]))
    else:
        type_, made = "float64", of_floats(made_of, types)
    shape = (len(items),) if shape is None else shape
    v = split(type_, made.buffer_info()[0], shape, strides_of(shape, 16 if type_ == "complex128" else 8), made)._replace(integers=integers)
    return v if made_of is items else with_nulls(v, validity(items))
