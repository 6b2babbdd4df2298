#include "client/commands/export_weights.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/human_format.h"
#include "client/safetensors.h"
#include "client/weights_assembly.h"
#include "client/weights_reader.h"
#include "common/base/status_macros.h"

namespace sangam {

std::string ExportedWeights::Summary() const {
  return absl::StrCat(tensors, tensors == 1 ? " tensor, " : " tensors, ", HumanBytes(bytes),
                      ", step ", step);
}

absl::StatusOr<ExportedWeights> ExportWeights(const v1::Job& job, const std::string& path,
                                              absl::Duration connect_deadline,
                                              const Environment& environment) {
  WeightsReaderOptions options;
  options.connect_deadline = connect_deadline;
  options.check = [&environment] { return environment.CheckInterrupt(); };
  ASSIGN_OR_RETURN(const WeightsAssembly weights, ReadWeights(job, options));
  const std::vector<TensorView> tensors = weights.Tensors();
  RETURN_IF_ERROR(WriteSafetensors(tensors, path));

  ExportedWeights exported;
  exported.step = weights.step().value_or(0);
  exported.tensors = tensors.size();
  for (const TensorView& tensor : tensors) exported.bytes += tensor.bytes.size();
  return exported;
}

}  // namespace sangam
