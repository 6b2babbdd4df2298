#ifndef SANGAM_SERVER_CORE_PARAMETER_PAGE_H_
#define SANGAM_SERVER_CORE_PARAMETER_PAGE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/span.h"
#include "common/plan/span_tree.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "server/core/optimizer.h"
#include "server/core/parked_sum.h"

namespace sangam {

// What a gradient belongs to.
struct GradientKey {
  uint64_t generation = 0;
  uint64_t step = 0;
  ShareSpan span;
  uint64_t samples = 0;
  uint32_t use = 0;  // index into SegmentLayout.use
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

// Merges the gradients of one page for one step, in the fixed order of the span tree, and updates
// the page when the tree is complete. A page that several blocks compute with has a tree for each
// use; the page's gradient is the sum of use 0, plus that of use 1, and so on, and the update waits
// for all of them.
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
    uint64_t first_element = 0;
    uint64_t element_count = 0;
    uint64_t generation = 0;
    uint32_t shares = 1;              // S
    uint32_t uses = 1;                // of the segment
    std::vector<ElementRange> decay;  // within the page; sorted, disjoint
  };

  // What the caller must do now.
  struct Effects {
    std::optional<PageVersion> publish;  // new weights: send to subscribers
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

  // Adds a gradient sum: binary32, little-endian, one for each element of the page; the slices are
  // parked, not copied. The last one that a step needs makes the update: g = sum / samples in
  // float, the samples being those of any one use, then the optimizer. A gradient of shares that
  // are here, or of a step that is over, changes nothing and is counted.
  //
  // Errors: InvalidArgument     span that is no node of the tree over [0, S), no use of the
  //                             segment, wrong length, too many samples; or, of the whole step: no
  //                             samples, uses that differ in samples, a mean that is not finite
  //                             (names the spans to blame)
  //         Aborted             older generation: refetch the plan
  //         FailedPrecondition  a step later than the page's own, a later generation, or a page
  //                             that is reduced
  //         ResourceExhausted   the memory for a copy on write cannot be had
  // On error nothing changes; but when the update itself fails, the step's gradients and the older
  // version are let go, so that the step can be done anew.
  absl::StatusOr<Effects> Add(const GradientKey& key, SlicePayload elements);

  // Begins a new generation: lets go of parked gradients, keeps the versions. A generation that is
  // not newer changes nothing.
  void BeginGeneration(uint64_t generation);

  // Lets go of everything but the newest weights; the page takes no gradients any more.
  void Reduce();

  // The page as it is now, without a copy: as long as somebody holds what is returned, the next
  // update writes to fresh memory (copy on write).
  PageState Snapshot() const;

  const Options& options() const { return options_; }
  uint64_t generation() const { return options_.generation; }
  const PageVersion& current() const { return current_; }
  // The version before; none when it is let go.
  const std::optional<PageVersion>& previous() const { return previous_; }
  const Ignored& ignored() const { return ignored_; }

 private:
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
  absl::StatusOr<Effects> Update(const StepSum& sum);
  absl::StatusOr<FloatBuffer> TakeTarget();
  // The optimizer's state becomes this page's alone.
  // Errors: ResourceExhausted  the memory for the copy cannot be had
  absl::Status OwnState();
  absl::Status NotFinite(const ParkedSum& sum) const;
  std::string Name() const;

  Options options_;
  Optimizer optimizer_;
  std::vector<Tree> trees_;  // by use
  PageVersion current_;
  std::optional<PageVersion> previous_;
  // Memory of a version that is let go, for the next one; empty as long as there is a previous one.
  FloatBuffer spare_;
  std::array<FloatBuffer, Optimizer::kMaxState> state_;
  uint64_t updates_ = 0;
  bool reduced_ = false;
  Ignored ignored_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_PARAMETER_PAGE_H_
