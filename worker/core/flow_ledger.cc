#include "worker/core/flow_ledger.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/core/flow_tag.h"

namespace sangam {

bool FlowLedger::Reserve(const FlowRoute& route) {
  uint32_t& used = used_[route];
  if (used >= credits_) return false;
  ++used;
  ++reserved_[route];
  return true;
}

void FlowLedger::Release(const FlowRoute& route) {
  uint32_t& reserved = reserved_[route];
  if (reserved == 0) return;
  --reserved;
  --used_[route];
}

absl::Status FlowLedger::Add(const FlowRoute& route, FlowTensor tensor) {
  uint32_t& reserved = reserved_[route];
  if (reserved == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(tensor.tag), ": no memory was reserved for it"));
  }
  const uint64_t number = added_;
  if (!number_of_.emplace(tensor.tag, number).second) {
    return absl::AlreadyExistsError(absl::StrCat(ToString(tensor.tag), ": was sent before"));
  }
  --reserved;
  ++added_;
  untaken_.emplace(number, Entry{route, std::move(tensor)});
  waiting_.push_back(number);
  return absl::OkStatus();
}

std::optional<FlowPiece> FlowLedger::TakePiece() {
  while (!waiting_.empty()) {
    const auto found = untaken_.find(waiting_.front());
    if (found == untaken_.end()) {
      waiting_.pop_front();
      next_element_ = 0;
      continue;
    }
    FlowPiece piece;
    piece.tensor = found->second.tensor;
    const uint64_t elements = piece.tensor.shape.elements();
    piece.first_element = next_element_;
    piece.element_count = std::min(piece_elements_, elements - next_element_);
    next_element_ += piece.element_count;
    if (next_element_ == elements) {
      waiting_.pop_front();
      next_element_ = 0;
    }
    return piece;
  }
  return std::nullopt;
}

std::optional<FlowRoute> FlowLedger::OnTaken(const FlowTag& tag) {
  const auto found = number_of_.find(tag);
  if (found == number_of_.end()) return std::nullopt;
  const auto entry = untaken_.find(found->second);
  const FlowRoute route = entry->second.route;
  --used_[route];
  untaken_.erase(entry);
  number_of_.erase(found);
  return route;
}

void FlowLedger::SendAgain() {
  waiting_.clear();
  next_element_ = 0;
  for (const auto& [number, entry] : untaken_) waiting_.push_back(number);
}

void FlowLedger::Clear() {
  untaken_.clear();
  number_of_.clear();
  used_.clear();
  reserved_.clear();
  waiting_.clear();
  next_element_ = 0;
}

std::optional<FlowTag> FlowLedger::OldestOf(const FlowRoute& route) const {
  for (const auto& [number, entry] : untaken_) {
    if (!(entry.route < route) && !(route < entry.route)) return entry.tensor.tag;
  }
  return std::nullopt;
}

}  // namespace sangam
