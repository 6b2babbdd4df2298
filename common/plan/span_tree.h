#ifndef SANGAM_COMMON_PLAN_SPAN_TREE_H_
#define SANGAM_COMMON_PLAN_SPAN_TREE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/plan/span.h"

namespace sangam {

// Merges payloads of spans in the fixed order of the tree over [0, shares).
//
// Two payloads meet only as siblings of the tree, the left one first; so what comes out depends on
// which shares were added and never on the order, nor on how they were grouped on the way. The same
// class merges inside a worker (payload: a buffer, merge: add) and at a server (payload: parked
// slices, merge: note the order, sum later in one pass).
//
// Pure and not thread-safe. `Merge` is called as
//   absl::StatusOr<Payload> merge(Payload left, Payload right)
// and may reuse either's memory.
template <typename Payload, typename Merge>
class SpanTree {
 public:
  enum class Result {
    kAdded,    // the payload counts
    kCovered,  // all of its shares were already there: it was dropped, nothing changed
  };

  // REQUIRES: shares >= 1.
  SpanTree(uint32_t shares, Merge merge) : shares_(shares), merge_(std::move(merge)) {}

  // Adds the sum over `span` and merges upwards as far as siblings are present. A span that
  // contains spans that are already here replaces them (their sums have the same bits).
  // Errors: InvalidArgument  `span` is not a node of the tree
  //         merge's          what merge returned; the tree lacks both payloads then and must be
  //                          cleared
  absl::StatusOr<Result> Add(ShareSpan span, Payload payload) {
    if (!IsTreeNode(span, shares_)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "span ", ToString(span), ": expected a node of the tree over [0,", shares_, ")"));
    }
    if (Covers(span)) return Result::kCovered;
    nodes_.erase(nodes_.lower_bound({span.begin, 0}), nodes_.lower_bound({span.end, 0}));
    const ShareSpan root{0, shares_};
    while (span != root) {
      const ShareSpan sibling = SiblingSpan(span, shares_);
      auto found = nodes_.find(sibling);
      if (found == nodes_.end()) break;
      Payload other = std::move(found->second);
      nodes_.erase(found);
      const bool left = span.begin < sibling.begin;
      absl::StatusOr<Payload> merged = left ? merge_(std::move(payload), std::move(other))
                                            : merge_(std::move(other), std::move(payload));
      if (!merged.ok()) return merged.status();
      payload = std::move(merged).value();
      span = ParentSpan(span, shares_);
    }
    nodes_.emplace(span, std::move(payload));
    return Result::kAdded;
  }

  // Whether every share of `span` is here already.
  // REQUIRES: `span` is a node of the tree.
  bool Covers(ShareSpan span) const {
    // Nodes are disjoint and merged as far as possible, so a covered node lies inside one of them.
    auto after = nodes_.upper_bound({span.begin, UINT32_MAX});
    if (after == nodes_.begin()) return false;
    return std::prev(after)->first.Contains(span);
  }

  // Removes the payload of exactly `span` and returns it; nothing when it is not (or not yet) here
  // as a node of its own.
  std::optional<Payload> Take(ShareSpan span) {
    auto found = nodes_.find(span);
    if (found == nodes_.end()) return std::nullopt;
    Payload payload = std::move(found->second);
    nodes_.erase(found);
    return payload;
  }

  // Removes and returns the sum over all shares once it is complete.
  std::optional<Payload> TakeRoot() { return Take({0, shares_}); }

  void Clear() { nodes_.clear(); }

  uint32_t shares() const { return shares_; }
  // What is here now: disjoint nodes, from left to right.
  const std::map<ShareSpan, Payload>& nodes() const { return nodes_; }

 private:
  uint32_t shares_;
  Merge merge_;
  std::map<ShareSpan, Payload> nodes_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_SPAN_TREE_H_
