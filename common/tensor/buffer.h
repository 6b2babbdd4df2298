#ifndef SANGAM_COMMON_TENSOR_BUFFER_H_
#define SANGAM_COMMON_TENSOR_BUFFER_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"

namespace sangam {

// A shared handle of a block of floats, aligned to 64 bytes. Copying the handle shares the block;
// the last handle frees it. Handles may be copied and dropped on any thread; the floats themselves
// are not guarded: whoever writes must be the only one who holds the block (see unique()), or those
// who hold it must have agreed who reads and writes which part.
class FloatBuffer {
 public:
  // An empty handle.
  FloatBuffer() = default;
  ~FloatBuffer();
  FloatBuffer(const FloatBuffer& other);
  FloatBuffer(FloatBuffer&& other) noexcept;
  FloatBuffer& operator=(FloatBuffer other) noexcept;

  // Blocks of at least so many floats share no page of memory with anything else, so that they can
  // be page-locked one by one for the copies of a device.
  static constexpr size_t kOwnPagesElements = 1024;

  // A block of `num_elements` floats, all 0. The memory is touched, so that no later use faults.
  // Errors: ResourceExhausted  the memory cannot be had
  static absl::StatusOr<FloatBuffer> Allocate(size_t num_elements);

  explicit operator bool() const { return block_ != nullptr; }
  float* data() const { return data_; }
  // In elements.
  size_t size() const { return size_; }

  // Whether this is the only handle. When true, everything that other threads did with the block
  // has happened before, and it may be written.
  bool unique() const;

 private:
  struct Block;
  Block* block_ = nullptr;
  float* data_ = nullptr;
  size_t size_ = 0;
};

// Blocks of one size that are used again when all who had them have let go. Not thread-safe; the
// handles that it gives out may be dropped on any thread.
class FloatBufferPool {
 public:
  // At most `max_buffers` blocks of `num_elements` floats are alive at once.
  FloatBufferPool(size_t num_elements, size_t max_buffers)
      : num_elements_(num_elements), max_buffers_(max_buffers) {}

  // A block that nobody else holds; its content is what the last user left.
  // Errors: ResourceExhausted  all blocks are in use, or the memory cannot be had
  absl::StatusOr<FloatBuffer> Take();

 private:
  size_t num_elements_;
  size_t max_buffers_;
  std::vector<FloatBuffer> buffers_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_TENSOR_BUFFER_H_
