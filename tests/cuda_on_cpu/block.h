#ifndef TESTS_CUDA_ON_CPU_BLOCK_H_
#define TESTS_CUDA_ON_CPU_BLOCK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/cuda_on_cpu/fibers.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/barriers.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/device.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/warps.h"

namespace cuda_on_cpu {

constexpr int kMaxBlockThreads = 1024;
constexpr int kWarpThreads = 32;

// Runs the threads of one block on the calling thread of the operating system, one at a time: each
// until it ends or has to wait. Threads that never wait share one stack; the others keep a fiber
// each until they end.
//
// A wait that can never end is a fault of the kernel and reported (report.h).
class BlockRunner {
 public:
  BlockRunner();

  // The one of the calling thread.
  static BlockRunner& Current();

  // Runs `body` once for each thread, in the order of `order`, a permutation of 0...order.size()
  // - 1.
  void Run(uint3 dimensions, const std::vector<int>& order, const std::function<void()>& body);

  // Called by a thread of the block.
  int WaitForBlock(BarrierKind kind, int predicate, Site site);
  uint64_t WaitForWarp(const WarpCall& call);

 private:
  enum class State : uint8_t { kNew, kReady, kAtBarrier, kAtWarp, kDone };

  struct Barrier {
    BarrierKind kind;
    int predicate;
    Site site;
  };

  void SetDimensions(uint3 dimensions);
  void Loop(Fiber* fiber);
  void WaitHere(int thread);
  int Next();
  int FirstAfterRelease();
  void ReleaseBarrier();
  bool CompleteWarp(int thread);
  bool CompleteAnyWarp();
  void CheckWarpCalls(int thread, unsigned lanes);
  [[noreturn]] void ReportStuck();
  void Enter(int thread);

  FiberPool pool_;
  Fiber main_;

  // Of the running block.
  const std::function<void()>* body_ = nullptr;
  const std::vector<int>* order_ = nullptr;
  int num_threads_ = 0;
  int num_done_ = 0;
  int num_at_barrier_ = 0;
  int position_ = 0;                                   // in `order_`, of the running thread
  int current_ = 0;                                    // the running thread
  unsigned arrived_[kMaxBlockThreads / kWarpThreads];  // lanes that wait for their warp
  unsigned alive_[kMaxBlockThreads / kWarpThreads];    // lanes that exist and have not ended

  // By thread.
  uint3 dimensions_{0, 0, 0};
  uint3 index_[kMaxBlockThreads];
  State state_[kMaxBlockThreads];
  Fiber* fiber_[kMaxBlockThreads];
  Barrier barrier_[kMaxBlockThreads];
  int barrier_result_ = 0;
  WarpCall call_[kMaxBlockThreads];
  uint64_t warp_result_[kMaxBlockThreads];
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_BLOCK_H_
