// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Tensors on an accelerator that contain sums of a failed in-place call instead of input. The sum of such a tensor would be
 * wrong, so a later call is refused until the program writes the tensor, as libfpisa does for memory of the host.
 */
#ifndef FPISA_TORCH_UNCLEAN_HPP
#define FPISA_TORCH_UNCLEAN_HPP

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include <ATen/ATen.h>

namespace fpisa_torch
{

class Unclean
{
      public:
	/*
	 * Remember a contiguous tensor until an operation of PyTorch writes it, which changes its version, or its memory is
	 * freed. Tensors of inference_mode() do not have versions, and are not remembered.
	 */
	static void remember(const at::Tensor &tensor)
	{
		const auto &version = tensor.unsafeGetTensorImpl()->version_counter();
		const auto *begin = static_cast<const char *>(tensor.data_ptr());

		if (!version.enabled())
			return;
		std::lock_guard<std::mutex> lock(lock_of_all());
		all().push_back({tensor.storage().getWeakStorageImpl(), begin, begin + tensor.nbytes(), version,
				 version.current_version()});
	}

	/* Throw an error if the tensor has a part that is remembered. */
	static void refuse(const at::Tensor &tensor)
	{
		const auto *begin = static_cast<const char *>(tensor.data_ptr()), *end = begin + tensor.nbytes();
		std::lock_guard<std::mutex> lock(lock_of_all());
		auto &left = all();

		left.erase(std::remove_if(left.begin(), left.end(), [](const Range &r) { return r.written(); }),
			   left.end());
		TORCH_CHECK(std::none_of(left.begin(), left.end(),
					 [&](const Range &r) { return begin < r.end && r.begin < end; }),
			    "fpisa: the tensor contains sums of a failed in-place call instead of input; write the "
			    "input again, for example with tensor.copy_()");
	}

      private:
	struct Range {
		c10::weak_intrusive_ptr<c10::StorageImpl> storage;
		const char *begin, *end;
		c10::VariableVersion version; /* shared by all views of the tensor */
		uint32_t left;		      /* the version at the failure */

		bool written() const
		{
			return storage.expired() || version.current_version() != left;
		}
	};

	static std::mutex &lock_of_all()
	{
		static std::mutex lock;
		return lock;
	}

	static std::vector<Range> &all()
	{
		static std::vector<Range> all;
		return all;
	}
};

} // namespace fpisa_torch

#endif
