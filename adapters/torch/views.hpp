// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * All-reduce and broadcast of a negated or conjugated view, such as x.conj().imag. PyTorch's
 * dispatcher passes a resolved copy of the view to a collective, so the result
 * does not reach the view. These kernels pass the view itself to a process
 * group that supports views. Other process groups still get a copy.
 */
#ifndef FPISA_TORCH_VIEWS_HPP
#define FPISA_TORCH_VIEWS_HPP

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/custom_class.h>
#include <torch/library.h>

namespace fpisa_torch
{

/* Return whether the argument is a process group that uses a `Backend` for tensors on a CPU. */
template <class Backend> bool is_of(const c10::IValue &value)
{
	if (!value.isCustomClass() ||
	    *value.type() != *c10::getCustomClassType<c10::intrusive_ptr<c10d::ProcessGroup>>())
		return false;
	auto group = value.toCustomClass<c10d::ProcessGroup>();
#if TORCH_VERSION_MAJOR >= 2
	try {
		return dynamic_cast<Backend *>(group->getBackend(c10::DeviceType::CPU).get());
	} catch (const c10::Error &) {
		return false; /* the process group does not have a backend for CPUs */
	}
#else
	return dynamic_cast<Backend *>(group.get());
#endif
}

/* Handle calls with dispatch key `key`, and call the next kernel. */
template <class Backend, c10::DispatchKey key>
void pass_view(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
	auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
	bool taken = false;

	for (const auto &value : arguments)
		taken |= is_of<Backend>(value);
	for (const auto &value : arguments) {
		if (taken || !value.isTensorList())
			continue;
		auto tensors = value.toTensorList();
		for (size_t i = 0; i < tensors.size(); i++)
			tensors.set(i, tensors.get(i).resolve_conj().resolve_neg());
	}
	op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), stack);
}

template <class Backend, c10::DispatchKey key> void pass_views(torch::Library &library)
{
	library.impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&pass_view<Backend, key>>());
	library.impl("broadcast_", torch::CppFunction::makeFromBoxedFunction<&pass_view<Backend, key>>());
#if TORCH_VERSION_MAJOR >= 2
	library.impl("allreduce_coalesced_", torch::CppFunction::makeFromBoxedFunction<&pass_view<Backend, key>>());
#endif
}

} // namespace fpisa_torch

#endif
