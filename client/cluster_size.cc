#include "client/cluster_size.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/human_format.h"
#include "client/table.h"
#include "common/base/status_macros.h"
#include "common/model/field_fault.h"
#include "common/model/job_check.h"
#include "common/model/model_layout.h"
#include "common/model/optimizer_state.h"
#include "common/plan/batch_cut.h"
#include "common/plan/forecast.h"
#include "common/plan/server_memory.h"
#include "common/plan/span.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// A daemon without a job: program, libraries, threads, connections.
constexpr uint64_t kProcessBytes = 128 * kMiB;
constexpr uint64_t kRoundedTo = 64 * kMiB;
// Of a thread and of a link. They decide which strategy is fastest; memory does not depend on them.
constexpr double kUsualFlops = 5e10;
constexpr double kUsualLinkBytes = 1.25e9;

// Spans that the replicas of one stage send in one step: a server may have to keep all but the one
// that completes them.
uint64_t SpansOf(uint32_t replicas, uint32_t shares) {
  uint64_t spans = 0;
  for (uint32_t r = 0; r < replicas; ++r) {
    const IndexRange part = EvenPart(shares, replicas, r);
    spans +=
        MaximalSpans({static_cast<uint32_t>(part.begin), static_cast<uint32_t>(part.end)}, shares)
            .size();
  }
  return spans;
}

}  // namespace

uint64_t DaemonSize::memory() const {
  const uint64_t needed = job + waiting + kProcessBytes;
  const uint64_t asked = needed + needed / 5;
  return (asked + kRoundedTo - 1) / kRoundedTo * kRoundedTo;
}

absl::StatusOr<ClusterSize> SizeOf(const v1::JobSpec& job, uint32_t threads) {
  RETURN_IF_ERROR(ToStatus(CheckJobSpec(job)));
  const v1::JobSpec spec = ResolveDefaults(job);
  ASSIGN_OR_RETURN(const v1::ModelLayout layout, BuildModelLayout(spec.model(), spec.loss()));

  v1::ClusterFacts facts;
  for (uint32_t w = 0; w < spec.resources().workers(); ++w) {
    v1::WorkerFacts* const worker = facts.add_worker();
    worker->set_name(absl::StrCat("worker-", w));
    worker->set_threads(threads);
    worker->set_flops_per_second(kUsualFlops);
  }
  facts.set_servers(spec.resources().servers());
  facts.set_link_bytes_per_second(kUsualLinkBytes);
  const v1::PlanReport report = MakeForecasts(spec, layout, facts, {});
  if (!report.feasible()) return absl::FailedPreconditionError(report.explanation());

  ClusterSize size;
  size.parameters = layout.parameter_count();
  size.strategy = report.forecast(static_cast<int>(report.chosen()));
  size.workers.count = spec.resources().workers();
  size.workers.job = size.strategy.memory_bytes();
  size.servers.count = spec.resources().servers();
  size.servers.job = LargestServerBytes(spec, layout);
  const uint64_t spans = SpansOf(std::max(1u, size.strategy.replicas()), spec.batch().shares());
  size.servers.waiting =
      size.servers.job / TrainingBytesPerElement(spec) * sizeof(float) * (spans - 1);
  if (spec.has_checkpoint()) {
    const uint64_t arrays = 1 + OptimizerStateNames(spec.optimizer()).size();
    size.checkpoint = layout.parameter_count() * sizeof(float) * arrays;
    size.disk = size.checkpoint * (uint64_t{spec.checkpoint().keep()} + 1);
  }
  return size;
}

std::string FormatClusterSize(const ClusterSize& size) {
  const auto row = [](const std::string& name, const DaemonSize& daemon, uint64_t disk) {
    return std::vector<std::string>{name,
                                    absl::StrCat(daemon.count),
                                    daemon.job == 0 ? "-" : HumanBytes(daemon.job),
                                    daemon.waiting == 0 ? "-" : HumanBytes(daemon.waiting),
                                    HumanBytes(daemon.memory()),
                                    disk == 0 ? "-" : HumanBytes(disk)};
  };
  DaemonSize coordinator;
  coordinator.count = 1;
  std::string text = FormatTable({{"EACH"},
                                  {"COUNT", true},
                                  {"JOB", true},
                                  {"GRADIENTS", true},
                                  {"MEMORY", true},
                                  {"DISK", true}},
                                 {row("coordinator", coordinator, size.disk),
                                  row("server", size.servers, 0), row("worker", size.workers, 0)});
  absl::StrAppend(&text, "\n", HumanCount(size.parameters), " parameters, ",
                  v1::Strategy_Name(size.strategy.strategy()), ".\n",
                  "MEMORY is what to give each container: JOB, GRADIENTS that wait at a server for "
                  "their\nsiblings, ",
                  HumanBytes(kProcessBytes),
                  " for the process, and a fifth as reserve. Of several daemons of a kind\nit is "
                  "that of the largest. Data sets that workers read themselves come on top.\n");
  if (size.disk > 0) {
    absl::StrAppend(&text, "DISK is --state_dir: checkpoints of ", HumanBytes(size.checkpoint),
                    " each, the kept ones and the one being written.\n");
  } else {
    absl::StrAppend(&text,
                    "The job makes no checkpoints; with some, --state_dir needs room for them.\n");
  }
  return text;
}

}  // namespace sangam
