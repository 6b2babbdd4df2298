#include "common/data/normalisation.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/data/table.h"
#include "google/protobuf/repeated_field.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

absl::Status CheckCount(absl::string_view field, int found, uint64_t channels) {
  if (found == 0 || static_cast<uint64_t>(found) == channels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": found ", found, " numbers, expected ",
                                                 channels,
                                                 ", one for each channel of the samples"));
}

absl::Status CheckNumbers(const v1::DataSpec& data) {
  const auto finite = [](float number) { return std::isfinite(number); };
  for (const float mean : data.channel_mean()) {
    if (finite(mean)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.channel_mean: found ", mean, ", expected finite numbers"));
  }
  for (const float stddev : data.channel_stddev()) {
    if (finite(stddev) && stddev > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.channel_stddev: found ", stddev, ", expected finite numbers above 0"));
  }
  if (!finite(data.mean())) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.mean: found ", data.mean(), ", expected a finite number"));
  }
  if (data.has_stddev() && !(finite(data.stddev()) && data.stddev() > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.stddev: found ", data.stddev(), ", expected a finite number above 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Normalisation> NormalisationOf(const v1::DataSpec& data, uint64_t channels) {
  RETURN_IF_ERROR(CheckNumbers(data));
  RETURN_IF_ERROR(CheckCount("data.channel_mean", data.channel_mean_size(), channels));
  RETURN_IF_ERROR(CheckCount("data.channel_stddev", data.channel_stddev_size(), channels));
  Normalisation result;
  result.mean[0] = data.mean();
  if (data.has_stddev()) result.stddev[0] = data.stddev();
  if (data.channel_mean().empty() && data.channel_stddev().empty()) return result;
  result.mean.assign(channels, 0);
  result.stddev.assign(channels, 1);
  for (int c = 0; c < data.channel_mean_size(); ++c) {
    result.mean[static_cast<uint64_t>(c)] = data.channel_mean(c);
  }
  for (int c = 0; c < data.channel_stddev_size(); ++c) {
    result.stddev[static_cast<uint64_t>(c)] = data.channel_stddev(c);
  }
  return result;
}

Normalisation ColumnStatistics(const Table& table) {
  const uint64_t columns = table.columns();
  const auto rows = static_cast<double>(table.rows());
  Normalisation result;
  result.mean.assign(columns, 0);
  result.stddev.assign(columns, 0);
  // Rounding would give a column of equal numbers a tiny deviation, and dividing by it large ones.
  std::vector<bool> varies(columns, false);
  const std::vector<float> first(table.InputsAt(0), table.InputsAt(0) + columns);
  for (uint64_t row = 0; row < table.rows(); ++row) {
    const float* inputs = table.InputsAt(row);
    for (uint64_t c = 0; c < columns; ++c) {
      result.mean[c] += inputs[c];
      if (inputs[c] != first[c]) varies[c] = true;
    }
  }
  for (double& mean : result.mean) mean /= rows;
  for (uint64_t row = 0; row < table.rows(); ++row) {
    const float* inputs = table.InputsAt(row);
    for (uint64_t c = 0; c < columns; ++c) {
      const double off = inputs[c] - result.mean[c];
      result.stddev[c] += off * off;
    }
  }
  for (uint64_t c = 0; c < columns; ++c) {
    result.stddev[c] = varies[c] ? std::sqrt(result.stddev[c] / rows) : 0;
  }
  return result;
}

void NormaliseRow(const Normalisation& normalisation, uint64_t elements, float* inputs) {
  const uint64_t size = normalisation.mean.size();
  if (size == 1 && normalisation.mean[0] == 0 && normalisation.stddev[0] == 1) return;
  uint64_t channel = 0;
  for (uint64_t e = 0; e < elements; ++e) {
    const double stddev = normalisation.stddev[channel];
    inputs[e] =
        stddev == 0 ? 0.0f : static_cast<float>((inputs[e] - normalisation.mean[channel]) / stddev);
    if (++channel == size) channel = 0;
  }
}

void Normalise(const Normalisation& normalisation, Table* table) {
  for (uint64_t row = 0; row < table->rows(); ++row) {
    NormaliseRow(normalisation, table->columns(), table->At(row).inputs);
  }
}

std::vector<float> ValuesOfBytes(const Normalisation& normalisation, uint64_t channel) {
  const auto mean = static_cast<float>(normalisation.mean_of(channel));
  const auto stddev = static_cast<float>(normalisation.stddev_of(channel));
  std::vector<float> values;
  for (int byte = 0; byte < 256; ++byte) {
    values.push_back((static_cast<float>(byte) / 255.0f - mean) / stddev);
  }
  return values;
}

}  // namespace sangam
