#include "worker/core/flow_tag.h"

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace sangam {
namespace {

auto Fields(const FlowTag& tag) {
  return std::tie(tag.step, tag.evaluation, tag.micro_batch, tag.boundary, tag.direction);
}

auto Fields(const FlowRoute& route) {
  return std::tie(route.lane, route.boundary, route.direction);
}

}  // namespace

bool operator==(const FlowTag& a, const FlowTag& b) { return Fields(a) == Fields(b); }
bool operator<(const FlowTag& a, const FlowTag& b) { return Fields(a) < Fields(b); }
bool operator<(const FlowRoute& a, const FlowRoute& b) { return Fields(a) < Fields(b); }

const char* ToString(FlowDirection direction) {
  return direction == FlowDirection::kForward ? "forward" : "backward";
}

std::string ToString(const FlowTag& tag) {
  return absl::StrCat(ToString(tag.direction), " boundary ", tag.boundary,
                      tag.evaluation ? ", chunk " : ", micro-batch ", tag.micro_batch,
                      tag.evaluation ? " of the evaluation of step " : " of step ", tag.step);
}

std::string ToString(const FlowShape& shape) {
  return absl::StrCat("[", shape.rows, ", ", shape.columns, "]");
}

}  // namespace sangam
