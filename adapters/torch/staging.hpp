// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Calls whose tensors are on an accelerator. The values travel in chunks of 1 to 4 MB. libfpisa sends each chunk from a
 * buffer in pinned memory, and receives the sum into another. In one buffer, libfpisa could take a later chunk for the
 * sums of a failed in-place call. A thread copies chunks from the device ahead of the sums, and libfpisa's thread copies
 * each sum back when it arrives, so copies in both directions overlap the sums. Each direction has its own stream. Only
 * c10's interface of devices is used, so one build serves every accelerator.
 */
#ifndef FPISA_TORCH_STAGING_HPP
#define FPISA_TORCH_STAGING_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>
#include <sys/prctl.h>

#include <fpisa.h>

#include "unclean.hpp"

namespace fpisa_torch
{

inline constexpr char DESTROYED[] = "fpisa: this process group is destroyed; create a new one";

/*
 * Return whether tensors of the device travel through a buffer of the host. Tensors of other devices are sent without a
 * copy.
 */
inline bool is_staged(const c10::Device &device)
{
	return device.is_cuda() || device.type() == c10::DeviceType::PrivateUse1;
}

inline c10::Stream current_stream(const c10::Device &device)
{
	return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/* Return the stream of the device's runtime, or nullptr if this version of PyTorch does not have native_handle(). */
template <class Any> static auto native_stream(const Any &stream, int) -> decltype(stream.native_handle())
{
	return stream.native_handle();
}

template <class Any> static void *native_stream(const Any &, long)
{
	return nullptr;
}

/*
 * Return whether the stream's work is being recorded for a CUDA graph, which cannot be on the default stream, nullptr.
 * The function of CUDA's runtime exists if PyTorch has loaded the runtime.
 */
inline bool is_captured(const c10::Stream &stream)
{
	using Query = int (*)(void *stream, int *status);
	static const auto query = reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "cudaStreamIsCapturing"));
	void *native = stream.device().is_cuda() ? native_stream(stream, 0) : nullptr;
	int status = 0;

	return query && native && !query(native, &status) && status;
}

/*
 * Let this thread make calls of CUDA's runtime that would otherwise end a capture of another thread, such as the query of
 * an event or the allocation of pinned memory. The thread itself captures nothing.
 */
inline void allow_captures_elsewhere()
{
	using Exchange = int (*)(int *mode);
	static const auto exchange =
		reinterpret_cast<Exchange>(dlsym(RTLD_DEFAULT, "cudaThreadExchangeStreamCaptureMode"));
	int mode = 2; /* cudaStreamCaptureModeRelaxed */

	if (exchange)
		exchange(&mode);
}

/* Do not reuse the tensor's memory before the tensor is freed and the stream has finished the work queued so far. */
inline void keep_for(const at::Tensor &tensor, const c10::Stream &stream)
{
	c10::impl::VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

/*
 * Make a device current in a scope, in a thread that has not chosen a device. An event that is recorded, waited for or
 * destroyed where device 0 is current would create a context on device 0, which takes hundreds of MB there. A device that
 * has failed changes nothing.
 */
class OnDevice
{
      public:
	explicit OnDevice(const c10::Device &device)
	{
		try {
			guard_.reset_device(device);
		} catch (const c10::Error &) {
			return;
		}
	}

      private:
	c10::OptionalDeviceGuard guard_;
};

/* The streams of a device that copy to the host and from it. */
struct Lane {
	explicit Lane(const c10::Device &device)
	    : out(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
	      back(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device))
	{
	}

	c10::Stream out, back;
};

/* A call of a tensor on a device. It ends when nothing refers to it, which is after its last chunk. */
class Transfer
{
      public:
	using End = std::function<void(std::exception_ptr)>;

	/*
	 * Take the values that the caller's stream has computed at that point. `own` and `owned` are the first element
	 * and the number of elements of the result that this rank keeps, in `kept`.
	 */
	Transfer(const struct fpisa_call &call, at::Tensor values, at::Tensor kept, std::vector<size_t> parts,
		 size_t own, size_t owned, const Lane &lane, End end)
	    : call_(call), values_(std::move(values)), kept_(std::move(kept)), parts_(std::move(parts)), own_(own),
	      owned_(owned), lane_(lane), ready_(lane.out.device_type()), end_(std::move(end))
	{
		ready_.record(current_stream(values_.device()));
		keep_for(values_, lane_.out);
	}

	Transfer(const Transfer &) = delete;
	Transfer &operator=(const Transfer &) = delete;

	~Transfer()
	{
		if (error_ && copied_back_ && in_place())
			Unclean::remember(kept_);
		end_(error_);
	}

	const struct fpisa_call &call() const
	{
		return call_;
	}

	c10::Device device() const
	{
		return lane_.out.device();
	}

	/* Make the stream that copies to the host wait for the values. */
	void await_values() const
	{
		ready_.block(lane_.out);
	}

	/* Return the number of elements of a chunk. It depends on the call only, so it is the same on all ranks. */
	size_t chunk() const
	{
		const size_t least = LEAST / size(), most = MOST / size();

		return std::min(std::max(call_.count / 8 / FRAMES * FRAMES, least), most);
	}

	/* Return how many of the elements from `first` to `end` each rank gets, or nothing if each gets all. */
	std::vector<size_t> parts_of(size_t first, size_t end) const
	{
		std::vector<size_t> parts;
		size_t at = 0;

		for (size_t part : parts_) {
			parts.push_back(common(first, end, at, at + part).second);
			at += part;
		}
		return parts;
	}

	/* Return the first element that this rank keeps of those from `first` to `end`, and how many it keeps. */
	std::pair<size_t, size_t> kept_of(size_t first, size_t end) const
	{
		return common(first, end, own_, own_ + owned_);
	}

	/* Copy elements from the device to the buffer. `landed` is recorded after the copy. */
	void copy_out(const at::Tensor &buffer, size_t first, size_t count, c10::Event &landed) const
	{
		c10::StreamGuard guard(lane_.out);
		at::NoGradGuard no_grad;

		buffer.narrow(0, 0, count * size()).copy_(memory(values_, first, count), true);
		landed.record(lane_.out);
	}

	/* Copy elements `first` on of the result from the buffer to the device. */
	void copy_back(const at::Tensor &sums, size_t first, size_t count)
	{
		c10::StreamGuard guard(lane_.back);
		at::NoGradGuard no_grad;

		copied_back_ = true;
		memory(kept_, first - own_, count).copy_(sums, true);
	}

	/*
	 * Return a buffer for elements in the memory of the host. PyTorch keeps freed pinned memory for the next
	 * buffer.
	 */
	at::Tensor buffer(size_t count) const
	{
		return at::empty({int64_t(count * size())},
				 at::TensorOptions(at::kByte).pinned_memory(device().is_cuda()));
	}

	/* Return the bytes of an element. */
	size_t size() const
	{
		return values_.element_size() / (values_.is_complex() ? 2 : 1);
	}

	/* Keep the first error, with which the call ends. */
	void fail(std::exception_ptr error)
	{
		std::lock_guard<std::mutex> lock(lock_);
		if (!error_)
			error_ = error;
	}

	bool failed()
	{
		std::lock_guard<std::mutex> lock(lock_);
		return bool(error_);
	}

      private:
	static constexpr size_t LEAST = 1 << 20, MOST = 4 << 20; /* bytes of a chunk */
	static constexpr size_t FRAMES = 1 << 12; /* a chunk's elements are a multiple, so that frames are full */

	/* Return the first of the elements that both ranges have, and their number. */
	static std::pair<size_t, size_t> common(size_t first, size_t end, size_t other, size_t other_end)
	{
		const size_t begin = std::max(first, other);

		return {begin, std::max(begin, std::min(end, other_end)) - begin};
	}

	/* Return whether the result is written over the values, or a part of them. */
	bool in_place() const
	{
		const auto *from = static_cast<const char *>(values_.data_ptr()),
			   *to = static_cast<const char *>(kept_.data_ptr());

		return from <= to && to < from + call_.count * size();
	}

	/* Return elements of a contiguous tensor as bytes. No rule for writing tensors applies to the result. */
	at::Tensor memory(const at::Tensor &tensor, size_t first, size_t count) const
	{
		return at::for_blob(static_cast<char *>(tensor.data_ptr()) + first * size(), {int64_t(count * size())})
			.options(at::TensorOptions(at::kByte).device(tensor.device()))
			.target_device(tensor.device())
			.make_tensor();
	}

	const struct fpisa_call call_;
	const at::Tensor values_, kept_;
	const std::vector<size_t> parts_;
	const size_t own_, owned_;
	const Lane lane_;
	c10::Event ready_;
	const End end_;
	std::mutex lock_;
	std::exception_ptr error_;
	std::atomic<bool> copied_back_{false};
};

/* The thread that starts the calls of a session in their order, when their values are in the host's memory. */
class Staging
{
      public:
	/* Start a call of libfpisa, in which each rank keeps its part, or all if there are no parts. Throws its error. */
	using Start = std::function<void(struct fpisa_call &, const std::vector<size_t> &parts)>;
	/* Return the error of a call, as an exception, or null. Take note of the result's flags. */
	using Result = std::function<std::exception_ptr(int rc, uint32_t flags)>;

	Staging(Start start, Result result) : start_(std::move(start)), result_(std::move(result))
	{
	}

	/* Return whether all queued calls have been started. */
	bool idle()
	{
		std::lock_guard<std::mutex> lock(lock_);
		return !pending_;
	}

	/* Return the streams of a device. */
	Lane lane(const c10::Device &device)
	{
		std::lock_guard<std::mutex> lock(lock_);
		return lanes_.try_emplace(device.index(), device).first->second;
	}

	/* Queue a call, which the thread starts by start(). */
	void push(std::function<void()> start)
	{
		{
			std::lock_guard<std::mutex> lock(lock_);
			queue_.push_back(std::move(start));
			pending_++;
		}
		changed_.notify_all();
	}

	/* Start the calls in the queue, until close(). */
	void run()
	{
		std::unique_lock<std::mutex> lock(lock_);

		allow_captures_elsewhere();
		prctl(PR_SET_TIMERSLACK, 1ul); /* so that await() polls as often as its comment says */
		for (;;) {
			changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
			if (queue_.empty())
				return;
			auto start = std::move(queue_.front());
			queue_.pop_front();
			lock.unlock();
			start();
			start = nullptr;
			lock.lock();
			pending_--;
		}
	}

	/* End run() when the queue is empty. It no longer waits for copies from devices. */
	void close()
	{
		{
			std::lock_guard<std::mutex> lock(lock_);
			closed_ = true;
		}
		changed_.notify_all();
	}

	/* Start the chunks of a call one after the other, in run()'s thread. The caller gives up the transfer. */
	void stage(std::shared_ptr<Transfer> transfer)
	{
		const OnDevice current(transfer->device());

		try {
			start_chunks(transfer);
		} catch (...) {
			transfer->fail(std::current_exception());
		}
		transfer = nullptr; /* destroyed while the device is current */
	}

      private:
	static constexpr size_t AHEAD = 3; /* chunks that are copied from the device before their turn */
	static constexpr size_t MOST = 8;  /* chunks that have a buffer: copied, or in a call of libfpisa */
	static constexpr std::chrono::microseconds LOOK{20};

	/*
	 * A chunk of a transfer, which one call of libfpisa sums. A chunk has a buffer until it is destroyed, and at most MOST
	 * chunks have buffers at a time.
	 */
	struct Chunk {
		Chunk(Staging &staging, std::shared_ptr<Transfer> transfer, size_t first, size_t count)
		    : staging(staging), transfer(std::move(transfer)), first(first), count(count),
		      landed(this->transfer->device().type())
		{
		}

		~Chunk()
		{
			staging.release(); /* declared before the transfer, whose end may free the session */
		}

		Staging &staging;
		std::shared_ptr<Transfer> transfer;
		const size_t first, count;
		at::Tensor values, sums; /* undefined if they have no elements */
		c10::Event landed;
	};

	void start_chunks(const std::shared_ptr<Transfer> &transfer)
	{
		const size_t count = transfer->call().count, chunk = transfer->chunk();
		std::deque<std::unique_ptr<Chunk>> copying;
		size_t next = 0;
		bool more = true; /* a call without elements is one chunk */

		transfer->await_values();
		while (more || !copying.empty()) {
			while (more && copying.size() < AHEAD && reserve(copying.empty())) {
				copying.push_back(copied(transfer, next, std::min(chunk, count - next)));
				next += chunk;
				more = next < count;
			}
			await(*copying.front());
			start(copying.front());
			copying.pop_front();
		}
	}

	/* Take one of the buffers, and wait for it if `waits`. Return false if there is none. */
	bool reserve(bool waits)
	{
		std::unique_lock<std::mutex> lock(lock_);

		if (waits)
			changed_.wait(lock, [&] { return buffers_ < MOST; });
		if (buffers_ == MOST)
			return false;
		buffers_++;
		return true;
	}

	void release()
	{
		{
			std::lock_guard<std::mutex> lock(lock_);
			buffers_--;
		}
		changed_.notify_all();
	}

	/* Return a chunk that is being copied from the device. */
	std::unique_ptr<Chunk> copied(const std::shared_ptr<Transfer> &transfer, size_t first, size_t count)
	{
		auto chunk = std::make_unique<Chunk>(*this, transfer, first, count);
		const size_t kept = transfer->kept_of(first, first + count).second;

		if (kept)
			chunk->sums = transfer->buffer(kept);
		if (!count)
			return chunk;
		chunk->values = transfer->buffer(count);
		transfer->copy_out(chunk->values, first, count, chunk->landed);
		return chunk;
	}

	/* Wait until the chunk is in its buffer. The device may compute its values for a long time. */
	void await(const Chunk &chunk)
	{
		while (!chunk.landed.query()) {
			{
				std::lock_guard<std::mutex> lock(lock_);
				TORCH_CHECK(!closed_, DESTROYED);
			}
			std::this_thread::sleep_for(LOOK);
		}
	}

	/* Start the call of a chunk, which owns the chunk then. */
	void start(std::unique_ptr<Chunk> &chunk)
	{
		const Transfer &transfer = *chunk->transfer;
		const auto parts = transfer.parts_of(chunk->first, chunk->first + chunk->count);
		struct fpisa_call c = transfer.call();

		c.send = chunk->values.defined() ? chunk->values.data_ptr() : nullptr;
		c.recv = chunk->sums.defined() ? chunk->sums.data_ptr() : nullptr;
		c.count = chunk->count;
		/* A call with the same number of values, but with other chunks or on a CPU, has a different tag. */
		c.tag = (c.tag ^ transfer.call().count) * 0x9e3779b97f4a7c15ull + 2;
		c.on_done = done;
		c.arg = chunk.get();
		start_(c, parts);
		chunk.release();
	}

	/* Take a chunk's result, in libfpisa's thread. */
	static void done(void *arg, int rc, uint32_t flags)
	{
		allow_captures_elsewhere();
		const OnDevice current(static_cast<Chunk *>(arg)->transfer->device());
		std::unique_ptr<Chunk> chunk(static_cast<Chunk *>(arg));
		Transfer &transfer = *chunk->transfer;
		const auto kept = transfer.kept_of(chunk->first, chunk->first + chunk->count);

		try {
			auto error = chunk->staging.result_(rc, flags);

			if (error)
				transfer.fail(error);
			else if (kept.second && !transfer.failed())
				transfer.copy_back(chunk->sums, kept.first, kept.second);
		} catch (...) {
			transfer.fail(std::current_exception());
		}
	}

	const Start start_;
	const Result result_;
	std::mutex lock_; /* protects the members below */
	std::condition_variable changed_;
	std::deque<std::function<void()>> queue_;
	std::map<c10::DeviceIndex, Lane> lanes_;
	size_t pending_ = 0; /* calls in the queue, and the call that is being started */
	size_t buffers_ = 0;
	bool closed_ = false;
};

} // namespace fpisa_torch

#endif
