#include "common/plan/stage_memory.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/numeric/int128.h"
#include "common/plan/saturating.h"
#include "common/plan/worker_memory.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

uint64_t Clamp(absl::uint128 value) {
  return absl::Uint128High64(value) == 0 ? absl::Uint128Low64(value) : UINT64_MAX;
}

// The first of `entries`, which are sorted by block, at `block` or behind it.
template <typename Entry>
typename std::vector<Entry>::const_iterator From(const std::vector<Entry>& entries,
                                                 uint32_t block) {
  return std::lower_bound(entries.begin(), entries.end(), block,
                          [](const Entry& entry, uint32_t b) { return entry.block < b; });
}

}  // namespace

StageMemory::StageMemory(const v1::ModelLayout& layout, const v1::ModelSpec& model,
                         bool splits_backward)
    : blocks_(static_cast<uint32_t>(layout.block_size())), before_(1) {
  const auto recomputes = [&](uint32_t b) {
    return static_cast<int>(b) < model.block_size() && model.block(static_cast<int>(b)).recompute();
  };
  std::vector<bool> feeds_skip(blocks_, false);
  for (const v1::BlockLayout& block : layout.block()) {
    output_bytes_.push_back(
        SaturatingProduct(SaturatingElements(block.output_shape()), sizeof(float)));
    if (block.has_skip_from()) feeds_skip[block.skip_from()] = true;
  }
  std::map<uint32_t, uint32_t> holder;  // by segment: the last block so far that holds it
  for (uint32_t b = 0; b < blocks_; ++b) {
    const v1::BlockLayout& block = layout.block(static_cast<int>(b));
    const auto bytes_of = [&](uint32_t segment) {
      return SaturatingProduct(layout.segment(static_cast<int>(segment)).element_count(),
                               sizeof(float));
    };
    Sums sums = before_.back();
    if (block.segment() >= 0) {
      const auto own = static_cast<uint32_t>(block.segment());
      sums.weights += bytes_of(own);
      sums.uses += bytes_of(own);
      holder[own] = b;
    }
    if (block.has_tied_segment()) {
      const uint32_t tied = block.tied_segment();
      sums.uses += bytes_of(tied);
      tied_.push_back({b, holder[tied], bytes_of(tied)});
      holder[tied] = b;
    }
    sums.per_slot += block.activation_bytes();
    (splits_backward && !recomputes(b) ? sums.per_slot : sums.once) += block.scratch_bytes();
    const bool keeps_output =
        b + 1 == blocks_ || feeds_skip[b] || (splits_backward && recomputes(b + 1));
    if (keeps_output) sums.per_slot += output_bytes_[b];
    if (block.has_skip_from()) {
      const uint32_t from = block.skip_from();
      sums.per_slot += SaturatingProduct(SaturatingElements(block.input_shape()), sizeof(float));
      readers_.push_back({b, from, output_bytes_[from]});
      sources_.push_back({from, b, output_bytes_[from]});
    }
    before_.push_back(sums);
  }
  std::stable_sort(sources_.begin(), sources_.end(),
                   [](const SkipEnd& a, const SkipEnd& b) { return a.block < b.block; });
  if (blocks_ == 0) return;
  input_bytes_ =
      SaturatingProduct(SaturatingElements(layout.block(0).input_shape()), sizeof(float));
  label_bytes_ = SaturatingProduct(std::max<uint64_t>(1, layout.terms_per_sample()), sizeof(float));
}

uint64_t StageMemory::WeightBytes(uint32_t first, uint32_t end) const {
  uint64_t bytes = Clamp(before_[end].weights - before_[first].weights);
  for (auto tied = From(tied_, first); tied != tied_.end() && tied->block < end; ++tied) {
    if (tied->before < first) bytes = SaturatingSum(bytes, tied->bytes);
  }
  return bytes;
}

uint64_t StageMemory::MessageBytes(uint32_t first, uint32_t end) const {
  uint64_t bytes = first > 0 ? output_bytes_[first - 1] : 0;
  if (end < blocks_) bytes = SaturatingSum(bytes, output_bytes_[end - 1]);
  for (auto skip = From(readers_, first); skip != readers_.end() && skip->block < end; ++skip) {
    if (skip->other < first) bytes = SaturatingSum(bytes, skip->bytes);
  }
  for (auto skip = From(sources_, first); skip != sources_.end() && skip->block < end; ++skip) {
    if (skip->other >= end) bytes = SaturatingSum(bytes, skip->bytes);
  }
  return bytes;
}

StageMemory::Bytes StageMemory::Of(uint32_t first, uint32_t end, uint32_t chunk,
                                   const WorkerLoad& load) const {
  const Sums& low = before_[first];
  const Sums& high = before_[end];
  const uint64_t slots = load.slots[chunk];
  const uint64_t held = kBatchesAhead + slots;
  uint64_t samples = SaturatingProduct(Clamp(high.per_slot - low.per_slot), slots);
  samples = SaturatingSum(samples, Clamp(high.once - low.once));
  if (first == 0) samples = SaturatingSum(samples, SaturatingProduct(input_bytes_, held));
  if (end == blocks_) samples = SaturatingSum(samples, SaturatingProduct(label_bytes_, held));
  Bytes bytes;
  bytes.within =
      SaturatingSum(WeightBytes(first, end),
                    SaturatingProduct(Clamp(high.uses - low.uses), load.gradient_buffers));
  bytes.within =
      SaturatingSum(bytes.within, SaturatingProduct(samples, load.rows, uint64_t{load.lanes}));
  const uint64_t kept = *std::max_element(load.slots.begin(), load.slots.end());
  const uint64_t tensors = 2 * uint64_t{load.credits} + kept;
  bytes.total = SaturatingSum(bytes.within, SaturatingProduct(MessageBytes(first, end), tensors,
                                                              load.rows, uint64_t{load.lanes}));
  return bytes;
}

}  // namespace sangam
