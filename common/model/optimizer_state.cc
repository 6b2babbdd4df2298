#include "common/model/optimizer_state.h"

#include <vector>

#include "proto/model.pb.h"

namespace sangam {

std::vector<const char*> OptimizerStateNames(const v1::OptimizerSpec& spec) {
  switch (spec.kind_case()) {
    case v1::OptimizerSpec::kMomentum:
      return {"momentum_buffer"};
    case v1::OptimizerSpec::kAdagrad:
      return {"sum"};
    case v1::OptimizerSpec::kRmsprop: {
      std::vector<const char*> names = {"square_avg"};
      if (spec.rmsprop().centered()) names.push_back("grad_avg");
      if (spec.rmsprop().momentum() != 0) names.push_back("momentum_buffer");
      return names;
    }
    case v1::OptimizerSpec::kAdamw:
    case v1::OptimizerSpec::kAdam:
    case v1::OptimizerSpec::kLamb:
      return {"exp_avg", "exp_avg_sq"};
    case v1::OptimizerSpec::kSgd:
    case v1::OptimizerSpec::KIND_NOT_SET:
      break;
  }
  return {};
}

}  // namespace sangam
