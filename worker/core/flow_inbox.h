#ifndef SANGAM_WORKER_CORE_FLOW_INBOX_H_
#define SANGAM_WORKER_CORE_FLOW_INBOX_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/tensor/buffer.h"
#include "worker/core/flow_ledger.h"
#include "worker/core/flow_tag.h"

namespace sangam {

// The receiving end of a link from one worker: tensors that come piece by piece, wait, and are
// taken. What comes a second time, because a stream was lost, is recognised.
//
// Pure and not thread-safe.
class FlowInbox {
 public:
  enum class Fate {
    kWrite,   // write the piece to `elements`
    kDrop,    // it is here already
    kAnswer,  // it was taken already: say so again
  };
  struct Arrival {
    Fate fate = Fate::kDrop;
    FloatBuffer elements;  // of the whole tensor
    bool last = false;     // the tensor is complete once the piece is written; then call Complete
  };

  // At most `credits` tensors of each route may be here at once.
  explicit FlowInbox(uint32_t credits) : credits_(credits) {}

  // A piece has come. `take_memory` is asked for a tensor's memory at its first piece.
  // Errors: ResourceExhausted  more tensors than credits
  //         InvalidArgument    a piece out of order, or of another shape than the one before
  //         take_memory's
  absl::StatusOr<Arrival> OnPiece(const FlowRoute& route, const FlowTag& tag, FlowShape shape,
                                  uint64_t first_element, uint64_t element_count,
                                  absl::FunctionRef<absl::StatusOr<FloatBuffer>()> take_memory);

  // The last piece was written: the tensor can be taken.
  void Complete(const FlowTag& tag);

  // A tensor that is here and complete; none otherwise. Valid until the next call.
  const FlowTensor* Find(const FlowTag& tag) const;

  // Takes it out: there is room for one more of its route.
  std::optional<FlowTensor> Take(const FlowTag& tag);

  // Among them all that were taken and that a sender may still have on its books.
  std::vector<FlowTag> RecentlyTaken() const;

  // Forgets tensors that are not complete: on a new stream they come again from their beginning.
  void DropIncomplete();

  // Lets go of everything.
  void Clear();

 private:
  struct Entry {
    FlowRoute route;
    FlowTensor tensor;
    uint64_t next_element = 0;
    bool complete = false;
  };

  const uint32_t credits_;
  std::map<FlowTag, Entry> entries_;
  std::map<FlowRoute, uint32_t> here_;
  // The last ones of each route that were taken. A sender that resends in order has at most
  // `credits` of them untaken on its own books, and those are the latest.
  std::map<FlowRoute, std::deque<FlowTag>> taken_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_FLOW_INBOX_H_
