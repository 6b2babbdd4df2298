#ifndef SANGAM_WORKER_RPC_GRADIENT_LEDGER_H_
#define SANGAM_WORKER_RPC_GRADIENT_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "proto/tensor.pb.h"

namespace sangam {

// The gradient of one page, to be sent.
struct PageGradient {
  PageRange page;
  uint64_t step = 0;
  uint32_t use = 0;  // of the segment
  ShareSpan span;
  uint64_t samples = 0;
  FloatBuffer sum;  // of the page's whole segment
};

// Where the exchange with one server stands: which weights of each of its pages are wanted next,
// and which gradients it has not answered. A gradient is answered when weights of a later step of
// its page have come; until then its buffer is held, so that it can be sent again on a new stream.
//
// Pure and not thread-safe.
class GradientLedger {
 public:
  // `pages`: all pages of this server that are wanted, from `first_step` on, by segment and first
  // element.
  GradientLedger(const std::vector<PageRange>& pages, uint64_t first_step, size_t max_unanswered);

  // A gradient to send. One that was answered before it came is dropped.
  // Errors: ResourceExhausted  max_unanswered are unanswered
  //         InvalidArgument    the page is not this server's
  //         AlreadyExists      the same span of the same use and step is unanswered
  absl::Status Add(PageGradient gradient);

  // The next gradient to send, if one waits: older steps first, then lower segments, so that the
  // front of the model is answered first.
  std::optional<PageGradient> TakeNext();

  // What is unanswered waits again, because the stream that it went out on is lost.
  void SendAgain();

  // The ranges to subscribe to, and the step wanted of each (in header.step).
  std::vector<v1::FrameHeader> Subscriptions() const;

  // Weights have come: lets go of what they answer. Returns whether they are wanted (false: an
  // older step than has come already). Errors: InvalidArgument  not exactly one page of this
  // server, or `payload_bytes` is not its size
  absl::StatusOr<bool> OnWeights(const v1::FrameHeader& header, size_t payload_bytes);

  // Lets go of everything.
  void Clear();

  size_t num_unanswered() const { return unanswered_.size(); }

 private:
  struct Page {
    PageRange range;
    uint64_t wanted_step = 0;
  };
  // Segment and first element.
  using PageKey = std::pair<uint32_t, uint64_t>;
  // Page, step, use, span.
  using GradientKey = std::tuple<PageKey, uint64_t, uint32_t, ShareSpan>;
  // Step, page, use, span: the order of sending.
  using SendKey = std::tuple<uint64_t, PageKey, uint32_t, ShareSpan>;

  static PageKey KeyOf(const PageRange& page) { return {page.segment, page.first_element}; }
  static SendKey SendKeyOf(const PageGradient& gradient) {
    return {gradient.step, KeyOf(gradient.page), gradient.use, gradient.span};
  }

  const size_t max_unanswered_;
  std::map<PageKey, Page> pages_;
  std::map<GradientKey, PageGradient> unanswered_;
  // The part of `unanswered_` that is not on its way.
  std::set<SendKey> waiting_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_GRADIENT_LEDGER_H_
