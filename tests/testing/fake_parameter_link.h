#ifndef SANGAM_TESTS_TESTING_FAKE_PARAMETER_LINK_H_
#define SANGAM_TESTS_TESTING_FAKE_PARAMETER_LINK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/plan/span_tree.h"
#include "common/tensor/buffer.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/runtime/parameter_link.h"

namespace sangam::testing {

class FakeParameterLink;

// A parameter server without a network: plain code in one process, for any number of workers. Sums
// by the span tree of each use, takes SGD steps page by page and answers every subscriber with the
// new weights, each link on a thread of its own. Refuses what a real server refuses. Thread-safe.
class FakeParameterServer {
 public:
  // A gradient of which all pages have come.
  struct Push {
    uint32_t worker = 0;
    uint64_t step = 0;
    uint32_t segment = 0;
    ShareSpan span;
    uint64_t samples = 0;
    uint32_t use = 0;
  };

  // REQUIRES: the job's optimizer is SGD; the plan is sound.
  FakeParameterServer(const v1::JobSpec& spec, const v1::Plan& plan);
  ~FakeParameterServer();

  // Makes links to this server, which must outlive them.
  ParameterLinkFactory Factory();

  // From the first gradient of `step` on every link fails with `status`.
  void FailAt(uint64_t step, const absl::Status& status);
  // Weights of `step` and later are held back until Release.
  void HoldBack(uint64_t step);
  void Release();

  // Waits until a gradient of `step` has come; false: not within a minute.
  bool AwaitPushOf(uint64_t step);

  // What came, in order.
  std::vector<Push> pushes() const;
  // By segment.
  std::vector<std::vector<float>> weights() const;

 private:
  friend class FakeParameterLink;

  struct Gradient {
    std::vector<float> sum;
    uint64_t samples = 0;
  };
  struct AddRight {
    absl::StatusOr<Gradient> operator()(Gradient left, Gradient right) const;
  };
  struct Page {
    PageRange range;
    uint64_t step = 0;
    std::vector<float> weights;
    std::vector<float> average_rates;                 // of each weight; 0: trained
    std::vector<SpanTree<Gradient, AddRight>> trees;  // by use
  };

  absl::Status Add(const Push& push, const FloatBuffer& sum, PageSpan span);
  uint64_t NumPages(uint32_t segment) const;
  void Attach(FakeParameterLink* link);
  void Detach(FakeParameterLink* link);
  void Send(const Page& page, FakeParameterLink* link) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the step when the gradients of all uses are complete.
  absl::Status UpdateIfComplete(Page* page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const v1::JobSpec spec_;
  const v1::Plan plan_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::vector<Page>> pages_ ABSL_GUARDED_BY(mutex_);  // by segment
  std::vector<FakeParameterLink*> links_ ABSL_GUARDED_BY(mutex_);
  std::vector<Push> pushes_ ABSL_GUARDED_BY(mutex_);
  // Pages that came, by worker, step, segment, use and the span's begin.
  std::map<std::tuple<uint32_t, uint64_t, uint32_t, uint32_t, uint32_t>, uint64_t> came_
      ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> fail_at_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> hold_back_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_FAKE_PARAMETER_LINK_H_
