#include "worker/runtime/lane_transfers.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/core/instruction.h"
#include "worker/core/step_program.h"
#include "worker/runtime/device_transfers.h"
#include "worker/runtime/host_transfers.h"

namespace sangam {
namespace {

const char* NameOf(RoundKind kind) {
  switch (kind) {
    case RoundKind::kTrain:
      return "training";
    case RoundKind::kEvaluate:
      return "evaluation";
    case RoundKind::kFinish:
      return "finish";
  }
  return "?";
}

}  // namespace

std::unique_ptr<LaneTransfers> LaneTransfers::Create(const RunParts& parts, uint32_t lane) {
  if (parts.job->lanes[lane].device == nullptr) {
    return std::make_unique<HostTransfers>(parts, lane);
  }
  return std::make_unique<DeviceTransfers>(parts, lane);
}

std::string ToString(const LaneTransfers::Doing& doing) {
  return absl::StrCat(NameOf(doing.round.kind), " at step ", doing.round.step, ", ",
                      ToString(doing.instruction));
}

}  // namespace sangam
