// The functions of the API about graphs: lists of recorded operations.

#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/include/cuda_runtime_api.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/streams.h"

namespace cuda_on_cpu {
namespace {

using Operations = std::vector<Operation>;

}  // namespace
}  // namespace cuda_on_cpu

struct CUgraph_st {
  cuda_on_cpu::Operations operations;
};

struct CUgraphExec_st {
  std::shared_ptr<const cuda_on_cpu::Operations> operations;
};

namespace cuda_on_cpu {
namespace {

std::mutex mutex;
// All protected by `mutex`.
cudaError_t next_launch = cudaSuccess;  // what it returns
std::set<cudaGraph_t>& graphs = *new std::set<cudaGraph_t>;
std::set<cudaGraphExec_t>& execs = *new std::set<cudaGraphExec_t>;

cudaError_t BeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const cudaError_t error = Ready();
  if (error != cudaSuccess) return error;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  return Streams::Get().BeginCapture(stream, std::move(capture));
}

cudaError_t EndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  cudaError_t error = Ready();
  if (error != cudaSuccess) return error;
  if (graph == nullptr) return cudaErrorInvalidValue;
  *graph = nullptr;
  auto ended = std::make_unique<CUgraph_st>();
  error = Streams::Get().EndCapture(stream, &ended->operations);
  if (error != cudaSuccess) return error;
  std::lock_guard<std::mutex> lock(mutex);
  *graph = *graphs.insert(ended.release()).first;
  return cudaSuccess;
}

cudaError_t Instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  const cudaError_t error = Ready();
  if (error != cudaSuccess) return error;
  std::lock_guard<std::mutex> lock(mutex);
  if (exec == nullptr || graphs.count(graph) == 0) return cudaErrorInvalidValue;
  auto* created = new CUgraphExec_st;
  created->operations = std::make_shared<Operations>(graph->operations);
  execs.insert(created);
  *exec = created;
  return cudaSuccess;
}

// Each operation is one of the stream, so that a fault names it and a device error stops the rest.
cudaError_t LaunchGraph(cudaGraphExec_t exec, cudaStream_t stream) {
  cudaError_t error = Ready();
  if (error != cudaSuccess) return error;
  std::shared_ptr<const Operations> operations;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (execs.count(exec) == 0) return cudaErrorInvalidValue;
    error = std::exchange(next_launch, cudaSuccess);
    if (error != cudaSuccess) return error;
    operations = exec->operations;
  }
  for (const Operation& operation : *operations) {
    error = Streams::Get().Put(stream, operation);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

void FailNextGraphLaunch(cudaError_t error) {
  std::lock_guard<std::mutex> lock(mutex);
  next_launch = error;
}

}  // namespace cuda_on_cpu

using cuda_on_cpu::Ready;
using cuda_on_cpu::Return;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Return(cuda_on_cpu::BeginCapture(stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Return(cuda_on_cpu::EndCapture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (Ready() != cudaSuccess) return Return(Ready());
  if (status == nullptr) return Return(cudaErrorInvalidValue);
  std::shared_ptr<cuda_on_cpu::Capture> capture;
  const cudaError_t error = cuda_on_cpu::Streams::Get().FindCapture(stream, &capture);
  if (error != cudaSuccess) return Return(error);
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->spoilt  ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return Return(cuda_on_cpu::Instantiate(exec, graph));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return Return(cuda_on_cpu::LaunchGraph(exec, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (Ready() != cudaSuccess) return Return(Ready());
  std::lock_guard<std::mutex> lock(cuda_on_cpu::mutex);
  if (cuda_on_cpu::execs.erase(exec) == 0) return Return(cudaErrorInvalidValue);
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (Ready() != cudaSuccess) return Return(Ready());
  std::lock_guard<std::mutex> lock(cuda_on_cpu::mutex);
  if (cuda_on_cpu::graphs.erase(graph) == 0) return Return(cudaErrorInvalidValue);
  delete graph;
  return cudaSuccess;
}
