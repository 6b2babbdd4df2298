#include "worker/backend/cuda/arena.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/cuda_status.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/cuda/lane.h"

namespace sangam {
namespace {

constexpr int64_t kPieceBytes = Backend::kAllocationElements * static_cast<int64_t>(sizeof(float));

// Bytes of so many elements in whole pieces; more than any device has when they do not fit.
int64_t PieceBytes(int64_t num_elements) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / kPieceBytes;
  const int64_t pieces = num_elements / Backend::kAllocationElements +
                         (num_elements % Backend::kAllocationElements == 0 ? 0 : 1);
  return (pieces < kMax ? pieces : kMax) * kPieceBytes;
}

}  // namespace

// A part of a reserve, or a block of its own.
class CudaArena::Memory : public BackendMemory {
 public:
  Memory(CudaLane* lane, Block* reserve, float* data, int64_t size)
      : BackendMemory(data, size), lane_(lane), reserve_(reserve) {
    ++reserve_->pieces;
  }
  Memory(CudaLane* lane, std::unique_ptr<Block> own, int64_t size)
      : BackendMemory(static_cast<float*>(own->buffer.data()), size),
        lane_(lane),
        own_(std::move(own)) {}

  ~Memory() override {
    if (reserve_ != nullptr) {
      --reserve_->pieces;
      return;
    }
    // Work that was asked for may use it still. A failed device uses nothing.
    if (size() > 0) lane_->Synchronize().IgnoreError();
  }

 private:
  CudaLane* lane_;
  Block* reserve_ = nullptr;
  std::unique_ptr<Block> own_;
};

absl::Status CudaArena::Clear(Block* block) {
  if (block->buffer.bytes() == 0) return absl::OkStatus();
  // All of the streams: copies beside the computation do not wait for it.
  RETURN_IF_ERROR(lane_->Synchronize());
  RETURN_IF_ERROR(
      lane_->Check(cudaMemsetAsync(block->buffer.data(), 0,
                                   static_cast<size_t>(block->buffer.bytes()), lane_->compute()),
                   "clearing memory"));
  return lane_->Synchronize(lane_->compute());
}

absl::StatusOr<std::unique_ptr<CudaArena::Block>> CudaArena::NewBlock(int64_t num_elements) {
  auto block = std::make_unique<Block>();
  ASSIGN_OR_RETURN(block->buffer, DeviceBuffer::Allocate(PieceBytes(num_elements)));
  RETURN_IF_ERROR(Clear(block.get()));
  return block;
}

absl::Status CudaArena::Reserve(int64_t num_elements) {
  if (num_elements <= 0) return absl::OkStatus();
  RETURN_IF_ERROR(lane_->Begin("reserve"));
  ASSIGN_OR_RETURN(std::unique_ptr<Block> block, NewBlock(num_elements));
  reserves_.push_back(std::move(block));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BackendMemory>> CudaArena::Allocate(int64_t num_elements) {
  RETURN_IF_ERROR(lane_->Begin("allocate"));
  const int64_t bytes = PieceBytes(num_elements);
  for (const std::unique_ptr<Block>& reserve : reserves_) {
    if (bytes == 0) break;
    if (reserve->pieces == 0 && reserve->used_bytes > 0) {
      RETURN_IF_ERROR(Clear(reserve.get()));
      reserve->used_bytes = 0;
    }
    if (reserve->buffer.bytes() - reserve->used_bytes < bytes) continue;
    auto* const data = static_cast<std::byte*>(reserve->buffer.data()) + reserve->used_bytes;
    reserve->used_bytes += bytes;
    return std::make_unique<Memory>(lane_, reserve.get(), reinterpret_cast<float*>(data),
                                    num_elements);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Block> block, NewBlock(num_elements));
  return std::make_unique<Memory>(lane_, std::move(block), num_elements);
}

}  // namespace sangam
