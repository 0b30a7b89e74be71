// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The process group "fpisa" of torch.distributed: all-reduce, reduce-scatter and
 * reduce of floating-point tensors by a libfpisa group (group.hpp), broadcast by
 * the group if an option says so, and all other calls by an inner Gloo process
 * group. fpisa/torch/__init__.py creates both and registers the process group.
 * PyTorch 1 expects a ProcessGroup and PyTorch 2 a Backend. Both have the same
 * methods.
 */
#include <torch/version.h>

#include <ATen/MemoryOverlap.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/functional.h>

#include "group.hpp"
#include "report.hpp"
#include "together.hpp"
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
using Milliseconds = std::chrono::milliseconds;
/*
 * Join a group as the given rank of the given size, with the options of the current process group. The last argument
 * lists the group's ranks in the world.
 */
using Join = std::function<c10::intrusive_ptr<Base>(c10::intrusive_ptr<c10d::Store>, int, int, Milliseconds,
						    std::vector<int64_t>)>;

static const char NOT_OURS[] = "fpisa reduces, and leaves the movement of data to Gloo";

/* Return the libfpisa type, or false if libfpisa does not have the type. A complex number is two values. */
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
	case c10d::ReduceOp::PREMUL_SUM: /* libfpisa sums products that the rank has computed */
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
 * tensor is returned itself. Views that negate or conjugate the values in
 * memory are resolved first, because a view such as x.conj().imag is contiguous
 * as well.
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

/*
 * Multiply each tensor by the factor of PREMUL_SUM and return the products. For other operations return the tensors
 * themselves.
 */
static Tensors multiplied(const Tensors &tensors, const c10d::ReduceOp &op)
{
	at::NoGradGuard no_grad;
	Tensors products;

	if (static_cast<c10d::ReduceOp::RedOpType>(op) != c10d::ReduceOp::PREMUL_SUM)
		return tensors;
	auto *factor = dynamic_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
	TORCH_CHECK(factor, "fpisa: PREMUL_SUM has no factor; create it with "
			    "torch.distributed._make_nccl_premul_sum()");
#if TORCH_VERSION_MAJOR >= 2
	const bool scalar = !factor->tensor_factor.defined();
#else
	const bool scalar = factor->tensor_factors.empty();
#endif
	TORCH_CHECK(scalar, "fpisa: the factor of PREMUL_SUM is a tensor; pass a number");
	for (const auto &t : tensors)
		products.push_back(t.mul(factor->double_factor));
	return products;
}

/* Return all tensors of all lists in one list. */
static Tensors joined(const Lists &lists)
{
	Tensors all;

	for (const auto &list : lists)
		all.insert(all.end(), list.begin(), list.end());
	return all;
}

/*
 * Return the tensor that receives the result for `out`, which is the part of `values` from element `first` on. Return
 * `out` if `out` is contiguous, and either does not overlap the values or is that part of their memory. Otherwise
 * return a new tensor.
 */
static at::Tensor place_for(const at::Tensor &out, const at::Tensor &values, int64_t first)
{
	const auto *from = (const char *)values.data_ptr(), *to = (const char *)out.data_ptr();
	const auto sent = values.numel() * values.element_size(), received = out.numel() * out.element_size();
	const bool apart = to + received <= from || from + sent <= to;

	if (out.is_contiguous() && !out.is_neg() && !out.is_conj() &&
	    (apart || to == from + first * values.element_size()))
		return out;
	return at::empty(out.sizes(), values.options());
}

/* Set the timeout of a backend's later calls, if this version of PyTorch has setTimeout(). */
template <class Any>
static auto set_timeout(Any &backend, Milliseconds timeout, int) -> decltype(backend.setTimeout(timeout))
{
	return backend.setTimeout(timeout);
}

template <class Any> static void set_timeout(Any &, Milliseconds, long)
{
}

/* The same for methods that connect a backend's device before the first call, and that end the backend. */
template <class Any>
static auto connect_to(Any &backend, const at::Device &device, int) -> decltype(backend.eagerConnectSingleDevice(device))
{
	return backend.eagerConnectSingleDevice(device);
}

template <class Any> static void connect_to(Any &, const at::Device &, long)
{
}

template <class Any> static auto shut_down(Any &backend, int) -> decltype(backend.shutdown())
{
	return backend.shutdown();
}

template <class Any> static void shut_down(Any &, long)
{
}

template <class Any> static auto abort_backend(Any &backend, int) -> decltype(backend.abort())
{
	return backend.abort();
}

template <class Any> static void abort_backend(Any &, long)
{
}

class Backend final : public Base
{
      public:
	/* Take over the group at address `group`, which Python has joined. `broadcasts` is whether libfpisa broadcasts. */
	Backend(c10::intrusive_ptr<Base> inner, c10::intrusive_ptr<Base> inner_of_gpus, uintptr_t group, int rank,
		int size, std::vector<int64_t> ranks, Milliseconds timeout, bool broadcasts, Join join)
	    : Base(rank, size), inner_(std::move(inner)), inner_of_gpus_(std::move(inner_of_gpus)),
	      session_(std::make_shared<Session>(reinterpret_cast<struct fpisa_group *>(group), ranks)),
	      ranks_(std::move(ranks)), timeout_(timeout), broadcasts_(broadcasts), join_(std::move(join))
	{
		session_->run();
	}

	~Backend() override
	{
		leave();
		if (getpid() != pid_)
			give_up_inner();
		else if (gpus_apart() && !ended_)
			without_python([this] { abort_gpus(); });
	}

	Session &session()
	{
		return *session_;
	}

	Report &report()
	{
		return report_;
	}

	const std::string getBackendName() const override
	{
		return "fpisa";
	}

	Pending allreduce(Tensors &tensors, const c10d::AllreduceOptions &o) override
	{
		return reduce_or(tensors, "all_reduce", tensors.size() == 1, o.reduceOp,
				 [&](Base &by) { return by.allreduce(tensors, o); });
	}

	Pending allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &o) override
	{
		return reduce_or(tensors, "all_reduce_coalesced", true, o.reduceOp,
				 [&](Base &by) { return by.allreduce_coalesced(tensors, o); });
	}

	/* Only the root's tensor is written. */
	Pending reduce(Tensors &tensors, const c10d::ReduceOptions &o) override
	{
		enum fpisa_operation op;
		enum fpisa_dtype type;

		check(tensors, "reduce");
		if (tensors.size() != 1 || o.rootRank < 0 || o.rootRank >= getSize() ||
		    !ours(tensors, o.reduceOp, &type, &op))
			return by_inner("reduce", tensors, o.reduceOp, [&](Base &by) { return by.reduce(tensors, o); });
		const bool root = getRank() == o.rootRank;
		auto values = values_of(multiplied(tensors, o.reduceOp));
		std::vector<int64_t> parts(getSize());
		parts[o.rootRank] = values.numel();
		report_.ours("reduce", tensors);
		return start(c10d::OpType::REDUCE, "fpisa:reduce", tensors, values,
			     root ? place_for(tensors[0], values, 0) : at::Tensor(), parts, type, op);
	}

	Pending _reduce_scatter_base(at::Tensor &out, at::Tensor &in, const c10d::ReduceScatterOptions &o) override
	{
		Tensors outs{out}, ins{in};

		return scatter_equal("reduce_scatter_tensor", outs, ins, o.reduceOp,
				     [&](Base &by) { return by._reduce_scatter_base(out, in, o); });
	}

	Pending reduce_scatter(Tensors &out, Lists &in, const c10d::ReduceScatterOptions &o) override
	{
		enum fpisa_operation op;
		enum fpisa_dtype type;
		std::vector<int64_t> parts;

		check(out.size() == 1 && in.size() == 1 ? joined({out, in[0]}) : out, "reduce_scatter");
		if (out.size() != 1 || in.size() != 1 || !ours(in[0], o.reduceOp, &type, &op) || !same(out, in[0]))
			return by_inner("reduce_scatter", joined(in), o.reduceOp,
					[&](Base &by) { return by.reduce_scatter(out, in, o); });
		TORCH_CHECK(in[0].size() == (size_t)getSize() && in[0][getRank()].numel() == out[0].numel(),
			    "fpisa: reduce_scatter: pass a tensor for each rank, of which this rank's is as "
			    "large as the output");
		for (const auto &t : in[0])
			parts.push_back(t.numel());
		report_.ours("reduce_scatter", in[0]);
		return start(c10d::OpType::REDUCE_SCATTER, "fpisa:reduce_scatter", out,
			     at::cat(flat(multiplied(in[0], o.reduceOp))),
			     place_for(out[0], at::empty(0, out[0].options()), 0), parts, type, op);
	}

	/* The root's memory is sent as bytes, whatever the type, and only the other ranks' tensors are written. */
	Pending broadcast(Tensors &tensors, const c10d::BroadcastOptions &o) override
	{
		if (!sent_by_us(tensors, o)) {
			refuse_views(tensors, "broadcast");
			return inner("broadcast", tensors).broadcast(tensors, o);
		}
		check_memory(tensors, "broadcast");
		report_.ours("broadcast", tensors);
		const uint64_t number = session_->count_call();
		const bool root = getRank() == o.rootRank;
		const at::Tensor &t = tensors[0];
		auto call = c10::make_intrusive<Call>(
			getRank(), tensors, root ? values_of(tensors) : place_for(t, at::empty(0, t.options()), 0),
			(int)o.rootRank);
		session_->broadcast(call, number);
		return noted(call);
	}

	/* -- calls of Gloo --------------------------------------------------------- */

	Pending allgather(Lists &out, Tensors &in, const c10d::AllgatherOptions &o) override
	{
		return inner("all_gather", in).allgather(out, in, o);
	}

	Pending _allgather_base(at::Tensor &out, at::Tensor &in, const c10d::AllgatherOptions &o) override
	{
		return inner("all_gather_into_tensor", {in})._allgather_base(out, in, o);
	}

	Pending allgather_coalesced(Lists &out, Tensors &in, const c10d::AllgatherOptions &o) override
	{
		return inner("all_gather_coalesced", in).allgather_coalesced(out, in, o);
	}

	Pending gather(Lists &out, Tensors &in, const c10d::GatherOptions &o) override
	{
		return inner("gather", in).gather(out, in, o);
	}

	Pending scatter(Tensors &out, Lists &in, const c10d::ScatterOptions &o) override
	{
		return inner("scatter", out, joined(in)).scatter(out, in, o);
	}

	Pending alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &out_sizes,
			      std::vector<int64_t> &in_sizes, const c10d::AllToAllOptions &o) override
	{
		return inner("all_to_all_single", {in}).alltoall_base(out, in, out_sizes, in_sizes, o);
	}

	Pending alltoall(Tensors &out, Tensors &in, const c10d::AllToAllOptions &o) override
	{
		return inner("all_to_all", in).alltoall(out, in, o);
	}

	Pending send(Tensors &tensors, int to, int tag) override
	{
		return noted(inner("send", tensors).send(tensors, to, tag));
	}

	Pending recv(Tensors &tensors, int from, int tag) override
	{
		return noted(inner("recv", tensors).recv(tensors, from, tag));
	}

	Pending recvAnysource(Tensors &tensors, int tag) override
	{
		return inner("recv", tensors).recvAnysource(tensors, tag);
	}

	Pending barrier(const c10d::BarrierOptions &o) override
	{
		return inner("barrier", {}).barrier(o);
	}

	void monitoredBarrier(const c10d::BarrierOptions &o, bool all) override
	{
		check_process(pid_);
		inner_->monitoredBarrier(o, all);
	}

	void setSequenceNumberForGroup() override
	{
		inner_->setSequenceNumberForGroup();
		if (gpus_apart())
			inner_of_gpus_->setSequenceNumberForGroup();
	}

	uint64_t getSequenceNumberForGroup() override
	{
		return inner_->getSequenceNumberForGroup();
	}

	/* Override a method that only newer versions of PyTorch have. Calls in progress keep their deadline. */
	void setTimeout(Milliseconds timeout)
	{
		timeout_ = timeout;
		session_->set_timeout(timeout);
		set_timeout(*inner_, timeout, 0);
		if (gpus_apart())
			set_timeout(*inner_of_gpus_, timeout, 0);
	}

	/* Overrides a method that newer versions of torch have: init_process_group() was called with device_id. */
	void eagerConnectSingleDevice(at::Device device)
	{
		if (inner_of_gpus_)
			connect_to(*inner_of_gpus_, device, 0);
	}

	/* Override a method that newer versions of PyTorch have: end the calls in progress with an error at all ranks. */
	void abort()
	{
		ended_ = true;
		leave();
		abort_backend(*inner_, 0);
		if (gpus_apart())
			abort_backend(*inner_of_gpus_, 0);
	}

	/* Override a method that newer versions of PyTorch have. */
	void shutdown()
	{
		ended_ = true;
		leave();
		shut_down(*inner_, 0);
		if (gpus_apart())
			shut_down(*inner_of_gpus_, 0);
	}

#if TORCH_VERSION_MAJOR >= 2
	void startCoalescing() override
	{
		coalesced_ = std::make_unique<std::vector<Pending>>();
		if (gpus_apart())
			inner_of_gpus_->startCoalescing();
	}

	Pending endCoalescing() override
	{
		TORCH_CHECK(coalesced_,
			    "fpisa: endCoalescing() was called without startCoalescing(); call startCoalescing() "
			    "first");
		if (gpus_apart())
			noted(inner_of_gpus_->endCoalescing());
		auto works = std::move(*coalesced_);
		coalesced_.reset();
		return c10::make_intrusive<Together>(getRank(), std::move(works));
	}

#ifdef C10D_BACKEND_HAS_HOOKS /* in PyTorch versions whose Backend also has the following methods */
	c10::intrusive_ptr<Base::Options> getBackendOptions() override
	{
		return c10::make_intrusive<Base::Options>("fpisa", timeout_);
	}

	bool supportsSplitting() const override
	{
		return true;
	}

	/* Split off a group with these ranks of this group. Return null if this rank is not in the new group. */
	c10::intrusive_ptr<Base> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
				       const c10::intrusive_ptr<Base::Options> &o) override
	{
		auto mine = std::find(ranks.begin(), ranks.end(), getRank());
		std::vector<int64_t> world;

		if (mine == ranks.end())
			return nullptr;
		for (int r : ranks)
			world.push_back(ranks_.empty() ? r : ranks_.at(r));
		return join_(store, int(mine - ranks.begin()), int(ranks.size()), o->timeout, world);
	}

#endif

	Pending allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &o) override
	{
		Base &by = inner_of("all_reduce", tensors);

		report_.inner(by.getBackendName(), "all_reduce", "fpisa does not sum sparse tensors", tensors, true);
		return by.allreduce_sparse(tensors, o);
	}

	Pending allgather_into_tensor_coalesced(Tensors &out, Tensors &in, const c10d::AllgatherOptions &o) override
	{
		return inner("all_gather_into_tensor_coalesced", in).allgather_into_tensor_coalesced(out, in, o);
	}

	Pending reduce_scatter_tensor_coalesced(Tensors &out, Tensors &in, const c10d::ReduceScatterOptions &o) override
	{
		return scatter_equal("reduce_scatter_tensor_coalesced", out, in, o.reduceOp,
				     [&](Base &by) { return by.reduce_scatter_tensor_coalesced(out, in, o); });
	}
#endif

      private:
	/* Do not destroy the inner backends in a child after fork(), because they would wait for the parent's threads. */
	void give_up_inner()
	{
		(void)inner_.release();
		(void)inner_of_gpus_.release();
	}

	/*
	 * End NCCL's calls. Unlike a shutdown, this does not wait for other ranks. Errors are ignored. NCCL would free its
	 * memory twice after a shutdown.
	 */
	void abort_gpus() noexcept
	{
		try {
			abort_backend(*inner_of_gpus_, 0);
		} catch (...) {
			return;
		}
	}

	void leave()
	{
		without_python([this] { session_->leave(); });
	}

	/* Run a function that may wait for threads that need Python's lock. */
	template <class Run> static void without_python(Run run)
	{
		if (PyGILState_Check()) {
			py::gil_scoped_release released;
			run();
		} else {
			run();
		}
	}

	/* Return whether tensors on GPUs have an inner backend of their own. */
	bool gpus_apart() const
	{
		return inner_of_gpus_ && inner_of_gpus_ != inner_;
	}

	/* Return `work`. While coalescing, also add it to the works that endCoalescing() waits for. */
	Pending noted(Pending work)
	{
		if (coalesced_ && work)
			coalesced_->push_back(work);
		return work;
	}

	static void check(const Tensors &tensors, const std::string &name)
	{
		TORCH_CHECK(tensors.empty() || !is_staged(tensors[0].device()) ||
				    !is_captured(current_stream(tensors[0].device())),
			    "fpisa: ", name,
			    ": the stream is captured for a CUDA graph, which cannot contain a sum over the "
			    "network; make the call outside of the graph");
		for (const auto &t : tensors)
			TORCH_CHECK(!at::isFloatingType(t.scalar_type()) || t.element_size() > 1, "fpisa: ", name,
				    ": the tensor is of ", t.scalar_type(),
				    ", which is not summed; pass tensor.to(torch.bfloat16)");
		check_memory(tensors, name);
	}

	static void check_memory(const Tensors &tensors, const std::string &name)
	{
		for (const auto &t : tensors) {
			TORCH_CHECK(t.device().is_cpu() || is_staged(t.device()), "fpisa: ", name, ": the tensor is on ",
				    t.device(), "; it must be on a CPU or a GPU: pass tensor.cpu()");
			TORCH_CHECK(t.device() == tensors[0].device(), "fpisa: ", name, ": the tensors are on ",
				    tensors[0].device(), " and on ", t.device(), "; pass tensors of one device");
			TORCH_CHECK(t.layout() != at::kStrided || at::has_internal_overlap(t) != at::MemOverlap::Yes,
				    "fpisa: ", name,
				    ": some values of the tensor share memory, as after expand(); "
				    "pass tensor.contiguous()");
			TORCH_CHECK(!t._is_zerotensor(), "fpisa: ", name,
				    ": the tensor has no memory for results; pass "
				    "tensor.clone()");
		}
	}

	/* Return the backend for calls that are not ours on the device of the tensors. */
	Base &inner_of(const char *name, const Tensors &tensors)
	{
		const bool staged = !tensors.empty() && is_staged(tensors[0].device());

		check_process(pid_);
		TORCH_CHECK(!staged || inner_of_gpus_, "fpisa: ", name, ": the tensor is on ", tensors[0].device(),
			    "; fpisa leaves this call to NCCL, which this PyTorch does not have: pass tensor.cpu()");
		return staged ? *inner_of_gpus_ : *inner_;
	}

	/* Return the backend that moves the tensors, and count its call, which passes `passed`. */
	Base &inner(const char *name, const Tensors &tensors, const Tensors &passed)
	{
		Base &by = inner_of(name, tensors);

		report_.inner(by.getBackendName(), name, NOT_OURS, passed);
		return by;
	}

	Base &inner(const char *name, const Tensors &tensors)
	{
		return inner(name, tensors, tensors);
	}

	/* Refuse negated and conjugated views, because Gloo would use the values in memory. */
	static void refuse_views(const Tensors &tensors, const std::string &name)
	{
		for (const auto &t : tensors)
			TORCH_CHECK(!t.is_neg() && !t.is_conj(), "fpisa: ", name,
				    ": the tensor is a negated or conjugated view, "
				    "whose values Gloo does not see; pass tensor.resolve_neg().resolve_conj()");
	}

	/* Return whether libfpisa broadcasts the tensor. A quantized tensor is more than its memory. */
	bool sent_by_us(const Tensors &tensors, const c10d::BroadcastOptions &o) const
	{
		return broadcasts_ && tensors.size() == 1 && !o.rootTensor && o.rootRank >= 0 &&
		       o.rootRank < getSize() && tensors[0].device().is_cpu() && tensors[0].layout() == at::kStrided &&
		       !tensors[0].is_quantized();
	}

	/* Return whether libfpisa can reduce the tensors. All of them must have one type. */
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

	/* Return whether all tensors are dense and have the same type. */
	static bool same(const Tensors &a, const Tensors &b)
	{
		for (const auto &t : a)
			if (t.layout() != at::kStrided || t.scalar_type() != b[0].scalar_type())
				return false;
		return true;
	}

	/* Return each tensor's values as a one-dimensional tensor. */
	static Tensors flat(const Tensors &tensors)
	{
		at::NoGradGuard no_grad;
		Tensors rows;

		for (const auto &t : tensors)
			rows.push_back(t.resolve_conj().resolve_neg().reshape(-1));
		return rows;
	}

	/* Return why Gloo reduces the tensors that ours() rejects. */
	static std::string why_inner(const Tensors &tensors, const c10d::ReduceOp &reduce)
	{
		enum fpisa_operation op;
		enum fpisa_dtype type;

		if (tensors.empty() || !type_of(tensors[0].scalar_type(), &type))
			return "fpisa does not reduce this type";
		if (!operation_of(reduce, &op))
			return "fpisa does not have this operation";
		return "fpisa reduces one tensor, or dense tensors of one type";
	}

	template <class Run>
	Pending by_inner(const char *name, const Tensors &tensors, const c10d::ReduceOp &reduce, Run run)
	{
		refuse_views(tensors, name);
		Base &by = inner_of(name, tensors);

		report_.inner(by.getBackendName(), name,
			      tensors.empty() ? "no tensors" :
						c10::toString(tensors[0].scalar_type()) + std::string(": ") +
							why_inner(tensors, reduce),
			      tensors, true);
		return noted(run(by));
	}

	/*
	 * All-reduce by libfpisa if `may` is set and libfpisa supports the call, or else call run(), which uses Gloo.
	 * Gloo adds several tensors of one rank to each other.
	 */
	template <class Run>
	Pending reduce_or(Tensors &tensors, const char *name, bool may, const c10d::ReduceOp &reduce, Run run)
	{
		enum fpisa_operation op;
		enum fpisa_dtype type;

		check(tensors, name);
		if (!may || !ours(tensors, reduce, &type, &op))
			return by_inner(name, tensors, reduce, run);
		report_.ours(name, tensors);
		return noted(reduce_all(tensors, reduce, type, op));
	}

	/*
	 * Reduce-scatter equal parts. ins[i] contains one part for each rank, in the order of ranks, and outs[i]
	 * receives this rank's part. A single contiguous tensor is sent without a copy. Several tensors are copied and
	 * sent as one call.
	 */
	template <class Run>
	Pending scatter_equal(const char *name, Tensors &outs, Tensors &ins, const c10d::ReduceOp &reduce, Run run)
	{
		const int64_t size = getSize();
		enum fpisa_operation op;
		enum fpisa_dtype type;
		Tensors rows;

		check(joined({outs, ins}), name);
		if (!ours(ins, reduce, &type, &op) || !same(outs, ins))
			return by_inner(name, ins, reduce, run);
		TORCH_CHECK(outs.size() == ins.size(), "fpisa: ", name, ": ", outs.size(), " outputs for ", ins.size(),
			    " inputs; pass an output for each input");
		for (size_t i = 0; i < ins.size(); i++)
			TORCH_CHECK(ins[i].numel() == size * outs[i].numel(), "fpisa: ", name, ": the input has ",
				    ins[i].numel(), " values; it must have those of the output, ", outs[i].numel(),
				    ", for each of ", size, " ranks");
		report_.ours(name, ins);
		at::NoGradGuard no_grad;
		const Tensors products = multiplied(ins, reduce);
		for (const auto &t : flat(products))
			rows.push_back(t.view({size, t.numel() / size}));
		auto values = ins.size() == 1 ? values_of(products) : at::cat(rows, 1).view(-1);
		const int64_t part = values.numel() / size;
		auto kept = outs.size() == 1 ? place_for(outs[0], values, part * getRank()) :
					       at::empty(part, values.options());
		return start(c10d::OpType::_REDUCE_SCATTER_BASE, "fpisa:reduce_scatter", outs, values, kept,
			     std::vector<int64_t>(size, part), type, op);
	}

	/* Start a call that gives each rank a part of the values. */
	Pending start(c10d::OpType kind, const char *name, const Tensors &outs, const at::Tensor &values,
		      const at::Tensor &kept, const std::vector<int64_t> &parts, enum fpisa_dtype type,
		      enum fpisa_operation op)
	{
		const uint64_t number = session_->count_call();
		std::vector<size_t> counts;

		for (int64_t part : parts)
			counts.push_back((size_t)part * (values.is_complex() ? 2 : 1));
		auto call = c10::make_intrusive<Call>(getRank(), kind, name, outs, values, kept, std::move(counts));
		session_->start(call, type, op, number);
		return noted(call);
	}

	Pending reduce_all(const Tensors &tensors, const c10d::ReduceOp &reduce, enum fpisa_dtype type,
			   enum fpisa_operation op)
	{
		const uint64_t number = session_->count_call();
		auto call = c10::make_intrusive<Call>(getRank(), tensors, values_of(multiplied(tensors, reduce)));

		session_->start(call, type, op, number);
		return call;
	}

	c10::intrusive_ptr<Base> inner_;
	c10::intrusive_ptr<Base> inner_of_gpus_; /* for tensors on GPUs; may be inner_, and null if there is none */
	std::shared_ptr<Session> session_;
	const std::vector<int64_t> ranks_; /* the world rank of each group rank; empty for the world */
	Milliseconds timeout_;
	const bool broadcasts_;
	const Join join_;
	const pid_t pid_ = getpid();
	bool ended_ = false; /* whether shutdown() or abort() has ended the inner backends */
	/* works since startCoalescing(); null outside of coalescing */
	std::unique_ptr<std::vector<Pending>> coalesced_;
	Report report_;
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
		.def(py::init<c10::intrusive_ptr<fpisa_torch::Base>, c10::intrusive_ptr<fpisa_torch::Base>, uintptr_t,
			      int, int, std::vector<int64_t>, fpisa_torch::Milliseconds, bool, fpisa_torch::Join>(),
		     py::arg("inner"), py::arg("inner_of_gpus"), py::arg("group"), py::arg("rank"), py::arg("size"),
		     py::arg("ranks"), py::arg("timeout"), py::arg("broadcasts"), py::arg("join"),
		     py::call_guard<py::gil_scoped_release>())
		.def("take_flags", [](Backend &b) { return b.session().take_flags(); })
		.def("report", [](Backend &b) { return b.report().rows(); });
	m.def("leave_all", fpisa_torch::Session::leave_all, py::call_guard<py::gil_scoped_release>());
}
