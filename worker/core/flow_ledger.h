#ifndef SANGAM_WORKER_CORE_FLOW_LEDGER_H_
#define SANGAM_WORKER_CORE_FLOW_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "common/tensor/buffer.h"
#include "worker/core/flow_tag.h"

namespace sangam {

struct FlowTensor {
  FlowTag tag;
  FlowShape shape;
  FloatBuffer elements;  // at least shape.elements() of them
};

// Elements [first_element, first_element + element_count) of a tensor.
struct FlowPiece {
  FlowTensor tensor;
  uint64_t first_element = 0;
  uint64_t element_count = 0;
};

// The sending end of a link to one worker: what was sent and was not taken, and with it whether
// there is room for more. A tensor's buffer is held until it is taken, so that it can be sent again
// on a new stream.
//
// Pure and not thread-safe.
class FlowLedger {
 public:
  // At most `credits` tensors of each route are reserved or untaken at once; a piece has at most
  // `piece_elements` elements.
  FlowLedger(uint32_t credits, uint64_t piece_elements)
      : credits_(credits), piece_elements_(piece_elements) {}

  // Whether there was room for one more tensor of the route; then it is reserved until Add.
  bool Reserve(const FlowRoute& route);

  // Gives a reservation back.
  void Release(const FlowRoute& route);

  // A tensor of the route that was reserved; it waits to be sent.
  // Errors: FailedPrecondition  nothing is reserved on the route
  //         AlreadyExists       a tensor of the same tag is untaken
  absl::Status Add(const FlowRoute& route, FlowTensor tensor);

  // The next piece to send, if there is one: tensor after tensor in the order of Add.
  std::optional<FlowPiece> TakePiece();

  // Lets go of a tensor and gives its credit back; the route that has room now. None when no such
  // tensor is untaken: it was taken before.
  std::optional<FlowRoute> OnTaken(const FlowTag& tag);

  // What is untaken waits again, because the stream that it went out on is lost.
  void SendAgain();

  // Lets go of everything.
  void Clear();

  size_t num_untaken() const { return untaken_.size(); }
  // The oldest untaken tensor of the route, for messages.
  std::optional<FlowTag> OldestOf(const FlowRoute& route) const;

 private:
  struct Entry {
    FlowRoute route;
    FlowTensor tensor;
  };

  const uint32_t credits_;
  const uint64_t piece_elements_;
  // Numbers count the calls of Add.
  uint64_t added_ = 0;
  std::map<uint64_t, Entry> untaken_;
  std::map<FlowTag, uint64_t> number_of_;
  // Reserved and untaken ones; and the part of them that is reserved.
  std::map<FlowRoute, uint32_t> used_;
  std::map<FlowRoute, uint32_t> reserved_;
  // What is to be sent, some of which may have been taken meanwhile; and how much of the first one
  // is on its way.
  std::deque<uint64_t> waiting_;
  uint64_t next_element_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_FLOW_LEDGER_H_
