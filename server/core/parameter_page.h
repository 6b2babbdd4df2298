#ifndef SANGAM_SERVER_CORE_PARAMETER_PAGE_H_
#define SANGAM_SERVER_CORE_PARAMETER_PAGE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/learning_rate.h"
#include "common/plan/span.h"
#include "common/plan/span_tree.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/parameter_service.pb.h"
#include "server/core/optimizer.h"
#include "server/core/parked_sum.h"
#include "server/core/step_rules.h"

namespace sangam {

// What a gradient belongs to.
struct GradientKey {
  uint64_t generation = 0;
  uint64_t step = 0;
  ShareSpan span;
  uint64_t samples = 0;
  uint32_t use = 0;     // index into SegmentLayout.use
  uint32_t source = 0;  // index into Plan.worker; errors name it
};

// Errors: Aborted             `found` is older than `current`: refetch the plan
//         FailedPrecondition  it is later
absl::Status CheckGeneration(uint64_t found, uint64_t current);

// The weights of one step. Nobody writes them as long as somebody holds the handle.
struct PageVersion {
  uint64_t step = 0;
  FloatBuffer weights;
};

// Everything that a page is at one step. Nobody writes the buffers as long as somebody holds them.
struct PageState {
  uint64_t step = 0;
  uint64_t updates = 0;  // that the optimizer has made
  FloatBuffer weights;
  std::array<FloatBuffer, Optimizer::kMaxState>
      state;  // the first Optimizer::state_count() are set
};

// The names of a generation's workers, in the order of its plan.
using WorkerNames = std::shared_ptr<const std::vector<std::string>>;

// Merges the gradients of one page for one step, in the fixed order of the span tree, and updates
// the page when the tree is complete. A page that several blocks compute with has a tree for each
// use; the page's gradient is the sum of use 0, plus that of use 1, and so on, and the update waits
// for all of them. Nothing is updated before Begin has told the learning rates.
//
// Where the job decides about steps as a whole (StepRules.votes), a page goes through these states
// in each step:
//   parked    gradients are missing
//   complete  the mean gradient is computed and its norm voted on; waits for the decision on round
//   0 directed  trust ratios only: the optimizer's state has moved on, the norms of weights and
//             direction are voted on; waits for the decision on round 1
// and then has the weights of the next step, which are those of this one when the step is skipped.
// The votes on the step and on the one before can be cast again (Votes), for a counter that has not
// heard them, or for pages that have not got so far.
//
// Keeps two versions: the weights of step t and, until a complete gradient of t has come, those of
// t - 1, whose memory then takes the weights of t + 1. When a reader still holds that memory, the
// new weights get memory of their own (copy on write).
//
// Pure and not thread-safe: no clock, no I/O; its user serialises calls. The result depends on
// which shares were summed, never on the order in which their spans or uses arrived (design section
// 1).
class ParameterPage {
 public:
  struct Options {
    uint32_t segment = 0;
    uint32_t page = 0;  // index within the segment
    uint64_t first_element = 0;
    uint64_t element_count = 0;
    uint64_t generation = 0;
    uint32_t shares = 1;  // S
    uint32_t uses = 1;    // of the segment
    // Of all elements: sorted, without gaps. None: all are trained, without decay.
    std::vector<ParameterRange> ranges;
    StepRules rules;
    // Names of the blocks of the uses; where there is none, errors say the segment.
    std::vector<std::string> blocks;
    WorkerNames workers;
  };

  // What the page says about a step.
  struct Vote {
    uint64_t generation = 0;
    uint64_t step = 0;
    uint32_t round = 0;
    v1::PageVote vote;
  };

  // What the caller must do now.
  struct Effects {
    std::optional<PageVersion> publish;  // new weights: send to subscribers
    std::optional<Vote> vote;            // hand on to the one who counts
  };

  // Gradients that changed nothing.
  struct Ignored {
    uint64_t covered = 0;   // of shares that were here already
    uint64_t finished = 0;  // of a step that is over
  };

  // `initial`: the weights of step 0, held by nobody else. Takes all memory that the page needs.
  // Errors: ResourceExhausted  the memory cannot be had
  //         InvalidArgument    options that contradict one another
  static absl::StatusOr<ParameterPage> Create(Options options, const Optimizer& optimizer,
                                              FloatBuffer initial);

  // A page that goes on from `state`, whose buffers are held by nobody else.
  // Errors: as Create; InvalidArgument also for state of another length or number
  static absl::StatusOr<ParameterPage> Restore(Options options, const Optimizer& optimizer,
                                               PageState state);

  // Bytes that such a page takes: two versions and the optimizer's state.
  static uint64_t MemoryBytes(uint64_t element_count, const Optimizer& optimizer);
  // Bytes that it takes besides for each PageState that somebody holds: weights and state.
  static uint64_t SnapshotBytes(uint64_t element_count, const Optimizer& optimizer);

  // Adds a gradient sum: binary32, little-endian, one for each element of the page; the slices are
  // parked, not copied. The last one that a step needs completes it: g = sum / samples in float,
  // the samples being those of any one use; then the page votes or makes the update. A gradient of
  // shares that are here, or of a step that is over, changes nothing and is counted.
  //
  // Errors: InvalidArgument     span that is no node of the tree over [0, S), no use of the
  //                             segment, wrong length, too many samples; or, of the whole step: no
  //                             samples, uses that differ in samples, a mean that is not finite
  //                             unless such steps are skipped (names worker, block and shares)
  //         Aborted             older generation: refetch the plan
  //         FailedPrecondition  a step later than the page's own, a later generation, or a page
  //                             that is reduced
  //         ResourceExhausted   the memory for a copy on write cannot be had
  // On error nothing changes; but when the step was complete, its gradients and the older version
  // are let go, so that the step can be done anew.
  absl::StatusOr<Effects> Add(const GradientKey& key, SlicePayload elements);

  // What all pages together decided on a round of a step. What is decided already, or of an older
  // generation, changes nothing.
  // Errors: FailedPrecondition  a later generation, or the page has not voted on it
  //         InvalidArgument     it lacks sums, or they are not finite though such steps are errors
  absl::StatusOr<Effects> Decide(const v1::StepDecision& decision);

  // The job trains, with these learning rates. The second call and later ones change nothing.
  // Errors: as Decide
  absl::StatusOr<Effects> Begin(const LearningRate& rate);

  // All votes on the step and on the one before.
  std::vector<Vote> Votes() const;

  // Lets go of everything but the newest weights; the page takes no gradients any more.
  void Reduce();

  // The page as it is now, without a copy: as long as somebody holds what is returned, the next
  // update writes to fresh memory (copy on write). None while the page is directed: its state has
  // moved on, its weights have not.
  std::optional<PageState> Snapshot() const;

  const Options& options() const { return options_; }
  uint64_t generation() const { return options_.generation; }
  const PageVersion& current() const { return current_; }
  // The version before; none when it is let go.
  const std::optional<PageVersion>& previous() const { return previous_; }
  const Ignored& ignored() const { return ignored_; }
  // Steps that changed the weights.
  uint64_t updates() const { return updates_; }

 private:
  enum class State { kParked, kComplete, kDirected };
  ParameterPage(Options options, const Optimizer& optimizer);
  using Tree = SpanTree<ParkedSum, MergeParked>;
  // The gradient of one step.
  struct StepSum {
    ParkedSum sum;  // of all uses
    uint64_t samples = 0;
  };

  absl::Status Check(const GradientKey& key, uint64_t payload_bytes) const;
  // Whether every use's tree is complete.
  bool Complete() const;
  // Takes the sums of all uses.
  // Errors: InvalidArgument  no samples, or uses that differ in samples
  absl::StatusOr<StepSum> TakeSum();
  absl::StatusOr<Effects> Finish(const StepSum& sum);
  // Goes on with a complete step, when all is known that it takes.
  absl::StatusOr<Effects> GoOn();
  // The norms of weights and direction are voted on.
  Effects Direct(const StepNumbers& numbers);
  absl::StatusOr<Effects> ApplyTrust(const v1::StepDecision& decision);
  // `next_` has the weights of the next step.
  Effects EndStep();
  Effects Skip();
  void BeginNextStep(FloatBuffer weights);
  absl::StatusOr<FloatBuffer> TakeTarget();
  // The optimizer's state becomes this page's alone.
  // Errors: ResourceExhausted  the memory for the copy cannot be had
  absl::Status OwnState();
  Optimizer::Elements Elements();
  StepNumbers Numbers() const;
  // Notes it, and makes it an effect.
  Effects CastVote(v1::PageVote vote);
  // Who sent what is not finite: "worker w1, block layer2, shares [3,4)".
  std::string Blame(const ParkedSum& sum) const;
  std::string BlockName(uint32_t use) const;
  std::string Name() const;

  Options options_;
  Optimizer optimizer_;
  std::vector<Tree> trees_;  // by use
  PageVersion current_;
  std::optional<PageVersion> previous_;
  // Memory of a version that is let go, for the next one; empty as long as there is a previous one.
  FloatBuffer spare_;
  std::array<FloatBuffer, Optimizer::kMaxState> state_;
  std::optional<LearningRate> rate_;
  uint64_t updates_ = 0;

  State step_state_ = State::kParked;
  // Complete: the mean gradient; directed: the direction; otherwise empty.
  FloatBuffer next_;
  // The decision on round 0.
  std::optional<double> squared_norm_;
  // By round; of the step and of the one before.
  std::vector<v1::PageVote> votes_;
  std::vector<v1::PageVote> last_votes_;

  bool reduced_ = false;
  Ignored ignored_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_PARAMETER_PAGE_H_
