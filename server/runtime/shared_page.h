#ifndef SANGAM_SERVER_RUNTIME_SHARED_PAGE_H_
#define SANGAM_SERVER_RUNTIME_SHARED_PAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/model/learning_rate.h"
#include "common/tensor/slices.h"
#include "proto/parameter_service.pb.h"
#include "server/core/parameter_page.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// One page with its lock and its subscribers. Thread-safe.
//
// Weights go out with no lock held. One thread at a time sends for a page: another one that has
// news in the meantime leaves them to it. So the steps that a sink gets never go backwards, and no
// step comes twice.
class SharedPage {
 public:
  SharedPage(uint64_t job, ParameterPage page) : job_(job), page_(std::move(page)) {}

  // What the page says about its step, if anything: for the one who counts.
  using Vote = std::optional<ParameterPage::Vote>;

  // As ParameterPage's; new weights are sent. Returns what is to be handed on.
  absl::StatusOr<Vote> Add(const GradientKey& key, SlicePayload elements)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Vote> Decide(const v1::StepDecision& decision) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Vote> Begin(const LearningRate& rate) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends the weights of `lowest_step` to `sink` when they are held, else the newest ones when they
  // are later, and then every update. A sink that is subscribed already changes nothing.
  // Errors: Aborted             older generation
  //         FailedPrecondition  later generation
  absl::Status Subscribe(uint64_t generation, uint64_t lowest_step,
                         const std::shared_ptr<WeightsSink>& sink) ABSL_LOCKS_EXCLUDED(mutex_);

  // No update that begins later is sent to `sink`.
  void Unsubscribe(const WeightsSink* sink) ABSL_LOCKS_EXCLUDED(mutex_);
  void UnsubscribeAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on the page's state goes to `take` whenever it gets to one of `steps`, at once when it
  // is there; in place of the steps of the last call. `take` is called without a lock, on any
  // thread.
  using TakeSnapshot = std::function<void(PageState)>;
  void WantSnapshots(std::vector<uint64_t> steps, TakeSnapshot take) ABSL_LOCKS_EXCLUDED(mutex_);

  // The newest weights.
  PageWeights Read() const ABSL_LOCKS_EXCLUDED(mutex_);

  // As ParameterPage's; so too below.
  std::vector<ParameterPage::Vote> Votes() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t generation() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Reduce() ABSL_LOCKS_EXCLUDED(mutex_);
  ParameterPage::Ignored ignored() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Subscription {
    std::shared_ptr<WeightsSink> sink;
    uint64_t next_step = 0;  // the lowest step that it has not been sent
  };
  // One version and who gets it.
  struct Delivery {
    PageWeights weights;
    std::vector<std::shared_ptr<WeightsSink>> sinks;
  };

  // Does `change` to the page, then sends what is new.
  template <typename Change>
  absl::StatusOr<Vote> Do(const Change& change) ABSL_LOCKS_EXCLUDED(mutex_);
  // The state, when a snapshot of this step is wanted, and who takes it.
  std::pair<std::optional<PageState>, TakeSnapshot> DueSnapshot()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PageWeights Weights(const PageVersion& version) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver() ABSL_LOCKS_EXCLUDED(mutex_);
  // A gradient of the page's step has come; `complete`: the last one.
  void NoteArrival(bool complete) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What must be sent now; empty: nothing, or another thread sees to it. `sending`: whether the
  // caller is the one who sends.
  std::vector<Delivery> TakeDue(bool sending) ABSL_LOCKS_EXCLUDED(mutex_);

  const uint64_t job_;
  mutable Mutex mutex_;
  ParameterPage page_ ABSL_GUARDED_BY(mutex_);
  std::vector<Subscription> subscriptions_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> snapshot_steps_ ABSL_GUARDED_BY(mutex_);
  TakeSnapshot take_snapshot_ ABSL_GUARDED_BY(mutex_);
  // Of the page's step; none has come yet.
  std::optional<absl::Duration> first_arrival_ ABSL_GUARDED_BY(mutex_);
  // Whether a thread is sending.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_SHARED_PAGE_H_
