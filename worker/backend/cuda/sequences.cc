#include "worker/backend/cuda/sequences.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "worker/backend/cuda/dropout.h"
#include "worker/backend/cuda/lane.h"

namespace sangam {

using cuda_kernels::DropoutNumbers;

namespace {

// Of a sequence: longer ones are submitted in parts.
constexpr size_t kMostOperations = 1024;
constexpr size_t kMostNumbers = 256;
// Sequences that are remembered. A lane has a few for each micro-batch in flight and each of the
// places that take turns.
constexpr size_t kMostKnown = 1024;
// Numbers on their way to the device.
constexpr size_t kNumberPlaces = 16;

std::atomic<int64_t> num_launches = 0;

}  // namespace

// A graph that is at work is freed when it is done.
CudaSequences::Known::~Known() {
  if (graph != nullptr) cudaGraphExecDestroy(graph);
}

CudaSequences::CudaSequences(CudaLane* lane) : lane_(lane), staging_(lane, kNumberPlaces) {}

CudaSequences::~CudaSequences() = default;

absl::Status CudaSequences::Close() {
  open_ = false;
  return Submit();
}

absl::Status CudaSequences::MakeRoom() {
  const bool rehearses = lane_->rehearses();
  lane_->set_rehearses(true);
  // Notes how much it will be, and so that it never moves.
  const absl::Status noted = staging_.Take(nullptr, kMostNumbers * sizeof(DropoutNumbers)).status();
  lane_->set_rehearses(rehearses);
  RETURN_IF_ERROR(noted);
  return staging_.MakeRoom();
}

absl::Status CudaSequences::Keep(const char* name, std::function<absl::Status()> operation) {
  kept_.push_back({name, std::move(operation)});
  return kept_.size() < kMostOperations ? absl::OkStatus() : Submit();
}

absl::StatusOr<size_t> CudaSequences::KeepNumbers(const DropoutNumbers& numbers) {
  if (kept_numbers_.size() == kMostNumbers) RETURN_IF_ERROR(Submit());
  kept_numbers_.push_back(numbers);
  return kept_numbers_.size() - 1;
}

absl::Status CudaSequences::Submit() {
  if (kept_.empty()) return absl::OkStatus();
  const std::vector<Operation> operations = std::exchange(kept_, {});
  const std::vector<DropoutNumbers> numbers = std::exchange(kept_numbers_, {});
  std::string key = key_.Take();
  RETURN_IF_ERROR(lane_->failure());
  // Nothing is done, so that nothing is known of it afterwards.
  if (lane_->rehearses()) return PutOneByOne(operations);
  if (!numbers.empty()) {
    RETURN_IF_ERROR(MakeRoom());
    RETURN_IF_ERROR(lane_->Begin("dropout"));
    const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(DropoutNumbers));
    ASSIGN_OR_RETURN(const void* const on_device, staging_.Take(numbers.data(), bytes));
    on_device_ = static_cast<const DropoutNumbers*>(on_device);
  }
  if (Known* const known = Find(key); known != nullptr) return Put(operations, known);
  // Whatever is only done the first time is done now: memory, algorithms, kernels that are loaded.
  // After an error some of it is missing.
  RETURN_IF_ERROR(PutOneByOne(operations));
  Remember(std::move(key));
  return absl::OkStatus();
}

absl::Status CudaSequences::Put(const std::vector<Operation>& operations, Known* known) {
  if (known->graph == nullptr && !known->not_recordable) {
    RETURN_IF_ERROR(Record(operations, known));
  }
  if (known->graph == nullptr) return PutOneByOne(operations);
  std::vector<const char*> names;
  names.reserve(operations.size());
  for (const Operation& operation : operations) names.push_back(operation.name);
  RETURN_IF_ERROR(lane_->Begin(names));
  const absl::Status launched =
      lane_->Check(cudaGraphLaunch(known->graph, lane_->compute()), "a graph");
  // The driver keeps memory for a graph, from its first launch on.
  if (absl::IsResourceExhausted(launched)) {
    cudaGraphExecDestroy(std::exchange(known->graph, nullptr));
    GiveUp(operations, launched, known);
    return PutOneByOne(operations);
  }
  RETURN_IF_ERROR(launched);
  num_launches.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status CudaSequences::PutOneByOne(const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) RETURN_IF_ERROR(operation.run());
  return absl::OkStatus();
}

absl::Status CudaSequences::Record(const std::vector<Operation>& operations, Known* known) {
  RETURN_IF_ERROR(lane_->Begin("record a graph"));
  absl::Status status =
      lane_->Check(cudaStreamBeginCapture(lane_->compute(), cudaStreamCaptureModeThreadLocal),
                   "recording a graph");
  if (status.ok()) {
    lane_->set_records(true);
    status = PutOneByOne(operations);
    lane_->set_records(false);
    cudaGraph_t graph = nullptr;
    // Also what has failed is ended, so that the stream is an ordinary one again.
    status.Update(
        lane_->Check(cudaStreamEndCapture(lane_->compute(), &graph), "recording a graph"));
    if (status.ok()) {
      status = lane_->Check(cudaGraphInstantiate(&known->graph, graph, 0), "a new graph");
    }
    if (!status.ok()) known->graph = nullptr;
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaGetLastError();
  RETURN_IF_ERROR(lane_->failure());
  if (!status.ok()) GiveUp(operations, status, known);
  return absl::OkStatus();
}

void CudaSequences::GiveUp(const std::vector<Operation>& operations, const absl::Status& status,
                           Known* known) {
  known->not_recordable = true;
  LogWarning("operations that make no graph go one by one", "first=%s count=%d status=%s",
             LogValue(operations.front().name), operations.size(), LogValue(status.ToString()));
}

CudaSequences::Known* CudaSequences::Find(const std::string& key) {
  ForgetMoved();
  const auto found = known_.find(key);
  if (found == known_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return found->second->get();
}

void CudaSequences::Remember(std::string key) {
  ForgetMoved();
  if (order_.size() == kMostKnown) {
    known_.erase(order_.back()->key);
    order_.pop_back();
  }
  auto known = std::make_unique<Known>();
  known->key = key;
  order_.push_front(std::move(known));
  known_.emplace(std::move(key), order_.begin());
}

void CudaSequences::ForgetMoved() {
  if (moves_ == lane_->moves()) return;
  known_.clear();
  order_.clear();
  moves_ = lane_->moves();
}

int64_t NumCudaGraphLaunches() { return num_launches.load(std::memory_order_relaxed); }

}  // namespace sangam
