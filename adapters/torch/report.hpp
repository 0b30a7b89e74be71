// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts of a process group's calls by operation: the number of calls, their bytes, and the reason if an inner backend
 * (Gloo, NCCL) made the call. The first floating-point reduction by an inner backend logs a warning to Python's logger
 * "fpisa.torch", because its sum may have other bits than libfpisa's. The first other call logs a message of level INFO.
 */
#ifndef FPISA_TORCH_REPORT_HPP
#define FPISA_TORCH_REPORT_HPP

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>

namespace fpisa_torch
{

class Report
{
      public:
	/* operation, "fpisa", "gloo" or "nccl", calls, bytes of the tensors passed, reason or "" */
	using Row = std::tuple<std::string, std::string, uint64_t, uint64_t, std::string>;

	void ours(const char *operation, const std::vector<at::Tensor> &tensors)
	{
		count(operation, "fpisa", "", tensors);
	}

	/* Count a call that the inner backend `by` makes. `sums` tells whether the call computes values. */
	void inner(const std::string &by, const char *operation, const std::string &why,
		   const std::vector<at::Tensor> &tensors, bool sums = false)
	{
		const bool warns =
			sums && !tensors.empty() && (tensors[0].is_floating_point() || tensors[0].is_complex());

		count(operation, by, why, tensors);
		if (first(warns))
			log(warns ? "warning" : "info", std::string("fpisa: ") + operation + " by " +
								(by == "nccl" ? "NCCL" : "Gloo") + ": " + why +
								"; fpisa.torch.report() counts such calls");
	}

	std::vector<Row> rows()
	{
		std::lock_guard<std::mutex> lock(lock_);
		std::vector<Row> rows;

		for (const auto &[key, n] : counts_)
			rows.emplace_back(std::get<0>(key), std::get<1>(key), n.first, n.second, std::get<2>(key));
		return rows;
	}

      private:
	void count(const char *operation, const std::string &by, const std::string &why,
		   const std::vector<at::Tensor> &tensors)
	{
		std::lock_guard<std::mutex> lock(lock_);
		auto &n = counts_[{operation, by, why}];

		n.first++;
		for (const auto &t : tensors)
			n.second += (uint64_t)t.numel() * t.element_size();
	}

	bool first(bool warns)
	{
		std::lock_guard<std::mutex> lock(lock_);
		return !std::exchange(told_[warns], true);
	}

	static void log(const char *level, const std::string &text)
	{
		py::gil_scoped_acquire locked;

		py::module_::import("logging").attr("getLogger")("fpisa.torch").attr(level)("%s", text);
	}

	std::mutex lock_;
	std::map<std::tuple<std::string, std::string, std::string>, std::pair<uint64_t, uint64_t>> counts_;
	std::array<bool, 2> told_{};
};

} // namespace fpisa_torch

#endif
