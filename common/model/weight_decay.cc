#include "common/model/weight_decay.h"

#include <cstddef>

#include "absl/strings/string_view.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

float OptimizersDecay(const v1::OptimizerSpec& optimizer) {
  switch (optimizer.kind_case()) {
    case v1::OptimizerSpec::kSgd:
      return optimizer.sgd().weight_decay();
    case v1::OptimizerSpec::kMomentum:
      return optimizer.momentum().weight_decay();
    case v1::OptimizerSpec::kAdagrad:
      return optimizer.adagrad().weight_decay();
    case v1::OptimizerSpec::kRmsprop:
      return optimizer.rmsprop().weight_decay();
    case v1::OptimizerSpec::kAdam:
      return optimizer.adam().weight_decay();
    case v1::OptimizerSpec::kAdamw:
      return optimizer.adamw().weight_decay();
    case v1::OptimizerSpec::kLamb:
      return optimizer.lamb().weight_decay();
    case v1::OptimizerSpec::KIND_NOT_SET:
      break;
  }
  return 0;
}

}  // namespace

// On a mismatch after a '*' that star takes one character more; earlier ones need not be tried
// again, so the time is at most pattern times name.
bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = absl::string_view::npos;
  size_t star_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

float WeightDecayOf(const v1::OptimizerSpec& optimizer, const v1::ParameterLayout& parameter) {
  if (parameter.average_rate() > 0) return 0;
  for (const v1::DecayGroup& group : optimizer.decay_group()) {
    if (MatchesPattern(group.parameter(), parameter.name())) return group.weight_decay();
  }
  return parameter.decay() ? OptimizersDecay(optimizer) : 0;
}

}  // namespace sangam
