#include "worker/backend/cpu/embedding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {
namespace {

absl::Status CheckRange(absl::string_view operation, ConstMatrix tokens, int64_t rows) {
  // A double holds every float and every number of rows in memory.
  const auto limit = static_cast<double>(rows);
  for (int64_t i = 0; i < tokens.size(); ++i) {
    const double token = tokens.data[i];
    if (token >= 0 && token < limit && token == std::floor(token)) continue;
    return absl::InvalidArgumentError(absl::StrCat(operation, ": token ", i, " is ", token,
                                                   ", expected a whole number below ", rows));
  }
  return absl::OkStatus();
}

}  // namespace

SANGAM_CPU_KERNEL
void AddRow(const float* in, int64_t size, float* inout) {
  for (int64_t j = 0; j < size; ++j) inout[j] += in[j];
}

absl::Status Lookup(ConstMatrix tokens, ConstMatrix table, float* out) {
  RETURN_IF_ERROR(CheckRange("lookup", tokens, table.rows));
  for (int64_t r = 0; r < tokens.size(); ++r) {
    const auto row = static_cast<int64_t>(tokens.data[r]);
    std::copy_n(table.data + row * table.cols, table.cols, out + r * table.cols);
  }
  return absl::OkStatus();
}

absl::Status LookupBackward(ConstMatrix tokens, ConstMatrix output_gradient,
                            Matrix table_gradient) {
  RETURN_IF_ERROR(CheckRange("lookup backward", tokens, table_gradient.rows));
  const int64_t cols = table_gradient.cols;
  for (int64_t r = 0; r < tokens.size(); ++r) {
    const auto row = static_cast<int64_t>(tokens.data[r]);
    AddRow(output_gradient.data + r * cols, cols, table_gradient.data + row * cols);
  }
  return absl::OkStatus();
}

}  // namespace sangam::cpu_kernels
