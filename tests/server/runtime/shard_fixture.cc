#include "tests/server/runtime/shard_fixture.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/version.h"
#include "common/plan/span.h"
#include "common/tensor/slices.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {
namespace {

void AddParameter(v1::SegmentLayout* segment, uint64_t count, bool decay, uint32_t index) {
  v1::ParameterLayout* parameter = segment->add_parameter();
  parameter->set_name(absl::StrCat("p", index));
  parameter->add_shape(count);
  parameter->set_offset(segment->element_count());
  parameter->set_element_count(count);
  parameter->mutable_initializer()->mutable_uniform()->set_bound(1);
  parameter->set_fan_in(1);
  parameter->set_parameter_index(index);
  parameter->set_decay(decay);
  segment->set_element_count(segment->element_count() + count);
}

}  // namespace

v1::Assignment SmallJob(uint64_t job, uint32_t shares, const std::vector<std::string>& servers) {
  v1::Assignment assignment;
  assignment.set_phase(v1::Assignment::PREPARE);
  assignment.mutable_spec()->set_seed(11);
  v1::OptimizerSpec* optimizer = assignment.mutable_spec()->mutable_optimizer();
  optimizer->set_learning_rate(0.125f);
  optimizer->mutable_momentum()->set_momentum(0.5f);
  v1::Plan* plan = assignment.mutable_plan();
  plan->set_job(job);
  plan->set_generation(1);
  plan->set_shares(shares);
  plan->set_schema_hash(4711);
  plan->set_page_elements(10);
  for (const std::string& name : servers) plan->add_server()->set_name(name);
  for (uint32_t worker = 0; worker < 2; ++worker) {
    plan->add_worker()->set_name(absl::StrCat("w", worker));
    plan->mutable_worker(static_cast<int>(worker))->set_incarnation(100 + worker);
  }
  v1::SegmentLayout* segment = plan->mutable_layout()->add_segment();
  AddParameter(segment, 18, true, 0);
  AddParameter(segment, 7, false, 1);
  AddParameter(plan->mutable_layout()->add_segment(), 4, true, 2);
  uint32_t number = 0;
  for (const PageName& page : SmallJobPages()) {
    while (plan->segment_pages_size() <= static_cast<int>(page.segment)) plan->add_segment_pages();
    plan->mutable_segment_pages(static_cast<int>(page.segment))
        ->add_server(number++ % static_cast<uint32_t>(servers.size()));
  }
  return assignment;
}

std::vector<PageName> SmallJobPages() { return {{0, 0, 10}, {0, 10, 10}, {0, 20, 5}, {1, 0, 4}}; }

v1::FrameHeader HelloHeader(const v1::Plan& plan) {
  v1::FrameHeader header;
  header.set_job(plan.job());
  header.set_generation(plan.generation());
  header.set_kind(v1::FRAME_KIND_HELLO);
  return header;
}

v1::StreamHello Hello(const v1::Plan& plan, uint32_t worker) {
  v1::StreamHello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_schema_hash(plan.schema_hash());
  hello.set_worker(plan.worker(static_cast<int>(worker)).name());
  hello.set_incarnation(plan.worker(static_cast<int>(worker)).incarnation());
  return hello;
}

v1::FrameHeader SubscribeHeader(const v1::Plan& plan, uint32_t segment, uint64_t first,
                                uint64_t count, uint64_t step) {
  v1::FrameHeader header;
  header.set_job(plan.job());
  header.set_generation(plan.generation());
  header.set_step(step);
  header.set_segment(segment);
  header.set_first_element(first);
  header.set_element_count(count);
  header.set_kind(v1::FRAME_KIND_SUBSCRIBE);
  return header;
}

v1::FrameHeader GradientHeader(const v1::Plan& plan, const PageName& page, uint64_t step,
                               ShareSpan span, uint64_t samples) {
  v1::FrameHeader header;
  header.set_job(plan.job());
  header.set_generation(plan.generation());
  header.set_step(step);
  header.set_segment(page.segment);
  header.set_first_element(page.first_element);
  header.set_element_count(page.element_count);
  header.set_span_begin(span.begin);
  header.set_span_end(span.end);
  header.set_samples(samples);
  header.set_encoding(v1::ENCODING_FP32);
  header.set_kind(v1::FRAME_KIND_GRADIENT);
  return header;
}

void RecordingSink::Send(const PageWeights& weights) {
  {
    MutexLock lock(&mutex_);
    sent_.push_back({weights.header, FloatsOf(weights.elements), weights.elements});
    arrived_.SignalAll();
  }
  if (hook_) hook_(weights);
}

std::vector<RecordingSink::Sent> RecordingSink::sent() const {
  MutexLock lock(&mutex_);
  return sent_;
}

std::vector<uint64_t> RecordingSink::Steps(uint32_t segment, uint64_t first_element) const {
  MutexLock lock(&mutex_);
  std::vector<uint64_t> steps;
  for (const Sent& sent : sent_) {
    if (sent.header.segment() == segment && sent.header.first_element() == first_element) {
      steps.push_back(sent.header.step());
    }
  }
  return steps;
}

std::vector<float> RecordingSink::Await(uint32_t segment, uint64_t first_element, uint64_t step,
                                        absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  while (true) {
    for (const Sent& sent : sent_) {
      if (sent.header.segment() == segment && sent.header.first_element() == first_element &&
          sent.header.step() >= step) {
        return sent.values;
      }
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return {};
    arrived_.WaitFor(&mutex_, left);
  }
}

std::vector<float> FloatsOf(const SlicePayload& elements) {
  std::vector<float> values(elements.size() / sizeof(float));
  elements.CopyTo(values.data());
  return values;
}

}  // namespace sangam
