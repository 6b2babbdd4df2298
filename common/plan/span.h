#ifndef SANGAM_COMMON_PLAN_SPAN_H_
#define SANGAM_COMMON_PLAN_SPAN_H_

#include <cstdint>
#include <string>
#include <vector>

// The fixed binary tree over a job's shares [0, S): its leaves are the shares, its root is [0, S),
// and a node [a, b) with b - a > 1 splits at a + the largest power of two below b - a. The tree
// depends on S alone, so sums that follow it are the same however the shares were distributed.
namespace sangam {

// Shares [begin, end).
struct ShareSpan {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool Contains(ShareSpan other) const { return begin <= other.begin && other.end <= end; }

  friend bool operator==(ShareSpan a, ShareSpan b) { return a.begin == b.begin && a.end == b.end; }
  friend bool operator!=(ShareSpan a, ShareSpan b) { return !(a == b); }
  friend bool operator<(ShareSpan a, ShareSpan b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  }
};

// "[begin,end)".
std::string ToString(ShareSpan span);

// Where a node of two or more shares splits.
// REQUIRES: span.size() >= 2.
uint32_t SplitPoint(ShareSpan span);

// Whether `span` is a node of the tree over [0, shares).
bool IsTreeNode(ShareSpan span, uint32_t shares);

// The parent of a node other than the root.
// REQUIRES: IsTreeNode(span, shares) and span is not the root.
ShareSpan ParentSpan(ShareSpan span, uint32_t shares);

// The other child of the node's parent.
// REQUIRES: as ParentSpan.
ShareSpan SiblingSpan(ShareSpan span, uint32_t shares);

// The fewest nodes whose union is `range`, from left to right: what a worker that holds `range`
// sends. At most 2 log2(S) + 1 of them; none for an empty range.
// REQUIRES: range within [0, shares).
std::vector<ShareSpan> MaximalSpans(ShareSpan range, uint32_t shares);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_SPAN_H_
