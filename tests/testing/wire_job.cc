#include "tests/testing/wire_job.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/plan/batch_cut.h"
#include "common/plan/page_map.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

v1::Assignment MakeAssignment(const WireJob& job) {
  v1::Assignment assignment;
  assignment.set_phase(v1::Assignment::PREPARE);
  assignment.mutable_spec()->set_seed(job.job);
  assignment.mutable_spec()->mutable_optimizer()->set_learning_rate(job.learning_rate);
  assignment.mutable_spec()->mutable_optimizer()->mutable_sgd();
  v1::Plan& plan = *assignment.mutable_plan();
  plan.set_job(job.job);
  plan.set_generation(job.generation);
  plan.set_page_elements(job.page_elements);
  plan.set_micro_batches(job.shares);
  plan.set_shares(job.shares);
  plan.set_schema_hash(job.schema_hash);
  for (uint32_t i = 0; i < job.workers; ++i) {
    v1::WorkerPlan& worker = *plan.add_worker();
    worker.set_name(absl::StrCat("worker-", i));
    worker.set_incarnation(100 + i);
    const IndexRange part = EvenPart(job.shares, job.workers, i);
    worker.mutable_shares()->set_begin(static_cast<uint32_t>(part.begin));
    worker.mutable_shares()->set_end(static_cast<uint32_t>(part.end));
  }
  for (size_t i = 0; i < job.servers.size(); ++i) {
    v1::ServerPlan& server = *plan.add_server();
    server.set_name(absl::StrCat("server-", i));
    server.set_incarnation(200 + i);
    server.set_address(job.servers[i]);
  }
  uint32_t page = 0;
  for (size_t s = 0; s < job.segments.size(); ++s) {
    v1::SegmentLayout& segment = *plan.mutable_layout()->add_segment();
    segment.set_block(static_cast<uint32_t>(s));
    segment.set_element_count(job.segments[s]);
    segment.add_use(static_cast<uint32_t>(s));
    for (uint32_t use = 1; s < job.uses.size() && use < job.uses[s]; ++use) {
      segment.add_use(static_cast<uint32_t>(job.segments.size()) + use);
    }
    v1::ParameterLayout& parameter = *segment.add_parameter();
    parameter.set_name(absl::StrCat("block", s, ".0.weight"));
    parameter.add_shape(job.segments[s]);
    parameter.set_element_count(job.segments[s]);
    parameter.mutable_initializer()->mutable_uniform()->set_bound(1);
    parameter.set_fan_in(1);
    parameter.set_parameter_index(static_cast<uint32_t>(s));
    v1::SegmentPages& pages = *plan.add_segment_pages();
    for (uint64_t p = 0; p < NumPages(job.segments[s], job.page_elements); ++p) {
      pages.add_server(page++ % static_cast<uint32_t>(job.servers.size()));
    }
  }
  return assignment;
}

v1::Assignment Running(v1::Assignment assignment) {
  assignment.set_phase(v1::Assignment::RUN);
  return assignment;
}

}  // namespace sangam
