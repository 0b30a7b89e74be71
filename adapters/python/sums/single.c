/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sum one Python object in one call. For small arrays, getting their memory in Python would take longer than adding. */
#include <math.h>

#include "internal.h"

#define STRIDED_FORMAT 0x1c   /* PyBUF_STRIDES and PyBUF_FORMAT */
#define HELD_BYTES (64 << 10) /* up to this size, releasing the lock takes longer than the sum */

/* Return the type, or SUMS_TYPES if the format is not a floating-point type of the machine. */
static int type_of(const char *format)
{
	if (!format || !format[0] || format[1])
		return SUMS_TYPES;
	switch (format[0]) {
	case 'd':
		return SUMS_FLOAT64;
	case 'f':
		return SUMS_FLOAT32;
	case 'e':
		return SUMS_FLOAT16;
	default:
		return SUMS_TYPES;
	}
}

static double result_of(const struct sums_array *x, int average)
{
	union fpisa_superacc_full a;
	__u64 bits;
	double sum;

	sums_init(&a);
	(void)sums_add(&a, x);
	bits = sums_read(&a, FPISA_FORMAT_FP64, average);
	memcpy(&sum, &bits, sizeof(sum));
	return sum;
}

double sums_once(void *object, int average, const struct sums_python *python)
{
	struct sums_view view;
	double sum = NAN;

	if (python->get_buffer(object, &view, STRIDED_FORMAT))
		return NAN;
	if (view.ndim == 1 && type_of(view.format) != SUMS_TYPES) {
		const struct sums_array x = {view.memory, view.shape[0], view.stride[0], NULL, 0, type_of(view.format)};
		void *thread = view.bytes > HELD_BYTES ? python->save_thread() : NULL;

		sum = result_of(&x, average);
		if (thread)
			python->restore_thread(thread);
	}
	python->release_buffer(&view);
	return sum;
}
