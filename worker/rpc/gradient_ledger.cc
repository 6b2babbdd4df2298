#include "worker/rpc/gradient_ledger.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "proto/tensor.pb.h"

namespace sangam {
namespace {

std::string PageName(uint64_t segment, uint64_t first_element) {
  return absl::StrCat("page of segment ", segment, " from ", first_element);
}

}  // namespace

GradientLedger::GradientLedger(const std::vector<PageRange>& pages, uint64_t first_step,
                               size_t max_unanswered)
    : max_unanswered_(max_unanswered) {
  for (const PageRange& page : pages) pages_[KeyOf(page)] = {page, first_step};
}

absl::Status GradientLedger::Add(PageGradient gradient) {
  const PageKey page = KeyOf(gradient.page);
  const auto found = pages_.find(page);
  if (found == pages_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(PageName(page.first, page.second), ": not subscribed to"));
  }
  if (found->second.wanted_step > gradient.step + 1) return absl::OkStatus();
  if (unanswered_.size() >= max_unanswered_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "found ", unanswered_.size(), " gradients unanswered, expected at most ", max_unanswered_));
  }
  const SendKey send = SendKeyOf(gradient);
  const GradientKey key = {page, gradient.step, gradient.use, gradient.span};
  if (!unanswered_.emplace(key, gradient).second) {
    return absl::AlreadyExistsError(absl::StrCat(
        PageName(page.first, page.second), ": the gradient of step ", gradient.step, ", use ",
        gradient.use, ", span ", ToString(gradient.span), " was pushed before"));
  }
  waiting_.insert(send);
  return absl::OkStatus();
}

std::optional<PageGradient> GradientLedger::TakeNext() {
  if (waiting_.empty()) return std::nullopt;
  const auto [step, page, use, span] = *waiting_.begin();
  waiting_.erase(waiting_.begin());
  const auto found = unanswered_.find({page, step, use, span});
  SANGAM_CHECK(found != unanswered_.end());
  return found->second;
}

void GradientLedger::SendAgain() {
  for (const auto& [key, gradient] : unanswered_) waiting_.insert(SendKeyOf(gradient));
}

std::vector<v1::FrameHeader> GradientLedger::Subscriptions() const {
  std::vector<v1::FrameHeader> ranges;
  for (const auto& [key, page] : pages_) {
    const uint64_t end = page.range.first_element + page.range.element_count;
    if (!ranges.empty()) {
      v1::FrameHeader& last = ranges.back();
      if (last.segment() == page.range.segment && last.step() == page.wanted_step) {
        // Pages of other servers in between are theirs to answer for.
        last.set_element_count(end - last.first_element());
        continue;
      }
    }
    v1::FrameHeader& range = ranges.emplace_back();
    range.set_segment(page.range.segment);
    range.set_first_element(page.range.first_element);
    range.set_element_count(page.range.element_count);
    range.set_step(page.wanted_step);
  }
  return ranges;
}

absl::StatusOr<bool> GradientLedger::OnWeights(const v1::FrameHeader& header,
                                               size_t payload_bytes) {
  const PageKey key = {header.segment(), header.first_element()};
  const auto found = pages_.find(key);
  if (found == pages_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(PageName(header.segment(), header.first_element()),
                     ": found weights of it, expected pages "
                     "that lie on this server and were subscribed to"));
  }
  Page& page = found->second;
  if (header.element_count() != page.range.element_count ||
      payload_bytes != page.range.element_count * sizeof(float)) {
    return absl::InvalidArgumentError(
        absl::StrCat(PageName(header.segment(), header.first_element()), ": found ",
                     header.element_count(), " elements in ", payload_bytes, " bytes, expected ",
                     page.range.element_count, " in ", page.range.element_count * sizeof(float)));
  }
  if (header.step() < page.wanted_step) return false;
  page.wanted_step = header.step() + 1;
  auto answered = unanswered_.lower_bound({key, 0, 0, ShareSpan{}});
  while (answered != unanswered_.end() && std::get<0>(answered->first) == key &&
         answered->second.step < header.step()) {
    waiting_.erase(SendKeyOf(answered->second));
    answered = unanswered_.erase(answered);
  }
  return true;
}

void GradientLedger::Clear() {
  unanswered_.clear();
  waiting_.clear();
}

}  // namespace sangam
