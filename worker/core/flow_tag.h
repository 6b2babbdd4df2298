#ifndef SANGAM_WORKER_CORE_FLOW_TAG_H_
#define SANGAM_WORKER_CORE_FLOW_TAG_H_

#include <cstdint>
#include <string>

namespace sangam {

enum class FlowDirection {
  kForward,   // an activation, from the block that made it to the one that reads it
  kBackward,  // the gradient with respect to it, back
};

// "forward", "backward".
const char* ToString(FlowDirection direction);

// Which tensor of a generation it is, on its way across one boundary. A tag is sent once.
struct FlowTag {
  uint64_t step = 0;
  bool evaluation = false;
  uint32_t micro_batch = 0;  // or chunk of the evaluation
  uint32_t boundary = 0;     // Boundary.id
  FlowDirection direction = FlowDirection::kForward;

  friend bool operator==(const FlowTag& a, const FlowTag& b);
  friend bool operator!=(const FlowTag& a, const FlowTag& b) { return !(a == b); }
  friend bool operator<(const FlowTag& a, const FlowTag& b);
};

// "forward boundary 1, micro-batch 3 of step 7".
std::string ToString(const FlowTag& tag);

struct FlowShape {
  uint64_t rows = 0;
  uint64_t columns = 0;  // of the boundary

  uint64_t elements() const { return rows * columns; }
  friend bool operator==(const FlowShape& a, const FlowShape& b) {
    return a.rows == b.rows && a.columns == b.columns;
  }
  friend bool operator!=(const FlowShape& a, const FlowShape& b) { return !(a == b); }
};

// "[32, 256]".
std::string ToString(const FlowShape& shape);

// A sequence of tensors with credits of its own.
struct FlowRoute {
  uint32_t lane = 0;
  uint32_t boundary = 0;
  FlowDirection direction = FlowDirection::kForward;

  friend bool operator<(const FlowRoute& a, const FlowRoute& b);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_FLOW_TAG_H_
