#include "common/data/synthetic.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/data/read_options.h"
#include "common/data/sample_rules.h"

namespace sangam {
namespace {

// What a stream of RandomPurpose::kSynthetic is for: the minor index of its address.
enum : uint64_t {
  kTrainInputs = 0,  // major: sample
  kTestInputs = 1,   // major: sample
  kTrainNoise = 2,   // major: sample
  kTestNoise = 3,    // major: sample
  kMap = 4,          // major: output
  kTokenClass = 5,   // major: token
};

constexpr uint64_t kMaxMapElements = uint64_t{1} << 28;

// The number `element` of a stream, nearly standard normal: how many of 64 bits are set (mean 32,
// variance 16) and the difference of two even numbers on [0, 1) (variance 1/6), which fills the
// gaps.
double Normal(const RandomStream& stream, uint64_t element) {
  constexpr double kDeviation = 4.0207793606049398;  // sqrt(16 + 1/6)
  const std::array<uint32_t, 4> bits = stream.Block(element);
  const int set = __builtin_popcount(bits[0]) + __builtin_popcount(bits[1]);
  const double between =
      (static_cast<double>(bits[2]) - static_cast<double>(bits[3])) / 4294967296.0;
  return (set - 32 + between) / kDeviation;
}

}  // namespace

SyntheticDataset::SyntheticDataset(Options options, const SampleRules& rules)
    : options_(std::move(options)), rules_(rules) {}

absl::StatusOr<std::unique_ptr<SyntheticDataset>> SyntheticDataset::Open(Options options,
                                                                         const ReadOptions& read) {
  const SampleRules& rules = read.rules;
  std::unique_ptr<SyntheticDataset> data(new SyntheticDataset(std::move(options), rules));
  const bool classes = rules.label_kind == LabelKind::kClass;
  data->runs_ = classes ? rules.labels_per_sample : 1;
  data->outputs_ = classes ? rules.classes : rules.labels_per_sample;
  if (data->outputs_ == 0 || rules.input_elements % data->runs_ != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.synthetic: found ", rules.input_elements, " inputs and ", data->runs_,
                     " labels of ", data->outputs_,
                     " classes, expected as many inputs for each label, and at least one class"));
  }
  data->run_elements_ = rules.input_elements / data->runs_;
  if (rules.vocabulary > 0) return data;
  uint64_t elements = 0;
  if (__builtin_mul_overflow(data->outputs_, data->run_elements_, &elements) ||
      elements > kMaxMapElements || elements > read.max_memory_bytes / sizeof(float)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data.synthetic: the map from ", data->run_elements_, " inputs to ",
                     data->outputs_, " outputs needs 4 bytes of memory for each pair, allowed are ",
                     read.max_memory_bytes, " bytes and ", kMaxMapElements, " pairs"));
  }
  data->map_.resize(elements);
  // Outputs have about the variance 1.
  const double scale = 1 / std::sqrt(static_cast<double>(data->run_elements_));
  for (uint64_t o = 0; o < data->outputs_; ++o) {
    RETURN_IF_ERROR(read.CheckCancelled("data.synthetic"));
    const RandomStream stream(data->options_.seed, RandomPurpose::kSynthetic, o, kMap);
    float* row = data->map_.data() + o * data->run_elements_;
    for (uint64_t e = 0; e < data->run_elements_; ++e) {
      row[e] = static_cast<float>(Normal(stream, e) * scale);
    }
  }
  return data;
}

void SyntheticDataset::MakeInputs(uint64_t sample, float* row) const {
  const RandomStream stream(options_.seed, RandomPurpose::kSynthetic, sample,
                            options_.test ? kTestInputs : kTrainInputs);
  for (uint64_t e = 0; e < rules_.input_elements; ++e) {
    row[e] = rules_.vocabulary > 0 ? static_cast<float>(stream.At(e) * rules_.vocabulary >> 32)
                                   : static_cast<float>(Normal(stream, e));
  }
}

double SyntheticDataset::Output(const float* run, uint64_t output) const {
  double sum = 0;
  if (rules_.vocabulary == 0) {
    const float* row = map_.data() + output * run_elements_;
    for (uint64_t e = 0; e < run_elements_; ++e) sum += double{row[e]} * run[e];
    return sum;
  }
  const RandomStream stream(options_.seed, RandomPurpose::kSynthetic, output, kMap);
  for (uint64_t e = 0; e < run_elements_; ++e) {
    sum += Normal(stream, e * rules_.vocabulary + static_cast<uint64_t>(run[e]));
  }
  return sum / std::sqrt(static_cast<double>(run_elements_));
}

void SyntheticDataset::MakeLabels(uint64_t sample, const float* row, uint32_t* labels) const {
  const RandomStream noise(options_.seed, RandomPurpose::kSynthetic, sample,
                           options_.test ? kTestNoise : kTrainNoise);
  const auto noisy = [&](uint64_t run, uint64_t output) {
    const double value = Output(row + run * run_elements_, output);
    if (options_.noise == 0) return value;
    return value + options_.noise * Normal(noise, run * outputs_ + output);
  };
  if (rules_.label_kind == LabelKind::kNumber) {
    for (uint64_t o = 0; o < outputs_; ++o) {
      const double value = noisy(0, o);
      rules_.TakeLabel(rules_.unit_targets ? (value > 0 ? 1 : 0) : value, labels + o);
    }
    return;
  }
  for (uint64_t run = 0; run < runs_; ++run) {
    if (rules_.vocabulary > 0 && run_elements_ == 1) {
      // The largest output for a single token is one of the classes, each as likely: drawn at once.
      const RandomStream stream(options_.seed, RandomPurpose::kSynthetic,
                                static_cast<uint64_t>(row[run]), kTokenClass);
      labels[run] = static_cast<uint32_t>(stream.At(0) * rules_.classes >> 32);
      continue;
    }
    double largest = noisy(run, 0);
    labels[run] = 0;
    for (uint64_t o = 1; o < outputs_; ++o) {
      const double value = noisy(run, o);
      if (!(value > largest)) continue;
      largest = value;
      labels[run] = static_cast<uint32_t>(o);
    }
  }
}

absl::Status SyntheticDataset::Read(uint64_t sample, float* row, uint32_t* labels) const {
  if (sample >= options_.samples) {
    return absl::OutOfRangeError(
        absl::StrCat("sample ", sample, ": expected less than ", options_.samples));
  }
  std::vector<float> own(row == nullptr ? rules_.input_elements : 0);
  float* inputs = row == nullptr ? own.data() : row;
  MakeInputs(sample, inputs);
  if (labels != nullptr) MakeLabels(sample, inputs, labels);
  if (rules_.vocabulary > 0) return absl::OkStatus();
  NormaliseRow(options_.normalisation, rules_.input_elements, inputs);
  return absl::OkStatus();
}

}  // namespace sangam
