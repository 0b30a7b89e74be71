// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The process group "fpisa" of torch.distributed: all-reduce of floating-point
 * tensors by a group of libfpisa (session.hpp), all other calls by an inner Gloo.
 * fpisa/torch/__init__.py creates both and registers the process group. Torch 1
 * expects a ProcessGroup, torch 2 a Backend, whose methods are the same.
 */
#include <torch/version.h>

#include <ATen/MemoryOverlap.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <torch/csrc/utils/pybind.h>

#include "session.hpp"
#include "views.hpp"

namespace fpisa_torch
{

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;
using Pending = c10::intrusive_ptr<c10d::Work>;

/* Return the type in libfpisa, or false if libfpisa does not have it. Complex numbers are two values each. */
static bool type_of(at::ScalarType type, enum fpisa_dtype *out)
{
	switch (type) {
	case at::kFloat:
	case at::kComplexFloat:
		*out = FPISA_FLOAT32;
		return true;
	case at::kHalf:
		*out = FPISA_FLOAT16;
		return true;
	case at::kBFloat16:
		*out = FPISA_BFLOAT16;
		return true;
	case at::kDouble:
	case at::kComplexDouble:
		*out = FPISA_FLOAT64;
		return true;
	default:
		return false;
	}
}

static bool operation_of(const c10d::ReduceOp &op, enum fpisa_operation *out)
{
	switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
	case c10d::ReduceOp::SUM:
		*out = FPISA_SUM;
		return true;
	case c10d::ReduceOp::AVG:
		*out = FPISA_AVG;
		return true;
	case c10d::ReduceOp::MIN:
		*out = FPISA_MIN;
		return true;
	case c10d::ReduceOp::MAX:
		*out = FPISA_MAX;
		return true;
	default:
		return false;
	}
}

/*
 * Return the values of the tensors one after the other. A single contiguous
 * tensor is returned itself, unless its memory has the values negated or
 * conjugated: such a view, as of x.conj().imag, is contiguous as well.
 */
static at::Tensor values_of(const Tensors &tensors)
{
	at::NoGradGuard no_grad;
	Tensors flat;

	if (tensors.size() == 1)
		return tensors[0].resolve_conj().resolve_neg().contiguous();
	for (const auto &t : tensors)
		flat.push_back(t.resolve_conj().resolve_neg().reshape(-1));
	return at::cat(flat);
}

class Backend final : public Base
{
      public:
	/* Take over the group, which Python has joined and whose address `group` is. */
	Backend(c10::intrusive_ptr<Base> inner, uintptr_t group, int rank, int size, std::vector<int64_t> ranks)
	    : Base(rank, size), inner_(std::move(inner)),
	      session_(std::make_shared<Session>(reinterpret_cast<struct fpisa_group *>(group), std::move(ranks)))
	{
		session_->run();
	}

	~Backend() override
	{
		if (PyGILState_Check()) {
			py::gil_scoped_release released;
			session_->leave();
		} else {
			session_->leave();
		}
	}

	Session &session()
	{
		return *session_;
	}

	const std::string getBackendName() const override
	{
		return "fpisa";
	}

	Pending allreduce(Tensors &tensors, const c10d::AllreduceOptions &o) override
	{
		enum fpisa_operation op;
		enum fpisa_dtype type;

		check(tensors);
		/* Several tensors belong to one rank: Gloo adds them to each other. */
		if (tensors.size() != 1 || !ours(tensors, o.reduceOp, &type, &op))
			return inner_->allreduce(for_gloo(tensors), o);
		return reduce_all(tensors, type, op);
	}

	Pending allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &o) override
	{
		enum fpisa_operation op;
		enum fpisa_dtype type;

		check(tensors);
		if (!ours(tensors, o.reduceOp, &type, &op))
			return inner_->allreduce_coalesced(for_gloo(tensors), o);
		return reduce_all(tensors, type, op);
	}

	/* -- calls of Gloo --------------------------------------------------------- */

	Pending broadcast(Tensors &tensors, const c10d::BroadcastOptions &o) override
	{
		return inner_->broadcast(tensors, o);
	}

	Pending reduce(Tensors &tensors, const c10d::ReduceOptions &o) override
	{
		return inner_->reduce(tensors, o);
	}

	Pending allgather(Lists &out, Tensors &in, const c10d::AllgatherOptions &o) override
	{
		return inner_->allgather(out, in, o);
	}

	Pending _allgather_base(at::Tensor &out, at::Tensor &in, const c10d::AllgatherOptions &o) override
	{
		return inner_->_allgather_base(out, in, o);
	}

	Pending allgather_coalesced(Lists &out, Tensors &in, const c10d::AllgatherOptions &o) override
	{
		return inner_->allgather_coalesced(out, in, o);
	}

	Pending gather(Lists &out, Tensors &in, const c10d::GatherOptions &o) override
	{
		return inner_->gather(out, in, o);
	}

	Pending scatter(Tensors &out, Lists &in, const c10d::ScatterOptions &o) override
	{
		return inner_->scatter(out, in, o);
	}

	Pending reduce_scatter(Tensors &out, Lists &in, const c10d::ReduceScatterOptions &o) override
	{
		return inner_->reduce_scatter(out, in, o);
	}

	Pending _reduce_scatter_base(at::Tensor &out, at::Tensor &in, const c10d::ReduceScatterOptions &o) override
	{
		return inner_->_reduce_scatter_base(out, in, o);
	}

	Pending alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &out_sizes,
			      std::vector<int64_t> &in_sizes, const c10d::AllToAllOptions &o) override
	{
		return inner_->alltoall_base(out, in, out_sizes, in_sizes, o);
	}

	Pending alltoall(Tensors &out, Tensors &in, const c10d::AllToAllOptions &o) override
	{
		return inner_->alltoall(out, in, o);
	}

	Pending send(Tensors &tensors, int to, int tag) override
	{
		return inner_->send(tensors, to, tag);
	}

	Pending recv(Tensors &tensors, int from, int tag) override
	{
		return inner_->recv(tensors, from, tag);
	}

	Pending recvAnysource(Tensors &tensors, int tag) override
	{
		return inner_->recvAnysource(tensors, tag);
	}

	Pending barrier(const c10d::BarrierOptions &o) override
	{
		return inner_->barrier(o);
	}

	void monitoredBarrier(const c10d::BarrierOptions &o, bool all) override
	{
		inner_->monitoredBarrier(o, all);
	}

	void setSequenceNumberForGroup() override
	{
		inner_->setSequenceNumberForGroup();
	}

	uint64_t getSequenceNumberForGroup() override
	{
		return inner_->getSequenceNumberForGroup();
	}

#if TORCH_VERSION_MAJOR >= 2
	Pending allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &o) override
	{
		return inner_->allreduce_sparse(tensors, o);
	}

	Pending allgather_into_tensor_coalesced(Tensors &out, Tensors &in, const c10d::AllgatherOptions &o) override
	{
		return inner_->allgather_into_tensor_coalesced(out, in, o);
	}

	Pending reduce_scatter_tensor_coalesced(Tensors &out, Tensors &in, const c10d::ReduceScatterOptions &o) override
	{
		return inner_->reduce_scatter_tensor_coalesced(out, in, o);
	}
#endif

      private:
	static void check(const Tensors &tensors)
	{
		for (const auto &t : tensors) {
			TORCH_CHECK(t.device().is_cpu(), "fpisa: all_reduce: the tensor is on ", t.device(),
				    "; it must be on a CPU: pass tensor.cpu()");
			TORCH_CHECK(t.layout() != at::kStrided || at::has_internal_overlap(t) != at::MemOverlap::Yes,
				    "fpisa: all_reduce: some values of the tensor share memory, as of expand(); pass "
				    "tensor.contiguous()");
			TORCH_CHECK(!t._is_zerotensor(), "fpisa: all_reduce: the tensor has no memory for results; pass "
							 "tensor.clone()");
		}
	}

	/* Refuse views that Gloo does not sum: it sums the contents of memory. */
	static Tensors &for_gloo(Tensors &tensors)
	{
		for (const auto &t : tensors)
			TORCH_CHECK(!t.is_neg() && !t.is_conj(),
				    "fpisa: all_reduce: the tensor is a negated or conjugated view, "
				    "which Gloo does not sum; pass tensor.resolve_neg().resolve_conj()");
		return tensors;
	}

	/* Return whether libfpisa sums the tensors, which have one type. */
	static bool ours(const Tensors &tensors, const c10d::ReduceOp &reduce, enum fpisa_dtype *type,
			 enum fpisa_operation *op)
	{
		if (tensors.empty() || !operation_of(reduce, op) || !type_of(tensors[0].scalar_type(), type))
			return false;
		if (tensors[0].is_complex() && *op != FPISA_SUM && *op != FPISA_AVG)
			return false;
		for (const auto &t : tensors)
			if (t.layout() != at::kStrided || t.scalar_type() != tensors[0].scalar_type())
				return false;
		return true;
	}

	Pending reduce_all(const Tensors &tensors, enum fpisa_dtype type, enum fpisa_operation op)
	{
		const uint64_t number = session_->count_call();
		auto call = c10::make_intrusive<Call>(getRank(), tensors, values_of(tensors));

		session_->start(call, type, op, number);
		return call;
	}

	c10::intrusive_ptr<Base> inner_;
	std::shared_ptr<Session> session_;
};

} // namespace fpisa_torch

TORCH_LIBRARY_IMPL(c10d, Negative, library)
{
	fpisa_torch::pass_views<fpisa_torch::Backend, c10::DispatchKey::Negative>(library);
}

TORCH_LIBRARY_IMPL(c10d, Conjugate, library)
{
	fpisa_torch::pass_views<fpisa_torch::Backend, c10::DispatchKey::Conjugate>(library);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
	using fpisa_torch::Backend;

	py::class_<Backend, c10::intrusive_ptr<Backend>, fpisa_torch::Base>(m, "ProcessGroup")
		.def(py::init<c10::intrusive_ptr<fpisa_torch::Base>, uintptr_t, int, int, std::vector<int64_t>>(),
		     py::arg("inner"), py::arg("group"), py::arg("rank"), py::arg("size"), py::arg("ranks"),
		     py::call_guard<py::gil_scoped_release>())
		.def("take_flags", [](Backend &b) { return b.session().take_flags(); });
	m.def("leave_all", fpisa_torch::Session::leave_all, py::call_guard<py::gil_scoped_release>());
}
