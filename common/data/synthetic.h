#ifndef SANGAM_COMMON_DATA_SYNTHETIC_H_
#define SANGAM_COMMON_DATA_SYNTHETIC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/dataset.h"
#include "common/data/normalisation.h"
#include "common/data/read_options.h"

namespace sangam {

// Made-up samples that can be learned. Each is a pure function of (seed, set, sample), so any of
// them can be made alone, and everybody makes the same bits: only additions, multiplications and
// divisions are used, which round alike everywhere.
//
// Inputs are independent numbers, close to the standard normal distribution; with a vocabulary,
// tokens of equal probability. The inputs are cut into as many runs as a sample has labels of
// classes (one for losses over numbers), and each run goes through a fixed random linear map,
// tokens as vectors with a single 1. Its outputs plus noise are the targets of mean_squared_error;
// whether they are above 0 is the target of binary_cross_entropy; the largest one is the class.
class SyntheticDataset : public Dataset {
 public:
  struct Options {
    uint64_t seed = 0;
    bool test = false;
    uint64_t samples = 1;  // > 0
    std::vector<uint64_t> shape;
    // Standard deviation of what is added to the map's outputs.
    double noise = 0;
    Normalisation normalisation;
  };
  // Errors: InvalidArgument    the inputs cannot be cut into runs; nothing to learn from
  //         ResourceExhausted  the map needs more memory than allowed, or than can be had
  static absl::StatusOr<std::unique_ptr<SyntheticDataset>> Open(Options options,
                                                                const ReadOptions& read);

  uint64_t num_samples() const override { return options_.samples; }
  const std::vector<uint64_t>& sample_shape() const override { return options_.shape; }
  uint64_t sample_elements() const override { return rules_.input_elements; }
  uint64_t labels_per_sample() const override { return rules_.labels_per_sample; }
  LabelKind label_kind() const override { return rules_.label_kind; }
  // As many as the model has outputs.
  uint32_t num_classes() const override {
    return rules_.label_kind == LabelKind::kClass ? static_cast<uint32_t>(rules_.classes) : 0;
  }
  uint64_t memory_bytes() const override { return map_.size() * sizeof(float); }
  absl::Status Read(uint64_t sample, float* row, uint32_t* labels) const override;

 private:
  SyntheticDataset(Options options, const SampleRules& rules);
  // Output `output` of the map for a run of inputs.
  double Output(const float* run, uint64_t output) const;
  void MakeInputs(uint64_t sample, float* row) const;
  void MakeLabels(uint64_t sample, const float* row, uint32_t* labels) const;

  const Options options_;
  const SampleRules rules_;
  uint64_t runs_ = 1;
  uint64_t run_elements_ = 1;
  uint64_t outputs_ = 1;    // of each run
  std::vector<float> map_;  // [outputs_, run_elements_]; empty for tokens
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_SYNTHETIC_H_
