// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Combine several works into one work, which endCoalescing() returns. */
#ifndef FPISA_TORCH_TOGETHER_HPP
#define FPISA_TORCH_TOGETHER_HPP

#include <algorithm>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace fpisa_torch
{

class Together final : public c10d::Work
{
      public:
	Together(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
	    : Work(rank, c10d::OpType::UNKNOWN), works_(std::move(works))
	{
	}

	bool isCompleted() override
	{
		return std::all_of(works_.begin(), works_.end(), [](auto &w) { return w->isCompleted(); });
	}

	bool isSuccess() const override
	{
		return std::all_of(works_.begin(), works_.end(), [](auto &w) { return w->isSuccess(); });
	}

	/* Wait for each work, for at most `timeout` each. */
	bool wait(std::chrono::milliseconds timeout = kNoTimeout) override
	{
		for (auto &w : works_)
			w->wait(timeout);
		return true;
	}

      private:
	std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

} // namespace fpisa_torch

#endif
