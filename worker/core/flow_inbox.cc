#include "worker/core/flow_inbox.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/core/flow_ledger.h"
#include "worker/core/flow_tag.h"

namespace sangam {
namespace {

// Twice what is needed, so that a sender that counts a little differently does no harm.
constexpr uint32_t kRemembered = 2;

}  // namespace

absl::StatusOr<FlowInbox::Arrival> FlowInbox::OnPiece(
    const FlowRoute& route, const FlowTag& tag, FlowShape shape, uint64_t first_element,
    uint64_t element_count, absl::FunctionRef<absl::StatusOr<FloatBuffer>()> take_memory) {
  Arrival arrival;
  auto found = entries_.find(tag);
  if (found == entries_.end()) {
    const std::deque<FlowTag>& taken = taken_[route];
    if (std::find(taken.begin(), taken.end(), tag) != taken.end()) {
      // Once for each time that it is sent.
      arrival.fate = first_element == 0 ? Fate::kAnswer : Fate::kDrop;
      return arrival;
    }
    if (first_element != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("first_element: found ", first_element, ", expected 0"));
    }
    uint32_t& here = here_[route];
    if (here >= credits_) {
      return absl::ResourceExhaustedError(absl::StrCat("found ", here + 1,
                                                       " tensors untaken on lane ", route.lane,
                                                       ", expected at most ", credits_));
    }
    ASSIGN_OR_RETURN(FloatBuffer memory, take_memory());
    ++here;
    found = entries_.emplace(tag, Entry{route, {tag, shape, std::move(memory)}, 0, false}).first;
  }
  Entry& entry = found->second;
  if (entry.complete) return arrival;
  if (entry.tensor.shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat("shape: found ", ToString(shape), ", expected ",
                                                   ToString(entry.tensor.shape),
                                                   " as in the piece before"));
  }
  if (entry.next_element != first_element) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_element: found ", first_element, ", expected ", entry.next_element));
  }
  entry.next_element += element_count;
  arrival.fate = Fate::kWrite;
  arrival.elements = entry.tensor.elements;
  arrival.last = entry.next_element == shape.elements();
  return arrival;
}

void FlowInbox::Complete(const FlowTag& tag) {
  const auto found = entries_.find(tag);
  if (found != entries_.end()) found->second.complete = true;
}

const FlowTensor* FlowInbox::Find(const FlowTag& tag) const {
  const auto found = entries_.find(tag);
  if (found == entries_.end() || !found->second.complete) return nullptr;
  return &found->second.tensor;
}

std::optional<FlowTensor> FlowInbox::Take(const FlowTag& tag) {
  const auto found = entries_.find(tag);
  if (found == entries_.end() || !found->second.complete) return std::nullopt;
  const FlowRoute route = found->second.route;
  FlowTensor tensor = std::move(found->second.tensor);
  entries_.erase(found);
  --here_[route];
  std::deque<FlowTag>& taken = taken_[route];
  taken.push_back(tag);
  if (taken.size() > uint64_t{kRemembered} * credits_) taken.pop_front();
  return tensor;
}

std::vector<FlowTag> FlowInbox::RecentlyTaken() const {
  std::vector<FlowTag> recent;
  for (const auto& [route, taken] : taken_) recent.insert(recent.end(), taken.begin(), taken.end());
  return recent;
}

void FlowInbox::DropIncomplete() {
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.complete) {
      ++it;
    } else {
      --here_[it->second.route];
      it = entries_.erase(it);
    }
  }
}

void FlowInbox::Clear() {
  entries_.clear();
  here_.clear();
}

}  // namespace sangam
