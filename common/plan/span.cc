#include "common/plan/span.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace sangam {
namespace {

// Walks from the root towards `span`. Returns the last node on the way that contains it, and that
// node's parent (the root's parent is the root).
struct Walk {
  ShareSpan node;
  ShareSpan parent;
};

Walk WalkTo(ShareSpan span, uint32_t shares) {
  Walk walk{{0, shares}, {0, shares}};
  while (walk.node != span && walk.node.size() >= 2) {
    const uint32_t split = SplitPoint(walk.node);
    const ShareSpan left{walk.node.begin, split};
    const ShareSpan right{split, walk.node.end};
    ShareSpan next = walk.node;
    if (left.Contains(span)) next = left;
    if (right.Contains(span)) next = right;
    if (next == walk.node) break;
    walk.parent = walk.node;
    walk.node = next;
  }
  return walk;
}

void Collect(ShareSpan node, ShareSpan range, std::vector<ShareSpan>* spans) {
  if (node.end <= range.begin || range.end <= node.begin) return;
  if (range.Contains(node)) {
    spans->push_back(node);
    return;
  }
  const uint32_t split = SplitPoint(node);
  Collect({node.begin, split}, range, spans);
  Collect({split, node.end}, range, spans);
}

}  // namespace

std::string ToString(ShareSpan span) { return absl::StrCat("[", span.begin, ",", span.end, ")"); }

uint32_t SplitPoint(ShareSpan span) {
  SANGAM_CHECK(span.size() >= 2);
  uint32_t power = 1;
  // Largest power of two below the size; sizes fit 31 bits in any plan that can be held.
  while (power < span.size() - power) power *= 2;
  return span.begin + power;
}

bool IsTreeNode(ShareSpan span, uint32_t shares) {
  if (span.empty() || span.end > shares) return false;
  return WalkTo(span, shares).node == span;
}

ShareSpan ParentSpan(ShareSpan span, uint32_t shares) {
  const Walk walk = WalkTo(span, shares);
  SANGAM_CHECK(walk.node == span && walk.parent != span);
  return walk.parent;
}

ShareSpan SiblingSpan(ShareSpan span, uint32_t shares) {
  const ShareSpan parent = ParentSpan(span, shares);
  return span.begin == parent.begin ? ShareSpan{span.end, parent.end}
                                    : ShareSpan{parent.begin, span.begin};
}

std::vector<ShareSpan> MaximalSpans(ShareSpan range, uint32_t shares) {
  SANGAM_CHECK(range.end <= shares);
  std::vector<ShareSpan> spans;
  if (!range.empty()) Collect({0, shares}, range, &spans);
  return spans;
}

}  // namespace sangam
