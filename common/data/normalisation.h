#ifndef SANGAM_COMMON_DATA_NORMALISATION_H_
#define SANGAM_COMMON_DATA_NORMALISATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/table.h"
#include "proto/job.pb.h"

namespace sangam {

// x becomes (x - mean) / stddev, each channel (the last dimension of a sample) with its own numbers
// or all with the same. Where stddev is 0, x becomes 0. A value.
struct Normalisation {
  // Of the same size, at least 1; number i is that of the elements i, i + size, ...
  std::vector<double> mean = {0};
  std::vector<double> stddev = {1};

  double mean_of(uint64_t element) const { return mean[element % mean.size()]; }
  double stddev_of(uint64_t element) const { return stddev[element % stddev.size()]; }
};

// What the job says by mean, stddev, channel_mean and channel_stddev for samples of so many
// channels. Errors: InvalidArgument  not as many numbers as channels, numbers that are not finite,
// a stddev
//                          that is not above 0
absl::StatusOr<Normalisation> NormalisationOf(const v1::DataSpec& data, uint64_t channels);

// Mean and standard deviation (of the population) of each column, in binary64 in the order of the
// rows; stddev 0 for a column of equal numbers. REQUIRES: table.rows() > 0.
Normalisation ColumnStatistics(const Table& table);

// In binary64, rounded once.
void NormaliseRow(const Normalisation& normalisation, uint64_t elements, float* inputs);
// Every row.
void Normalise(const Normalisation& normalisation, Table* table);

// What each of the 256 bytes of an image becomes in channel `channel`: (byte / 255 - mean) /
// stddev, in binary32.
std::vector<float> ValuesOfBytes(const Normalisation& normalisation, uint64_t channel);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_NORMALISATION_H_
