#include "common/model/job_check.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/checkpoint_check.h"
#include "common/model/data_check.h"
#include "common/model/expand_layers.h"
#include "common/model/field_fault.h"
#include "common/model/model_layout.h"
#include "common/model/optimizer_check.h"
#include "common/model/strategy_check.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

constexpr uint64_t kMaxBatch = uint64_t{1} << 31;
constexpr uint32_t kMaxMicroBatches = 1 << 20;
constexpr uint32_t kMaxShares = 4096;
constexpr uint32_t kDefaultShares = 8;
constexpr uint32_t kMaxDaemons = 4096;
constexpr uint64_t kMaxSteps = uint64_t{1} << 48;

// Collects the faults of one job.
class Checker {
 public:
  template <typename... Expected>
  void Fault(std::string field, const Expected&... message) {
    faults_.push_back({std::move(field), absl::StrCat(message...)});
  }

  std::vector<FieldFault>* faults() { return &faults_; }

 private:
  std::vector<FieldFault> faults_;
};

void CheckName(const v1::JobSpec& spec, Checker* check) {
  bool good = !spec.name().empty() && spec.name().size() <= 128;
  bool digits_only = true;
  for (const char c : spec.name()) {
    const auto u = static_cast<unsigned char>(c);
    if (!absl::ascii_isdigit(u)) digits_only = false;
    if (!absl::ascii_isalnum(u) && c != '_' && c != '-' && c != '.') good = false;
  }
  if (!good) {
    check->Fault("name", "found \"", spec.name(),
                 "\", expected 1 to 128 letters, digits, '_', '-' and '.'");
  } else if (digits_only) {
    check->Fault("name", "found \"", spec.name(),
                 "\", expected at least one character that is no digit (numbers are job ids)");
  }
}

void CheckBatch(const v1::BatchSpec& batch, Checker* check) {
  if (batch.size() == 0 || batch.size() > kMaxBatch) {
    check->Fault("batch.size", "found ", batch.size(), ", expected 1 to ", kMaxBatch);
  }
  const uint64_t most = std::min<uint64_t>(batch.size(), kMaxMicroBatches);
  if (batch.has_micro_batches() && (batch.micro_batches() == 0 || batch.micro_batches() > most)) {
    check->Fault("batch.micro_batches", "found ", batch.micro_batches(), ", expected 1 to ", most,
                 " (the batch has ", batch.size(), " samples)");
  }
  const uint32_t micro_batches = batch.has_micro_batches() ? batch.micro_batches() : 1;
  const uint32_t most_shares = std::min(micro_batches, kMaxShares);
  if (batch.has_shares() && (batch.shares() == 0 || batch.shares() > most_shares)) {
    check->Fault("batch.shares", "found ", batch.shares(), ", expected 1 to ", most_shares,
                 " (shares are runs of the batch's ", micro_batches, " micro-batches)");
  }
}

void CheckDuration(const v1::JobSpec& spec, Checker* check) {
  switch (spec.duration_case()) {
    case v1::JobSpec::kEpochs:
      if (spec.epochs() == 0 || spec.epochs() > kMaxSteps) {
        check->Fault("epochs", "found ", spec.epochs(), ", expected 1 to ", kMaxSteps);
      }
      return;
    case v1::JobSpec::kSteps:
      if (spec.steps() == 0 || spec.steps() > kMaxSteps) {
        check->Fault("steps", "found ", spec.steps(), ", expected 1 to ", kMaxSteps);
      }
      return;
    case v1::JobSpec::DURATION_NOT_SET:
      break;
  }
  check->Fault("epochs", "found neither epochs nor steps, expected one of them");
}

void CheckCluster(const v1::JobSpec& spec, Checker* check) {
  const v1::ResourcesSpec& resources = spec.resources();
  const auto count = [check](const char* field, bool given, uint32_t value) {
    if (given && (value == 0 || value > kMaxDaemons)) {
      check->Fault(field, "found ", value, ", expected 1 to ", kMaxDaemons);
    }
  };
  count("resources.workers", resources.has_workers(), resources.workers());
  count("resources.servers", resources.has_servers(), resources.servers());
  if (spec.consistency() != v1::CONSISTENCY_UNSPECIFIED && spec.consistency() != v1::SYNC) {
    check->Fault("consistency", "found ", spec.consistency(), ", expected SYNC");
  }
}

void CheckLoss(const v1::JobSpec& spec, const v1::ModelLayout& layout, bool layout_good,
               Checker* check) {
  const bool tokens = spec.loss().has_token_cross_entropy();
  if (!tokens && !spec.loss().has_softmax_cross_entropy()) {
    check->Fault("loss", "found no kind, expected softmax_cross_entropy or token_cross_entropy");
    return;
  }
  if (!layout_good) return;
  const v1::BlockLayout& last = layout.block(layout.block_size() - 1);
  if (last.output_shape_size() == (tokens ? 2 : 1)) return;
  check->Fault(
      tokens ? "loss.token_cross_entropy" : "loss.softmax_cross_entropy",
      "found a model output of shape [", absl::StrJoin(last.output_shape(), ","), "], expected ",
      tokens ? "two dimensions (the positions and the vocabulary)" : "one dimension (the classes)");
}

}  // namespace

std::vector<FieldFault> CheckJobSpec(const v1::JobSpec& spec) {
  Checker check;
  CheckName(spec, &check);
  const size_t before = check.faults()->size();
  const v1::ModelLayout layout = BuildModelLayout(spec.model(), check.faults());
  const bool layout_good = check.faults()->size() == before;
  CheckLoss(spec, layout, layout_good, &check);
  CheckData(spec, check.faults());
  CheckOptimizer(spec.optimizer(), check.faults());
  if (layout_good) CheckDecayGroups(spec.optimizer(), layout, check.faults());
  CheckBatch(spec.batch(), &check);
  CheckDuration(spec, &check);
  CheckCluster(spec, &check);
  CheckStrategy(spec, check.faults());
  CheckCheckpoint(spec, check.faults());
  return std::move(*check.faults());
}

v1::JobSpec ResolveDefaults(v1::JobSpec spec) {
  v1::BatchSpec* batch = spec.mutable_batch();
  if (!batch->has_micro_batches()) batch->set_micro_batches(1);
  if (!batch->has_shares()) {
    batch->set_shares(std::min(batch->micro_batches(), kDefaultShares));
  }
  if (spec.data().has_idx() && !spec.data().has_stddev()) spec.mutable_data()->set_stddev(1.0f);
  ResolveOptimizer(spec.mutable_optimizer());
  v1::ResourcesSpec* resources = spec.mutable_resources();
  if (!resources->has_workers()) resources->set_workers(1);
  if (!resources->has_servers()) resources->set_servers(1);
  ResolveStrategy(&spec);
  ResolveCheckpoint(&spec);
  if (spec.consistency() == v1::CONSISTENCY_UNSPECIFIED) spec.set_consistency(v1::SYNC);
  *spec.mutable_model() = ExpandModel(spec.model());
  return spec;
}

}  // namespace sangam
