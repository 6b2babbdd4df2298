#include "common/model/job_check.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/checkpoint_check.h"
#include "common/model/data_check.h"
#include "common/model/expand_layers.h"
#include "common/model/field_fault.h"
#include "common/model/label_kind.h"
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
constexpr uint64_t kMaxTargets = uint64_t{1} << 31;  // of one sample
constexpr uint32_t kMaxAlertWindow = 1 << 16;
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

void CheckWatch(const v1::JobSpec& spec, Checker* check) {
  if (spec.on_nonfinite() != v1::ON_NONFINITE_UNSPECIFIED && spec.on_nonfinite() != v1::FAIL_JOB &&
      spec.on_nonfinite() != v1::SKIP_STEP) {
    check->Fault("on_nonfinite", "found ", spec.on_nonfinite(), ", expected FAIL_JOB or SKIP_STEP");
  }
  const v1::LossAlertSpec& alert = spec.loss_alert();
  if (alert.has_factor() && (!std::isfinite(alert.factor()) || !(alert.factor() > 1))) {
    check->Fault("loss_alert.factor", "found ", alert.factor(), ", expected a finite number > 1");
  }
  if (alert.has_window() && (alert.window() == 0 || alert.window() > kMaxAlertWindow)) {
    check->Fault("loss_alert.window", "found ", alert.window(), ", expected 1 to ",
                 kMaxAlertWindow);
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
  const std::string& backend = resources.backend();
  if (!backend.empty() && backend != "cpu" && backend != "cuda") {
    check->Fault("resources.backend", "found \"", absl::CHexEscape(backend),
                 "\", expected \"cpu\", \"cuda\" or nothing");
  }
  if (spec.consistency() != v1::CONSISTENCY_UNSPECIFIED && spec.consistency() != v1::SYNC) {
    check->Fault("consistency", "found ", spec.consistency(), ", expected SYNC");
  }
  if (!v1::Precision_IsValid(spec.precision())) {
    check->Fault("precision", "found ", spec.precision(), ", expected FP32, BF16 or TF32");
  }
}

void CheckLoss(const v1::JobSpec& spec, const v1::ModelLayout& layout, bool layout_good,
               Checker* check) {
  if (spec.loss().kind_case() == v1::LossSpec::KIND_NOT_SET) {
    check->Fault("loss",
                 "found no kind, expected softmax_cross_entropy, token_cross_entropy, "
                 "mean_squared_error or binary_cross_entropy");
    return;
  }
  if (!layout_good) return;
  const v1::BlockLayout& last = layout.block(layout.block_size() - 1);
  if (LabelKindOf(spec.loss()) == LabelKind::kNumber) {
    if (layout.terms_per_sample() <= kMaxTargets) return;
    check->Fault(spec.loss().has_mean_squared_error() ? "loss.mean_squared_error"
                                                      : "loss.binary_cross_entropy",
                 "found a model output of shape [", absl::StrJoin(last.output_shape(), ","),
                 "], expected at most ", kMaxTargets, " elements");
    return;
  }
  const bool tokens = spec.loss().has_token_cross_entropy();
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
  const v1::ModelLayout layout = BuildModelLayout(spec.model(), spec.loss(), check.faults());
  const bool layout_good = check.faults()->size() == before;
  CheckLoss(spec, layout, layout_good, &check);
  CheckData(spec, check.faults());
  CheckOptimizer(spec.optimizer(), check.faults());
  if (layout_good) CheckDecayGroups(spec.optimizer(), layout, check.faults());
  CheckBatch(spec.batch(), &check);
  CheckDuration(spec, &check);
  CheckCluster(spec, &check);
  CheckWatch(spec, &check);
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
  const bool images = spec.data().has_idx() || spec.data().has_cifar();
  if (images && !spec.data().has_stddev() && spec.data().channel_mean().empty() &&
      spec.data().channel_stddev().empty()) {
    spec.mutable_data()->set_stddev(1.0f);
  }
  ResolveOptimizer(spec.mutable_optimizer());
  v1::ResourcesSpec* resources = spec.mutable_resources();
  if (!resources->has_workers()) resources->set_workers(1);
  if (!resources->has_servers()) resources->set_servers(1);
  ResolveStrategy(&spec);
  if (spec.on_nonfinite() == v1::ON_NONFINITE_UNSPECIFIED) spec.set_on_nonfinite(v1::FAIL_JOB);
  v1::LossAlertSpec* alert = spec.mutable_loss_alert();
  if (!alert->has_factor()) alert->set_factor(3);
  if (!alert->has_window()) alert->set_window(100);
  ResolveCheckpoint(&spec);
  if (spec.consistency() == v1::CONSISTENCY_UNSPECIFIED) spec.set_consistency(v1::SYNC);
  if (spec.precision() == v1::PRECISION_UNSPECIFIED) spec.set_precision(v1::FP32);
  *spec.mutable_model() = ExpandModel(spec.model());
  return spec;
}

}  // namespace sangam
