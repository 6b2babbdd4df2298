#include "tests/server/core/control_fixtures.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/model/field_fault.h"
#include "common/model/job_check.h"
#include "common/model/model_layout.h"
#include "common/plan/batch_cut.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "server/core/planner.h"

namespace sangam::testing {
namespace {

constexpr char kJob[] = R"pb(
  model {
    input_shape: [ 2, 2 ]
    block {
      name: "hidden"
      layer { flatten {} }
      layer { linear { out_features: 8 } }
      layer { relu {} }
    }
    block {
      name: "output"
      layer { linear { out_features: 3 } }
    }
  }
  loss { softmax_cross_entropy {} }
  data {
    idx {
      train_images: "train-images"
      train_labels: "train-labels"
      test_images: "test-images"
      test_labels: "test-labels"
    }
  }
  optimizer {
    learning_rate: 0.1
    momentum { momentum: 0.9 }
  }
  batch { size: 8 micro_batches: 4 shares: 4 }
  epochs: 2
)pb";

constexpr uint64_t kChunks = 3;  // 5 test samples in chunks of 2

}  // namespace

v1::JobSpec SmallJob(const std::string& name, uint32_t workers, uint32_t servers) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kJob, &spec));
  spec.set_name(name);
  spec.mutable_resources()->set_workers(workers);
  spec.mutable_resources()->set_servers(servers);
  for (const FieldFault& fault : CheckJobSpec(spec)) {
    ADD_FAILURE() << fault.field << ": " << fault.message;
  }
  return ResolveDefaults(spec);
}

v1::JobSpec PipelineJob(const std::string& name) {
  v1::JobSpec spec = SmallJob(name, 3, 1);
  v1::BlockSpec middle;
  middle.set_name("middle");
  middle.add_layer()->mutable_linear()->set_out_features(8);
  *spec.mutable_model()->add_block() = middle;
  spec.mutable_model()->mutable_block()->SwapElements(1, 2);
  spec.set_strategy(v1::MODEL_PARALLEL);
  return spec;
}

v1::ModelLayout LayoutOf(const v1::JobSpec& spec) {
  auto layout = BuildModelLayout(spec.model());
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *layout;
}

v1::Plan PlanOf(const v1::JobSpec& spec) {
  PlanRequest request;
  request.job = 1;
  request.generation = 1;
  for (uint32_t i = 1; i <= spec.resources().workers(); ++i) {
    request.workers.push_back({absl::StrCat("w-", i), 1, absl::StrCat("10.0.1.", i, ":7071")});
  }
  for (uint32_t i = 1; i <= spec.resources().servers(); ++i) {
    request.servers.push_back({absl::StrCat("s-", i), 1, absl::StrCat("10.0.0.", i, ":7070")});
  }
  const v1::ModelLayout layout = LayoutOf(spec);
  if (spec.strategy() == v1::MODEL_PARALLEL) {
    request.shape.ranks = spec.resources().workers();
    request.shape.lanes = 1;
    for (int b = 0; b < layout.block_size(); ++b) {
      v1::StagePlan stage;
      stage.set_first_block(static_cast<uint32_t>(b));
      stage.set_block_count(1);
      request.shape.stages.push_back(stage);
    }
  }
  const auto plan = MakePlan(request, spec, layout);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

v1::DaemonIdentity Daemon(v1::DaemonRole role, const std::string& name, uint64_t incarnation) {
  v1::DaemonIdentity daemon;
  daemon.set_role(role);
  daemon.set_name(name);
  daemon.set_incarnation(incarnation);
  return daemon;
}

v1::RegisterRequest Registration(const v1::DaemonIdentity& daemon) {
  v1::RegisterRequest request;
  *request.mutable_daemon() = daemon;
  request.set_protocol_version(kProtocolVersion);
  request.set_address(absl::StrCat(daemon.name(), ":7070"));
  if (daemon.role() == v1::WORKER) {
    request.set_backend("cpu");
    request.set_flops_per_second(1e10);
  }
  request.set_threads(2);
  return request;
}

v1::JobReport Ready() {
  v1::JobReport report;
  report.mutable_ready()->set_train_samples(kTrainSamples);
  report.mutable_ready()->set_test_samples(5);
  report.mutable_ready()->set_classes(3);
  return report;
}

v1::JobReport Failed(int code, const std::string& message) {
  v1::JobReport report;
  report.mutable_failed()->set_code(code);
  report.mutable_failed()->set_message(message);
  return report;
}

v1::JobReport Step(const v1::WorkerPlan& worker, uint64_t step, double loss) {
  const BatchCut cut{8, 4, 4, kTrainSamples};
  v1::JobReport report;
  v1::StepReport* losses = report.mutable_step();
  losses->set_step(step);
  losses->set_first_share(worker.shares().begin());
  for (uint32_t s = worker.shares().begin(); s < worker.shares().end(); ++s) {
    losses->add_loss_sum(loss + s + 10.0 * static_cast<double>(step));
    losses->add_samples(cut.MicroBatch(step, s).size());
  }
  return report;
}

v1::JobReport Evaluated(const v1::WorkerPlan& worker, uint64_t step) {
  v1::JobReport report;
  v1::EvaluationReport* evaluation = report.mutable_evaluation();
  evaluation->set_step(step);
  evaluation->set_chunks_total(kChunks);
  for (uint32_t c = 0; c < kChunks; ++c) {
    if (c % worker.evaluation_parts() != worker.evaluation_part()) continue;
    v1::EvaluationChunk* chunk = evaluation->add_chunk();
    chunk->set_chunk(c);
    chunk->set_samples(c + 1 < kChunks ? 2 : 1);
    chunk->set_correct(1);
    chunk->set_loss_sum(0.5);
  }
  return report;
}

v1::JobReport Finished() {
  v1::JobReport report;
  report.mutable_finished();
  return report;
}

}  // namespace sangam::testing
