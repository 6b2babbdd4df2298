#ifndef TESTS_CUDA_ON_CPU_STREAMS_H_
#define TESTS_CUDA_ON_CPU_STREAMS_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "tests/cuda_on_cpu/capture.h"
#include "tests/cuda_on_cpu/include/driver_types.h"
#include "tests/cuda_on_cpu/operation.h"

namespace cuda_on_cpu {

struct Queue;

// All that was put into a queue up to `sequence`.
struct Position {
  std::shared_ptr<Queue> queue;
  uint64_t sequence = 0;
};

// The operations of one stream.
struct Queue {
  struct Entry {
    Operation operation;
    std::vector<Position> needs;  // done before it starts
  };

  bool blocking = true;  // waits for the default stream, and is waited for by it
  std::deque<Entry> entries;
  uint64_t put = 0;   // how many operations ever came
  uint64_t done = 0;  // how many of them are over
  bool busy = false;  // some thread runs the next one
  std::shared_ptr<Capture> capture;
};

}  // namespace cuda_on_cpu

struct CUstream_st {
  std::shared_ptr<cuda_on_cpu::Queue> queue = std::make_shared<cuda_on_cpu::Queue>();
  int priority = 0;
};

namespace cuda_on_cpu {

// All streams. A stream does nothing by itself: the threads that wait run what they wait for, so
// that what nobody waits for has not happened (control.h: StreamMode). Thread-safe; two streams may
// run at a time.
class Streams {
 public:
  static Streams& Get();

  cudaError_t Create(cudaStream_t* stream, unsigned flags, int priority);
  // What is in it will still be done.
  cudaError_t Destroy(cudaStream_t stream);

  // Puts an operation into a stream, or into the graph that it captures. Waits when too much is in
  // it. `position`, if given, becomes the operation's place.
  cudaError_t Put(cudaStream_t stream, Operation operation, Position* position = nullptr);
  // Makes what comes later wait for `position`.
  cudaError_t PutWait(cudaStream_t stream, Position position);

  // Where the stream's end is now.
  cudaError_t End(cudaStream_t stream, Position* position);
  // Runs what is needed until the position is done.
  cudaError_t WaitFor(const Position& position);
  // Whether it is done; does a little if not.
  cudaError_t Query(const Position& position);
  cudaError_t WaitForAll();

  // For work that somebody may wait for by other means than the API, such as a function of the host
  // that tells him: a thread of its own runs the stream to here, soon.
  void Promise(Position position);

  size_t pending();
  // Forgets all streams and what is in them.
  void Reset();

  // Of a stream that captures, else null.
  cudaError_t FindCapture(cudaStream_t stream, std::shared_ptr<Capture>* capture);
  cudaError_t BeginCapture(cudaStream_t stream, std::shared_ptr<Capture> capture);
  cudaError_t EndCapture(cudaStream_t stream, std::vector<Operation>* operations);
  // What a captured stream knows to be before its end, and makes a stream know more; it is captured
  // from then on.
  cudaError_t CapturedSoFar(cudaStream_t stream, Known* known);
  cudaError_t JoinCapture(cudaStream_t stream, const std::shared_ptr<Capture>& capture,
                          const Known& known);
  // The error of calls that would wait or allocate while a capture is going on, which they spoil.
  cudaError_t CheckNoCapture();

 private:
  using Lock = std::unique_lock<std::mutex>;

  Streams();
  std::shared_ptr<Queue> Find(cudaStream_t stream);
  cudaError_t Append(Lock* lock, cudaStream_t stream, Operation operation,
                     std::vector<Position> needs, Position* position);
  void AddDefaultStreamNeeds(const std::shared_ptr<Queue>& queue, std::vector<Position>* needs);
  void RunUntil(Lock* lock, const std::shared_ptr<Queue>& queue, uint64_t sequence);
  void Release(const std::shared_ptr<Capture>& capture);
  // One step towards the end of `queue`.
  void Step(Lock* lock, std::shared_ptr<Queue> queue);
  void RunSome(Lock* lock);
  void KeepPromises();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Below: protected by mutex_.
  std::shared_ptr<Queue> default_queue_ = std::make_shared<Queue>();
  std::set<cudaStream_t> streams_;
  std::vector<std::shared_ptr<Queue>>
      queues_;  // the default one first; with those destroyed but not done
  std::set<std::shared_ptr<Capture>> captures_;
  std::deque<Position> promised_;
  bool keeps_promises_ = false;
  std::mt19937_64 random_;
  uint64_t seed_ = 0;
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_STREAMS_H_
