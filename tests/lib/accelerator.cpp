// SPDX-License-Identifier: GPL-2.0-only
/*
 * An accelerator for tests of adapters/torch/staging.hpp: device type PrivateUse1, whose memory is the host's. Each
 * stream is a thread that does its copies late, as set by delay(). Other operations run on the CPU, after the
 * current stream. Freed memory is unmapped at once, or, if a stream was recorded for it, when that stream has done
 * its work. So a missing wait gives a wrong result, and a use of memory that was freed too early crashes.
 */
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include <sys/mman.h>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

namespace
{

constexpr auto TYPE = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex DEVICES = 2;
constexpr c10::StreamId STREAMS = 32; /* streams of each device; stream 0 is the default stream */

std::map<std::string, int64_t> counts;
std::mutex counts_lock;
std::atomic<int64_t> delay_us{0};

void count(const char *name)
{
	std::lock_guard<std::mutex> lock(counts_lock);
	counts[name]++;
}

/* A queue of work and the thread that does it. It is never destroyed. */
class Queue
{
      public:
	Queue()
	{
		std::thread([this] { run(); }).detach();
	}

	void push(std::function<void()> work)
	{
		{
			std::lock_guard<std::mutex> lock(lock_);
			work_.push_back(std::move(work));
		}
		changed_.notify_all();
	}

	void drain()
	{
		std::unique_lock<std::mutex> lock(lock_);
		changed_.wait(lock, [&] { return work_.empty(); });
	}

      private:
	void run()
	{
		std::unique_lock<std::mutex> lock(lock_);

		for (;;) {
			changed_.wait(lock, [&] { return !work_.empty(); });
			auto &work = work_.front();
			lock.unlock();
			work();
			work = nullptr;
			lock.lock();
			work_.pop_front();
			changed_.notify_all();
		}
	}

	std::mutex lock_;
	std::condition_variable changed_;
	std::deque<std::function<void()>> work_;
};

Queue &queue_of(c10::DeviceIndex device, c10::StreamId stream)
{
	static std::mutex lock;
	static std::map<std::pair<int, c10::StreamId>, Queue *> queues;
	std::lock_guard<std::mutex> locked(lock);
	auto &queue = queues[{device, stream}];

	if (!queue)
		queue = new Queue;
	return *queue;
}

Queue &queue_of(const c10::Stream &stream)
{
	return queue_of(stream.device_index(), stream.id());
}

thread_local c10::DeviceIndex current;

/* Make a device current as CUDA's runtime does, which creates a context there. */
void use(c10::DeviceIndex device)
{
	count(device ? "uses of device 1" : "uses of device 0");
	current = device;
}

/* Make the event's device current, and then the previous device again, as PyTorch does for an event of CUDA. */
void visit(c10::DeviceIndex device)
{
	const auto before = current;

	use(device);
	use(before);
}
thread_local c10::StreamId streams[DEVICES];

struct Mark {
	std::mutex lock;
	std::condition_variable changed;
	bool reached = false;
};
using Event = std::shared_ptr<Mark>;

struct Guard final : public c10::impl::DeviceGuardImplInterface {
	c10::DeviceType type() const override
	{
		return TYPE;
	}
	c10::Device exchangeDevice(c10::Device d) const override
	{
		const auto before = current;

		use(d.index());
		return c10::Device(TYPE, before);
	}
	c10::Device getDevice() const override
	{
		return c10::Device(TYPE, current);
	}
	void setDevice(c10::Device d) const override
	{
		use(d.index());
	}
	void uncheckedSetDevice(c10::Device d) const noexcept override
	{
		current = d.index();
	}
	c10::Stream getStream(c10::Device d) const noexcept override
	{
		const auto index = d.has_index() ? d.index() : current;
		return c10::Stream(c10::Stream::UNSAFE, c10::Device(TYPE, index), streams[index]);
	}
	c10::Stream getDefaultStream(c10::Device d) const override
	{
		return c10::Stream(c10::Stream::UNSAFE, d, 0);
	}
	c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override
	{
		static std::atomic<c10::StreamId> next{0};
		return c10::Stream(c10::Stream::UNSAFE, d, 1 + next++ % STREAMS);
	}
	c10::Stream exchangeStream(c10::Stream s) const noexcept override
	{
		return c10::Stream(c10::Stream::UNSAFE, s.device(), std::exchange(streams[s.device_index()], s.id()));
	}
	c10::DeviceIndex deviceCount() const noexcept override
	{
		return DEVICES;
	}
	void record(void **event, const c10::Stream &s, const c10::DeviceIndex, const c10::EventFlag) const override
	{
		auto mark = std::make_shared<Mark>();

		count("record");
		visit(s.device_index());
		delete static_cast<Event *>(*event);
		*event = new Event(mark);
		queue_of(s).push([mark] {
			std::lock_guard<std::mutex> lock(mark->lock);
			mark->reached = true;
			mark->changed.notify_all();
		});
	}
	void block(void *event, const c10::Stream &s) const override
	{
		count("block");
		visit(s.device_index());
		queue_of(s).push([mark = *static_cast<Event *>(event)] {
			std::unique_lock<std::mutex> lock(mark->lock);
			mark->changed.wait(lock, [&] { return mark->reached; });
		});
	}
	bool queryEvent(void *event) const override
	{
		auto &mark = **static_cast<Event *>(event);
		std::lock_guard<std::mutex> lock(mark.lock);

		return mark.reached;
	}
	void destroyEvent(void *event, const c10::DeviceIndex device) const noexcept override
	{
		if (event)
			visit(device);
		delete static_cast<Event *>(event);
	}
	void synchronizeStream(const c10::Stream &s) const override
	{
		queue_of(s).drain();
	}
	void recordDataPtrOnStream(const c10::DataPtr &, const c10::Stream &) const override;
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

/* A block of memory. It is the context of its DataPtr. */
struct Block {
	void *data;
	size_t size;
	c10::DeviceIndex device;
	std::set<c10::StreamId> users; /* streams that use the block */
};

void Guard::recordDataPtrOnStream(const c10::DataPtr &pointer, const c10::Stream &s) const
{
	if (pointer)
		static_cast<Block *>(pointer.get_context())->users.insert(s.id());
}

/* Unmap a block when the streams that use it have done their work. */
void free_block(void *context)
{
	auto *block = static_cast<Block *>(context);
	auto last = std::shared_ptr<Block>(block, [](Block *b) {
		munmap(b->data, b->size);
		delete b;
	});

	for (auto stream : block->users)
		queue_of(block->device, stream).push([last] {});
}

struct Allocator final : public c10::Allocator {
	c10::DataPtr allocate(size_t size) override
	{
		auto *block = new Block{nullptr, size + 1, current, {}};

		block->data = mmap(nullptr, block->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		TORCH_CHECK(block->data != MAP_FAILED, "mmap: ", strerror(errno));

		count("allocate");
		return {block->data, block, free_block, c10::Device(TYPE, current)};
	}
	c10::DeleterFnPtr raw_deleter() const override
	{
		return nullptr;
	}
	void copy_data(void *to, const void *from, size_t size) const override
	{
		memcpy(to, from, size);
	}
};

Allocator allocator;

at::Tensor empty(c10::IntArrayRef size, c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
		 c10::optional<at::Device> device, c10::optional<bool>, c10::optional<at::MemoryFormat> format)
{
	c10::DeviceGuard guard(device ? *device : c10::Device(TYPE, current));
	return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
					 c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, c10::optional<at::ScalarType> type,
			 c10::optional<at::Layout>, c10::optional<at::Device> device, c10::optional<bool>)
{
	c10::DeviceGuard guard(device ? *device : c10::Device(TYPE, current));
	return at::detail::empty_strided_generic(size, stride, &allocator,
						 c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
						 c10::dtype_or_default(type));
}

/* Return the values as a tensor of the CPU that shares the memory. */
at::Tensor on_cpu(const at::Tensor &t)
{
	return t.is_cpu() ? t : at::from_blob(t.data_ptr(), t.sizes(), t.strides(), at::TensorOptions(t.scalar_type()));
}

/*
 * Copy on the device's current stream. The stream keeps both tensors. Wait for the copy unless the caller asked for a
 * non-blocking copy.
 */
at::Tensor &copy(at::Tensor &to, const at::Tensor &from, bool non_blocking)
{
	const auto device = to.is_cpu() ? from.device() : to.device();
	const auto stream = c10::impl::VirtualGuardImpl(TYPE).getStream(device);

	count(to.is_cpu() ? "to host" : from.is_cpu() ? "to device" : "on device");
	queue_of(stream).push([=] {
		std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
		on_cpu(to).copy_(on_cpu(from));
	});
	if (!non_blocking)
		queue_of(stream).drain();
	return to;
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool non_blocking)
{
	at::Tensor written = to;
	return copy(written, from, non_blocking);
}

/* Give `to`, an output on the device, the size and values of `from`, which an operation on the CPU has made. */
at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to)
{
	if (to.sizes() != from.sizes())
		to.unsafeGetTensorImpl()->shallow_copy_from(at::empty(from.sizes(), to.options()).getIntrusivePtr());
	return copy_from(from, to, false);
}

at::Tensor as_strided(const at::Tensor &t, c10::IntArrayRef size, c10::IntArrayRef stride, c10::optional<int64_t> offset)
{
	return at::native::as_strided_tensorimpl(t, size, stride, offset);
}

at::Tensor view(const at::Tensor &t, c10::IntArrayRef size)
{
	return at::native::view(t, size);
}

void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
	at::native::cpu_fallback(op, stack);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
	m.impl("empty.memory_format", empty);
	m.impl("empty_strided", empty_strided);
	m.impl("as_strided", as_strided);
	m.impl("view", view);
	m.impl("copy_", copy);
	m.impl("_copy_from", copy_from);
	m.impl("_copy_from_and_resize", copy_from_and_resize);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
	m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

/* PyTorch 2.4 does not have a fallback of autograd for this type of device, which c10d's operators need. */
TORCH_LIBRARY_IMPL(c10d, AutogradPrivateUse1, m)
{
	for (const char *name : {"allreduce_", "allreduce_coalesced_", "reduce_", "reduce_scatter_",
				 "_reduce_scatter_base_", "broadcast_"})
		m.impl(name, torch::CppFunction::makeFallthrough());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
	m.def("delay", [](double seconds) { delay_us = int64_t(seconds * 1e6); });
	m.def("counts", [] {
		std::lock_guard<std::mutex> lock(counts_lock);
		return counts;
	});
	m.def("current_device", [] { return int(current); });
	m.def("set_device", [](int device) { current = device; });
	m.def("set_stream", [](int stream) { streams[current] = stream; });
	m.def("synchronize", [] {
		py::gil_scoped_release released;
		for (c10::StreamId s = 0; s <= STREAMS; s++)
			queue_of(current, s).drain();
	});
}
