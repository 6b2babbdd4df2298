#include "common/tensor/buffer.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr size_t kAlignment = 64;
// Keeps the floats 64-byte aligned behind the reference count.
constexpr size_t kHeaderBytes = 64;

// Of memory, in bytes: a power of 2.
size_t PageBytes() {
  static const auto kBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return kBytes;
}

}  // namespace

struct FloatBuffer::Block {
  std::atomic<uint64_t> handles{1};
};

absl::StatusOr<FloatBuffer> FloatBuffer::Allocate(size_t num_elements) {
  const size_t kMaxElements = (SIZE_MAX - 2 * PageBytes() - kHeaderBytes) / sizeof(float);
  void* memory = nullptr;
  if (num_elements <= kMaxElements) {
    const size_t bytes = kHeaderBytes + num_elements * sizeof(float);
    const size_t alignment = num_elements < kOwnPagesElements ? kAlignment : PageBytes();
    // aligned_alloc wants a multiple of the alignment.
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    memory = std::aligned_alloc(alignment, rounded);
    if (memory != nullptr) std::memset(memory, 0, rounded);
  }
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate a buffer of ", num_elements, " floats"));
  }
  FloatBuffer buffer;
  buffer.block_ = new (memory) Block;
  buffer.data_ = reinterpret_cast<float*>(static_cast<char*>(memory) + kHeaderBytes);
  buffer.size_ = num_elements;
  return buffer;
}

FloatBuffer::~FloatBuffer() {
  if (block_ == nullptr) return;
  if (block_->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    block_->~Block();
    std::free(block_);
  }
}

FloatBuffer::FloatBuffer(const FloatBuffer& other)
    : block_(other.block_), data_(other.data_), size_(other.size_) {
  if (block_ != nullptr) block_->handles.fetch_add(1, std::memory_order_relaxed);
}

FloatBuffer::FloatBuffer(FloatBuffer&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

FloatBuffer& FloatBuffer::operator=(FloatBuffer other) noexcept {
  std::swap(block_, other.block_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

bool FloatBuffer::unique() const {
  return block_ != nullptr && block_->handles.load(std::memory_order_acquire) == 1;
}

absl::StatusOr<FloatBuffer> FloatBufferPool::Take() {
  for (const FloatBuffer& buffer : buffers_) {
    if (buffer.unique()) return buffer;
  }
  if (buffers_.size() >= max_buffers_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", max_buffers_, " buffers of ", num_elements_, " floats are in use"));
  }
  ASSIGN_OR_RETURN(FloatBuffer buffer, FloatBuffer::Allocate(num_elements_));
  buffers_.push_back(buffer);
  return buffer;
}

}  // namespace sangam
