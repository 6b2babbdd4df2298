#include "common/model/optimizer_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/model/field_fault.h"
#include "common/model/weight_decay.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

// Steps of a job; more are certainly a mistake and would not be exact in double.
constexpr uint64_t kMaxSteps = uint64_t{1} << 48;
constexpr int kMaxDecayGroups = 256;
// Names that the fault of a decay group shows.
constexpr size_t kShownNames = 8;

// Checks the numbers of one message, each with its field path. Written so that NaN is a fault.
class Numbers {
 public:
  Numbers(std::string path, std::vector<FieldFault>* faults)
      : path_(std::move(path)), faults_(faults) {}

  // 0 <= value < 1.
  void Fraction(const char* field, float value) {
    Expect(value >= 0 && value < 1, field, value, "at least 0 and below 1");
  }
  // 0 <= value <= 1.
  void Share(const char* field, float value) {
    Expect(value >= 0 && value <= 1, field, value, "0 to 1");
  }
  void Positive(const char* field, float value) {
    Expect(value > 0 && std::isfinite(value), field, value, "a finite number > 0");
  }
  void NotNegative(const char* field, float value) {
    Expect(value >= 0 && std::isfinite(value), field, value, "a finite number >= 0");
  }
  void Steps(const char* field, uint64_t value) {
    Expect(value <= kMaxSteps, field, value, absl::StrCat("at most ", kMaxSteps));
  }
  template <typename Value>
  void Expect(bool good, const char* field, Value found, absl::string_view expected) {
    if (good) return;
    AddFault(faults_, absl::StrCat(path_, ".", field), "found ", found, ", expected ", expected);
  }

 private:
  std::string path_;
  std::vector<FieldFault>* faults_;
};

// Adam, AdamW and LAMB have the same fields.
template <typename Spec>
void CheckAdam(const Spec& adam, Numbers* check) {
  check->Fraction("beta1", adam.beta1());
  check->Fraction("beta2", adam.beta2());
  check->Positive("epsilon", adam.epsilon());
  check->NotNegative("weight_decay", adam.weight_decay());
}

// REQUIRES: defaults are resolved.
void CheckKind(const v1::OptimizerSpec& optimizer, std::vector<FieldFault>* faults) {
  const auto at = [faults](const char* kind) {
    return Numbers(absl::StrCat("optimizer.", kind), faults);
  };
  switch (optimizer.kind_case()) {
    case v1::OptimizerSpec::kSgd:
      return at("sgd").NotNegative("weight_decay", optimizer.sgd().weight_decay());
    case v1::OptimizerSpec::kMomentum: {
      Numbers check = at("momentum");
      check.Fraction("momentum", optimizer.momentum().momentum());
      return check.NotNegative("weight_decay", optimizer.momentum().weight_decay());
    }
    case v1::OptimizerSpec::kAdagrad: {
      Numbers check = at("adagrad");
      check.NotNegative("epsilon", optimizer.adagrad().epsilon());
      check.NotNegative("initial_accumulator", optimizer.adagrad().initial_accumulator());
      return check.NotNegative("weight_decay", optimizer.adagrad().weight_decay());
    }
    case v1::OptimizerSpec::kRmsprop: {
      Numbers check = at("rmsprop");
      check.Fraction("alpha", optimizer.rmsprop().alpha());
      check.Positive("epsilon", optimizer.rmsprop().epsilon());
      check.Fraction("momentum", optimizer.rmsprop().momentum());
      return check.NotNegative("weight_decay", optimizer.rmsprop().weight_decay());
    }
    case v1::OptimizerSpec::kAdam: {
      Numbers check = at("adam");
      return CheckAdam(optimizer.adam(), &check);
    }
    case v1::OptimizerSpec::kAdamw: {
      Numbers check = at("adamw");
      return CheckAdam(optimizer.adamw(), &check);
    }
    case v1::OptimizerSpec::kLamb: {
      Numbers check = at("lamb");
      return CheckAdam(optimizer.lamb(), &check);
    }
    case v1::OptimizerSpec::KIND_NOT_SET:
      break;
  }
  AddFault(faults, "optimizer",
           "found no kind, expected sgd, momentum, adagrad, rmsprop, adam, adamw or lamb");
}

void CheckSchedule(const v1::LearningRateSpec& schedule, std::vector<FieldFault>* faults) {
  const std::string path = "optimizer.schedule";
  Numbers check(path, faults);
  check.Steps("warmup_steps", schedule.warmup_steps());
  check.Share("warmup_start", schedule.warmup_start());
  if (schedule.has_step()) {
    const float factor = schedule.step().factor();
    Numbers step(absl::StrCat(path, ".step"), faults);
    step.Expect(schedule.step().every() > 0, "every", schedule.step().every(), "at least 1");
    step.Expect(factor > 0 && factor <= 1, "factor", factor, "above 0 and at most 1");
  } else if (schedule.has_linear()) {
    Numbers linear(absl::StrCat(path, ".linear"), faults);
    linear.Share("end", schedule.linear().end());
    linear.Steps("decay_steps", schedule.linear().decay_steps());
  } else if (schedule.has_cosine()) {
    Numbers cosine(absl::StrCat(path, ".cosine"), faults);
    cosine.Share("end", schedule.cosine().end());
    cosine.Steps("decay_steps", schedule.cosine().decay_steps());
  }
}

std::string GroupPath(int group) { return absl::StrCat("optimizer.decay_group[", group, "]"); }

void SetAdamDefaults(float epsilon, float weight_decay, v1::OptimizerSpec* optimizer) {
  const auto set = [&](auto* adam) {
    if (!adam->has_beta1()) adam->set_beta1(0.9f);
    if (!adam->has_beta2()) adam->set_beta2(0.999f);
    if (!adam->has_epsilon()) adam->set_epsilon(epsilon);
    if (!adam->has_weight_decay()) adam->set_weight_decay(weight_decay);
  };
  if (optimizer->has_adam()) set(optimizer->mutable_adam());
  if (optimizer->has_adamw()) set(optimizer->mutable_adamw());
  if (optimizer->has_lamb()) set(optimizer->mutable_lamb());
}

void ResolveSchedule(v1::LearningRateSpec* schedule) {
  if (!schedule->has_warmup_start()) schedule->set_warmup_start(0);
  if (schedule->has_step() && !schedule->step().has_factor()) {
    schedule->mutable_step()->set_factor(0.1f);
  }
  if (schedule->has_linear() && !schedule->linear().has_end()) {
    schedule->mutable_linear()->set_end(0);
  }
  if (schedule->has_cosine() && !schedule->cosine().has_end()) {
    schedule->mutable_cosine()->set_end(0);
  }
}

}  // namespace

void CheckOptimizer(const v1::OptimizerSpec& spec, std::vector<FieldFault>* faults) {
  v1::OptimizerSpec optimizer = spec;
  ResolveOptimizer(&optimizer);  // defaults are good, so only what was given can be a fault
  Numbers("optimizer", faults).Positive("learning_rate", optimizer.learning_rate());
  CheckKind(optimizer, faults);
  if (optimizer.has_schedule()) CheckSchedule(optimizer.schedule(), faults);
  if (optimizer.has_clipping()) {
    Numbers("optimizer.clipping", faults).Positive("max_norm", optimizer.clipping().max_norm());
  }
  if (optimizer.decay_group_size() > kMaxDecayGroups) {
    AddFault(faults, "optimizer.decay_group", "found ", optimizer.decay_group_size(),
             ", expected at most ", kMaxDecayGroups);
  }
  for (int i = 0; i < optimizer.decay_group_size(); ++i) {
    const v1::DecayGroup& group = optimizer.decay_group(i);
    if (group.parameter().empty()) {
      AddFault(faults, absl::StrCat(GroupPath(i), ".parameter"),
               "found none, expected a parameter's name or a pattern of it");
    }
    Numbers(GroupPath(i), faults).NotNegative("weight_decay", group.weight_decay());
  }
}

void CheckDecayGroups(const v1::OptimizerSpec& optimizer, const v1::ModelLayout& layout,
                      std::vector<FieldFault>* faults) {
  if (optimizer.decay_group_size() > kMaxDecayGroups) return;  // a fault of CheckOptimizer
  std::vector<absl::string_view> names;
  for (const v1::SegmentLayout& segment : layout.segment()) {
    for (const v1::ParameterLayout& parameter : segment.parameter()) {
      if (!(parameter.average_rate() > 0)) names.push_back(parameter.name());
    }
  }
  for (int i = 0; i < optimizer.decay_group_size(); ++i) {
    const std::string& pattern = optimizer.decay_group(i).parameter();
    if (pattern.empty()) continue;  // likewise
    if (std::any_of(names.begin(), names.end(),
                    [&pattern](absl::string_view name) { return MatchesPattern(pattern, name); })) {
      continue;
    }
    const size_t shown = std::min(names.size(), kShownNames);
    AddFault(faults, absl::StrCat(GroupPath(i), ".parameter"), "found \"", pattern,
             "\", which matches no parameter; expected the name of one or a pattern with '*' and "
             "'?', such as ",
             absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
             shown < names.size() ? ", ..." : "");
  }
}

void ResolveOptimizer(v1::OptimizerSpec* optimizer) {
  SetAdamDefaults(optimizer->has_lamb() ? 1e-6f : 1e-8f, optimizer->has_adam() ? 0 : 0.01f,
                  optimizer);
  const auto no_decay = [](auto* kind) {
    if (!kind->has_weight_decay()) kind->set_weight_decay(0);
  };
  if (optimizer->has_sgd()) no_decay(optimizer->mutable_sgd());
  if (optimizer->has_momentum()) no_decay(optimizer->mutable_momentum());
  if (optimizer->has_adagrad()) {
    v1::AdagradSpec* adagrad = optimizer->mutable_adagrad();
    if (!adagrad->has_epsilon()) adagrad->set_epsilon(1e-10f);
    if (!adagrad->has_initial_accumulator()) adagrad->set_initial_accumulator(0);
    no_decay(adagrad);
  }
  if (optimizer->has_rmsprop()) {
    v1::RmsPropSpec* rmsprop = optimizer->mutable_rmsprop();
    if (!rmsprop->has_alpha()) rmsprop->set_alpha(0.99f);
    if (!rmsprop->has_epsilon()) rmsprop->set_epsilon(1e-8f);
    if (!rmsprop->has_momentum()) rmsprop->set_momentum(0);
    no_decay(rmsprop);
  }
  if (optimizer->has_schedule()) ResolveSchedule(optimizer->mutable_schedule());
}

}  // namespace sangam
