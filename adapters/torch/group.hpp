// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A libfpisa group for c10d. Its calls are c10d::Work objects. When a call ends,
 * libfpisa's thread wakes the threads that wait for the call.
 *
 * The session has threads of its own for the callbacks of a call's future,
 * because a Python callback may take long, and may start a call and wait for it.
 * The first thread runs the callbacks of calls that were started outside of
 * callbacks, one after the other. A callback may wait for the future of a call
 * that it has started, so a second thread runs the callbacks of such calls.
 * Further levels work in the same way.
 */
#ifndef FPISA_TORCH_SESSION_HPP
#define FPISA_TORCH_SESSION_HPP

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <fpisa.h>

#include "staging.hpp"

namespace fpisa_torch
{
/*
 * Refuse a call in a child after fork(). The child has none of the threads that would answer it, and may have copied
 * locks that are held, so call this before taking one.
 */
inline void check_process(pid_t created_by)
{
	TORCH_CHECK(getpid() == created_by,
		    "fpisa: the process group belongs to the process that created it, and this process is a "
		    "child; create a process group in this process");
}

/*
 * A reduction or a broadcast of `values`. When the call ends, the result in `kept` is copied to `tensors`, unless `kept`
 * is the tensor itself. If `kept` is undefined, this rank does not get a result.
 */
class Call final : public c10d::Work
{
      public:
	Call(int rank, std::vector<at::Tensor> tensors, at::Tensor values)
	    : Call(rank, c10d::OpType::ALLREDUCE, "fpisa:all_reduce", std::move(tensors), values, values, {})
	{
	}

	/* A broadcast from rank `root`. Other ranks receive into `memory`. */
	Call(int rank, std::vector<at::Tensor> tensors, at::Tensor memory, int root)
	    : Call(rank, c10d::OpType::BROADCAST, "fpisa:broadcast", std::move(tensors), memory,
		   rank == root ? at::Tensor() : memory, {})
	{
		root_ = root;
	}

	/*
	 * `parts` is the number of values for each rank of the group, in the order of ranks. If `parts` is empty, each
	 * rank gets all values.
	 */
	Call(int rank, c10d::OpType type, const char *name, std::vector<at::Tensor> tensors, at::Tensor values,
	     at::Tensor kept, std::vector<size_t> parts)
	    : Work(rank, type, name, tensors), tensors_(std::move(tensors)), values_(std::move(values)),
	      kept_(std::move(kept)), parts_(std::move(parts)),
	      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices()))
	{
	}

	/* Destroy the events of the call and of its future while their device is current. */
	~Call() override
	{
		if (!arrival_)
			return;
		const OnDevice current(arrival_->stream.device());
		future_.reset();
		arrival_.reset();
	}

	std::vector<at::Tensor> result() override
	{
		return tensors_;
	}

	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
	{
		return future_;
	}

	const at::Tensor &values() const
	{
		return values_;
	}

	const at::Tensor &kept() const
	{
		return kept_;
	}

	const std::vector<size_t> &parts() const
	{
		return parts_;
	}

	/* Return the root of a broadcast, or -1. */
	int root() const
	{
		return root_;
	}

	/* Return whether the values are on an accelerator. */
	bool staged() const
	{
		return is_staged(values_.device());
	}

	/* Return the first element of the result that this rank keeps, and the number of these elements. */
	std::pair<size_t, size_t> own_part() const
	{
		size_t first = 0;

		if (parts_.empty())
			return {0, elements()};
		for (int r = 0; r < rank_; r++)
			first += parts_[r];
		return {first, kept_.defined() ? parts_[rank_] : 0};
	}

	/* Return the number of values for libfpisa, for which a complex number is two. */
	size_t elements() const
	{
		return (size_t)values_.numel() * (values_.is_complex() ? 2 : 1);
	}

	/* Name the stream that writes the result to the tensors. Readers wait for the stream. */
	void arrive_on(const c10::Stream &stream)
	{
		arrival_ = std::make_unique<Arrival>(stream);
		for (const auto &t : tensors_)
			keep_for(t, stream);
		if (kept_.defined())
			keep_for(kept_, stream);
	}

	/* Make the current stream wait for the result, when the call has ended. */
	void synchronize() override
	{
		if (arrival_)
			arrival_->written.block(current_stream(arrival_->stream.device()));
	}

	/*
	 * Give a call of several tensors a tag that differs from the tag of a call of one tensor with the same number
	 * of values. PyTorch passes complex tensors as their real parts. The tag of a broadcast contains the type.
	 */
	uint64_t tag(uint64_t number) const
	{
		uint64_t tag = root_ < 0 ? number : number << 8 | (uint8_t)values_.scalar_type();

		if (tensors_.size() > 1)
			for (const auto &t : tensors_)
				tag = (tag ^ (uint64_t)t.numel()) * 0x9e3779b97f4a7c15ull + 1;
		return tag;
	}

	/* End the call and wake the threads that wait for it. Call only once. */
	void end(std::exception_ptr error)
	{
		try {
			if (!error)
				copy_back();
			record();
		} catch (...) {
			error = error ? error : std::current_exception();
		}
		finish(error);
	}

	/* Return whether the call has ended and no copy to the tensors is in progress. */
	bool isCompleted() override
	{
		return Work::isCompleted() && (!arrival_ || arrival_->written.query());
	}

	/* Override a method that newer versions of PyTorch have, which would let the stream go on before the last copy. */
	void blockCurrentStream()
	{
		wait();
	}

	/* Complete the future before wait() returns, as Gloo does. Do so here if the session's thread is busy. */
	bool wait(std::chrono::milliseconds timeout = kNoTimeout) override
	{
		try {
			Work::wait(timeout);
		} catch (...) {
			if (Work::isCompleted())
				end_future();
			throw;
		}
		end_future();
		return true;
	}

	/* Complete the future after the call has ended, once. Its callbacks run one level deeper than this thread. */
	void end_future()
	{
		auto error = exception();
		c10::OptionalStreamGuard guard;

		if (arrival_)
			guard.reset_stream(arrival_->stream);
		if (future_ended_.exchange(true)) {
			future_->wait();
			return;
		}
		if (error)
			await_copies();
		const Deeper deeper;
		if (error)
			future_->setError(error);
		else
			future_->markCompleted(c10::IValue(tensors_));
	}

	/* Return the level of the calls that this thread starts. The level is 0 outside of callbacks. */
	static size_t &level_of_thread()
	{
		static thread_local size_t level = 0;
		return level;
	}

      private:
	/* Run callbacks one level deeper. */
	struct Deeper {
		Deeper()
		{
			level_of_thread()++;
		}

		~Deeper()
		{
			level_of_thread()--;
		}
	};

	/* The stream that writes the result, and the event that it records afterwards. */
	struct Arrival {
		explicit Arrival(const c10::Stream &stream) : stream(stream), written(stream.device_type())
		{
		}

		const c10::Stream stream;
		c10::Event written;
	};

	std::vector<c10::Device> devices() const
	{
		return staged() ? std::vector<c10::Device>{values_.device()} : std::vector<c10::Device>();
	}

	/* Wait for the copies of a failed call. After the error, the program may write the tensors from any stream. */
	void await_copies() const
	{
		try {
			if (arrival_)
				c10::impl::VirtualGuardImpl(arrival_->stream.device_type())
					.synchronizeStream(arrival_->stream);
		} catch (const c10::Error &) {
			return; /* a failed device no longer copies */
		}
	}

	/* Record the point after the last copy, even if the call has failed. */
	void record()
	{
		if (arrival_)
			arrival_->written.record(arrival_->stream);
	}

	/* Tensors created in inference_mode() can be written only in that mode, which is a setting of each thread. */
	void copy_back()
	{
		c10::OptionalStreamGuard guard;
		int64_t at = 0;

		if (arrival_)
			guard.reset_stream(arrival_->stream);
		if (!kept_.defined() || (tensors_.size() == 1 && kept_.is_same(tensors_[0])))
			return;
		for (auto &t : tensors_) {
			c10::InferenceMode mode(t.is_inference());
			at::NoGradGuard no_grad;

			t.copy_(kept_.view(-1).narrow(0, at, t.numel()).view(t.sizes()));
			at += t.numel();
		}
	}

	std::vector<at::Tensor> tensors_;
	at::Tensor values_, kept_;
	std::vector<size_t> parts_;
	int root_ = -1;
	std::unique_ptr<Arrival> arrival_; /* null for tensors of a CPU */
	c10::intrusive_ptr<c10::ivalue::Future> future_;
	std::atomic<bool> future_ended_{false};
};

/* A group that the session owns until leave(). */
class Session final : public std::enable_shared_from_this<Session>
{
      public:
	/* `ranks` is the world rank of each group rank. */
	Session(struct fpisa_group *group, std::vector<int64_t> ranks)
	    : group_(group), named_(group), ranks_(std::move(ranks))
	{
	}

	void run()
	{
		{
			std::lock_guard<std::mutex> lock(group_lock_);
			run_thread(0);
		}
		std::lock_guard<std::mutex> lock(all_lock());
		all().push_back(std::weak_ptr<Session>(shared_from_this()));
	}

	/* Leave the groups of all sessions. */
	static void leave_all()
	{
		std::vector<std::weak_ptr<Session>> sessions;
		{
			std::lock_guard<std::mutex> lock(all_lock());
			sessions.swap(all());
		}
		for (auto &s : sessions)
			if (auto session = s.lock())
				session->leave();
	}

	/*
	 * Return the number of the next call. All ranks number their calls in the same way, and the tag contains the
	 * number. If a call cannot start on one rank, the other ranks do not match this call with that rank's next
	 * call.
	 */
	uint64_t count_call()
	{
		return ++calls_;
	}

	/*
	 * Start a call. Throw the library's error immediately if it cannot start, unless it is queued: calls on an accelerator
	 * wait for their values, and calls on a CPU for the calls before them.
	 */
	void start(const c10::intrusive_ptr<Call> &call, enum fpisa_dtype type, enum fpisa_operation op, uint64_t number)
	{
		struct fpisa_call c = {};

		c.count = call->elements();
		c.type = type;
		c.op = op;
		start(call, c, number);
	}

	/* Start a broadcast, as start() does. */
	void broadcast(const c10::intrusive_ptr<Call> &call, uint64_t number)
	{
		start(call, {}, number);
	}

	/*
	 * Leave the group. Calls in progress end with an error. The caller must not hold Python's lock, because threads
	 * that wait for calls may need the lock. A second call does nothing.
	 */
	void leave()
	{
		if (getpid() != pid_) {
			leave_in_child();
			return;
		}
		struct fpisa_group *group = take_group();
		if (!group)
			return;
		fpisa_group_leave(group);
		staging_.close();
		join(stager_);
		{
			std::lock_guard<std::mutex> lock(ended_lock_);
			leaving_ = true;
		}
		changed_.notify_all();
		for (auto &thread : threads_)
			join(thread);
	}

	/* Use this deadline, instead of the group's, for calls that start after this. */
	void set_timeout(std::chrono::milliseconds timeout)
	{
		timeout_ms_ = std::min<int64_t>(std::max<int64_t>(timeout.count(), 1), FPISA_FOREVER);
	}

	/* Return the FPISA_RESULT_* flags of all results since the last call of take_flags(), and clear them. */
	uint32_t take_flags()
	{
		std::lock_guard<std::mutex> lock(ended_lock_);
		return std::exchange(flags_, 0);
	}

      private:
	/* The number of levels of nested callbacks. Deeper levels share the last level's thread. */
	static constexpr size_t LEVELS = 4;

	struct UnderWay {
		std::shared_ptr<Session> session;
		c10::intrusive_ptr<Call> call;
		size_t level;
	};

	/* Start a call, of which `c` has what differs between reductions and broadcasts. */
	void start(const c10::intrusive_ptr<Call> &call, struct fpisa_call c, uint64_t number)
	{
		check_process(pid_);
		const size_t level = std::min(Call::level_of_thread(), LEVELS - 1);

		c.size = sizeof(c);
		c.tag = call->tag(number);
		c.timeout_ms = timeout_ms_;
		if (!call->staged() && staging_.idle())
			start_now(call, c, level);
		else
			queue(call, c, level);
	}

	/* Start a call whose values are in the memory of the host. */
	void start_now(const c10::intrusive_ptr<Call> &call, struct fpisa_call c, size_t level)
	{
		auto under_way = std::make_unique<UnderWay>(UnderWay{shared_from_this(), call, level});

		c.send = call->values().data_ptr();
		c.recv = call->kept().defined() ? call->kept().data_ptr() : nullptr;
		c.on_done = done;
		c.arg = under_way.get();
		std::lock_guard<std::mutex> lock(group_lock_);
		TORCH_CHECK(group_, DESTROYED);
		run_thread(level);
		if (call->root() < 0)
			start_in_group(c, call->parts());
		else
			broadcast_in_group(*call, c);
		under_way.release();
	}

	/* Queue a call for the thread that starts calls. No call is queued once leave() has taken the group. */
	void queue(const c10::intrusive_ptr<Call> &call, const struct fpisa_call &c, size_t level)
	{
		if (call->staged())
			Unclean::refuse(call->values());
		std::lock_guard<std::mutex> lock(group_lock_);

		TORCH_CHECK(group_, DESTROYED);
		run_thread(level);
		run_stager();
		if (call->staged())
			push_staged(call, c, level);
		else
			push(call, c, level);
	}

	void push(const c10::intrusive_ptr<Call> &call, const struct fpisa_call &c, size_t level)
	{
		staging_.push([this, call, c, level] {
			try {
				start_now(call, c, level);
			} catch (...) {
				end(call, level, std::current_exception());
			}
		});
	}

	void push_staged(const c10::intrusive_ptr<Call> &call, const struct fpisa_call &c, size_t level)
	{
		const Lane lane = staging_.lane(call->values().device());
		const auto own = call->own_part();

		call->arrive_on(lane.back);
		auto transfer = std::make_shared<Transfer>(
			c, call->values(), call->kept(), call->parts(), own.first, own.second, lane,
			[self = shared_from_this(), call, level](std::exception_ptr error) {
				self->end(call, level, error);
			});
		staging_.push([this, transfer]() mutable { staging_.stage(std::move(transfer)); });
	}

	/* Start a call of a chunk. */
	void start_chunk(struct fpisa_call &c, const std::vector<size_t> &parts)
	{
		std::lock_guard<std::mutex> lock(group_lock_);

		TORCH_CHECK(group_, DESTROYED);
		start_in_group(c, parts);
	}

	/* Start a call of libfpisa, or throw its error. The caller holds group_lock_. */
	void start_in_group(struct fpisa_call &c, const std::vector<size_t> &parts)
	{
		const int rc = parts.empty() ? fpisa_group_start(group_, &c, nullptr) :
					       fpisa_group_reduce_scatter_start(group_, &c, parts.data(), nullptr);
		TORCH_CHECK(!rc, sentence(rc, fpisa_error()));
	}

	/* Start a broadcast, whose bytes are the memory of its values. The caller holds group_lock_. */
	void broadcast_in_group(const Call &call, const struct fpisa_call &c)
	{
		const at::Tensor &t = call.values();
		const int rc = fpisa_group_broadcast_call(group_, t.data_ptr(), t.nbytes(), (uint32_t)call.root(), &c,
							  nullptr);

		TORCH_CHECK(!rc, sentence(rc, fpisa_error()));
	}

	/* Start the thread of calls that are queued, unless it already runs. The caller holds group_lock_. */
	void run_stager()
	{
		if (!stager_.joinable())
			stager_ = std::thread([self = shared_from_this()] { self->staging_.run(); });
	}

	/* Start the thread that completes the futures of this level, unless it already runs. The caller holds group_lock_. */
	void run_thread(size_t level)
	{
		if (!threads_[level].joinable())
			threads_[level] = std::thread([self = shared_from_this(), level] { self->end_futures(level); });
	}

	static std::mutex &all_lock()
	{
		static std::mutex lock;
		return lock;
	}

	static std::vector<std::weak_ptr<Session>> &all()
	{
		static std::vector<std::weak_ptr<Session>> sessions;
		return sessions;
	}

	/* Record the end of a call. libfpisa's thread calls this function. */
	static void done(void *arg, int rc, uint32_t flags)
	{
		std::unique_ptr<UnderWay> u(static_cast<UnderWay *>(arg));
		Session &s = *u->session;

		s.end(u->call, u->level, s.result(rc, flags));
	}

	/* Return the error of a call of libfpisa, or null, and keep the flags of its result. */
	std::exception_ptr result(int rc, uint32_t flags)
	{
		{
			std::lock_guard<std::mutex> lock(ended_lock_);
			flags_ |= flags;
		}
		return rc ? std::make_exception_ptr(std::runtime_error(sentence(rc, fpisa_error()))) : nullptr;
	}

	/* End a call. A thread of its level ends the future. */
	void end(const c10::intrusive_ptr<Call> &call, size_t level, std::exception_ptr error)
	{
		call->end(error);
		{
			std::lock_guard<std::mutex> lock(ended_lock_);
			ended_[level].push_back(call);
		}
		changed_.notify_all();
	}

	void end_futures(size_t level)
	{
		auto &ended = ended_[level];

		Call::level_of_thread() = level;
		for (;;) {
			c10::intrusive_ptr<Call> call;
			{
				std::unique_lock<std::mutex> lock(ended_lock_);
				changed_.wait(lock, [&] { return leaving_ || !ended.empty(); });
				if (ended.empty())
					return;
				call = std::move(ended.front());
				ended.pop_front();
			}
			end_future(*call);
		}
	}

	/* Complete a call's future. An exception, as of a device that has failed, must not end the process. */
	static void end_future(Call &call)
	{
		try {
			call.end_future();
		} catch (const std::exception &e) {
			TORCH_WARN("fpisa: the future of a call: ", e.what());
		}
	}

	/*
	 * Return the text of an error. The library names ranks of the group, so add
	 * the world ranks if they differ. The group still exists, because this
	 * function is called only when a call starts or ends.
	 */
	std::string sentence(int rc, const std::string &said)
	{
		std::vector<uint32_t> missing(rc == -ECONNRESET || rc == -EREMOTEIO ? ranks_.size() : 0);
		std::string world;

		missing.resize(std::min<size_t>(
			missing.size(), fpisa_group_missing_ranks(named_, missing.data(), (uint32_t)missing.size())));
		for (uint32_t r : missing)
			if (r < ranks_.size() && ranks_[r] != (int64_t)r)
				world += (world.empty() ? "" : ", ") + std::to_string(ranks_[r]);
		return "fpisa: " + said + (world.empty() ? "" : "; in the world, the missing rank is " + world);
	}

	struct fpisa_group *take_group()
	{
		std::lock_guard<std::mutex> lock(group_lock_);
		return std::exchange(group_, nullptr);
	}

	/*
	 * Leave the group in a child after fork(). The session's threads do not exist in the child, and a lock may be
	 * held forever.
	 */
	void leave_in_child()
	{
		fpisa_group_leave(std::exchange(group_, nullptr));
		for (auto &thread : threads_)
			forget(thread);
		forget(stager_);
	}

	/* Wait for the end of a thread, but not of this one. No other thread uses the member once leave() has the group. */
	static void join(std::thread &thread)
	{
		if (!thread.joinable())
			return;
		if (thread.get_id() == std::this_thread::get_id())
			thread.detach();
		else
			thread.join();
	}

	/* Give up a thread of the parent. detach() reads memory of the thread, which may be unmapped in the child. */
	static void forget(std::thread &thread)
	{
		new std::thread(std::move(thread));
	}

	std::mutex group_lock_; /* protects group_, and the start of calls and of threads */
	struct fpisa_group *group_;
	struct fpisa_group *const named_; /* a copy of group_ for sentence(), which remains after leave() */
	const std::vector<int64_t> ranks_;
	const pid_t pid_ = getpid();
	std::array<std::thread, LEVELS> threads_;
	std::thread stager_;
	Staging staging_{[this](struct fpisa_call &c, const std::vector<size_t> &parts) { start_chunk(c, parts); },
			 [this](int rc, uint32_t flags) { return result(rc, flags); }};
	std::mutex ended_lock_; /* protects the members below */
	std::condition_variable changed_;
	std::array<std::deque<c10::intrusive_ptr<Call>>, LEVELS> ended_; /* calls that have ended, by level */
	uint32_t flags_ = 0;
	std::atomic<uint64_t> calls_{0};
	std::atomic<uint64_t> timeout_ms_{0}; /* 0 means the group's timeout */
	bool leaving_ = false;
};

} // namespace fpisa_torch

#endif
