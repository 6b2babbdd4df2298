#include "server/core/block_times.h"

#include <xxhash.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/plan/cost_model.h"
#include "proto/cluster_service.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

// Of block `b`. BlockSpec has no maps, so equal blocks have equal bytes.
uint64_t FingerprintOf(const v1::ModelSpec& model, const v1::ModelLayout& layout, int b,
                       absl::string_view unit) {
  v1::BlockSpec block = model.block(b);
  block.clear_name();
  std::string bytes = block.SerializeAsString();
  for (const uint64_t size : layout.block(b).input_shape()) absl::StrAppend(&bytes, "x", size);
  absl::StrAppend(&bytes, "->");
  for (const uint64_t size : layout.block(b).output_shape()) absl::StrAppend(&bytes, "x", size);
  // Whether its backward makes a gradient of the input.
  const bool makes_gradient = static_cast<uint32_t>(b) > FirstTrainedBlock(layout);
  absl::StrAppend(&bytes, makes_gradient ? "+" : "-", "@", unit);
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

absl::Status BlockTimes::Check(const v1::BlockTimesReport& report, const v1::ModelSpec& model) {
  for (const v1::BlockTime& time : report.block()) {
    if (time.block() >= static_cast<uint32_t>(model.block_size())) {
      return absl::InvalidArgumentError(absl::StrCat("block times: found block ", time.block(),
                                                     ", expected one below ", model.block_size()));
    }
    if (!IsTime(time.forward_seconds()) || !IsTime(time.backward_seconds())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "block times: found ", time.forward_seconds(), " s forward and ", time.backward_seconds(),
          " s backward for block ", time.block(), ", expected finite times of at least 0"));
    }
  }
  return absl::OkStatus();
}

void BlockTimes::Add(const v1::BlockTimesReport& report, const v1::ModelSpec& model,
                     const v1::ModelLayout& layout, absl::string_view unit) {
  for (const v1::BlockTime& time : report.block()) {
    if (time.samples() == 0) continue;  // not computed yet
    const int block = static_cast<int>(time.block());
    const uint64_t key = FingerprintOf(model, layout, block, unit);
    Entry& entry = times_[key];
    entry.time = time;
    by_age_.erase(entry.measured);
    entry.measured = ++last_measured_;
    by_age_[entry.measured] = key;
  }
  while (times_.size() > capacity_) {
    times_.erase(by_age_.begin()->second);
    by_age_.erase(by_age_.begin());
  }
}

std::vector<v1::BlockTime> BlockTimes::Find(const v1::ModelSpec& model,
                                            const v1::ModelLayout& layout,
                                            absl::string_view unit) const {
  std::vector<v1::BlockTime> found;
  for (int b = 0; b < model.block_size(); ++b) {
    const auto known = times_.find(FingerprintOf(model, layout, b, unit));
    if (known == times_.end()) continue;
    found.push_back(known->second.time);
    found.back().set_block(static_cast<uint32_t>(b));
  }
  return found;
}

}  // namespace sangam
