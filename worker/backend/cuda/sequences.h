#ifndef SANGAM_WORKER_BACKEND_CUDA_SEQUENCES_H_
#define SANGAM_WORKER_BACKEND_CUDA_SEQUENCES_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/cuda/dropout.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/cuda/sequence_key.h"
#include "worker/backend/cuda/staging.h"

namespace sangam {

// Operations that a lane is asked for one after another, kept until they are submitted. The first
// time that a sequence comes its operations are put on the computing stream one by one; the second
// time they are recorded into a graph, which from then on is launched in their place. What decides
// is all that the operations are told, so a graph does what they would have done.
//
// What cannot be recorded, or for whose graph there is no memory, and what comes when there are too
// many others, goes one by one. Not
// thread-safe.
class CudaSequences {
 public:
  // The lane must outlive it.
  explicit CudaSequences(CudaLane* lane);
  ~CudaSequences();

  bool is_open() const { return open_; }
  void Open() { open_ = true; }
  // Submits what is kept, and keeps nothing any more.
  absl::Status Close();

  // Keeps an operation; before that, all that it is told has been added to key(). `name` lives as
  // long as the program.
  SequenceKey* key() { return &key_; }
  absl::Status Keep(const char* name, std::function<absl::Status()> operation);
  // What of an operation changes from time to time, and is no part of the key: it is brought to the
  // device in front of the sequence. The result says where it will be, by number.
  // Errors: as Submit, which it may call
  absl::StatusOr<size_t> KeepNumbers(const cuda_kernels::DropoutNumbers& numbers);
  // For operations while they are put on the stream.
  const cuda_kernels::DropoutNumbers* numbers(size_t index) const { return on_device_ + index; }

  // Puts what is kept on the computing stream.
  // Errors: the first operation's that failed; Internal
  absl::Status Submit();

  // Takes the memory that it will need.
  absl::Status MakeRoom();

 private:
  struct Known {
    ~Known();
    std::string key;
    cudaGraphExec_t graph = nullptr;
    bool not_recordable = false;
  };
  using Order = std::list<std::unique_ptr<Known>>;
  struct Operation {
    const char* name;
    std::function<absl::Status()> run;
  };

  absl::Status Put(const std::vector<Operation>& operations, Known* known);
  absl::Status PutOneByOne(const std::vector<Operation>& operations);
  // Leaves known->graph or known->not_recordable set.
  absl::Status Record(const std::vector<Operation>& operations, Known* known);
  // From now on they go one by one.
  static void GiveUp(const std::vector<Operation>& operations, const absl::Status& status,
                     Known* known);
  // nullptr: new.
  Known* Find(const std::string& key);
  void Remember(std::string key);
  void ForgetMoved();

  CudaLane* lane_;
  bool open_ = false;
  SequenceKey key_;
  std::vector<Operation> kept_;
  std::vector<cuda_kernels::DropoutNumbers> kept_numbers_;
  CudaStaging staging_;
  const cuda_kernels::DropoutNumbers* on_device_ = nullptr;

  Order order_;  // what was wanted last comes first
  std::unordered_map<std::string, Order::iterator> known_;
  int64_t moves_ = 0;  // of the lane's memory, when they were recorded
};

// How many graphs this process has launched.
int64_t NumCudaGraphLaunches();

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_SEQUENCES_H_
