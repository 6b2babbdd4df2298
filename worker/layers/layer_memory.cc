#include "worker/layers/layer_memory.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/model/layer_demand.h"
#include "worker/layers/layer.h"

namespace sangam {
namespace {

// Of a cache line, in floats.
constexpr int64_t kPieceAlignment = 16;
// Most floats in all, so that their bytes have a number.
constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 8;

}  // namespace

float* PieceCutter::Cut(int64_t size) {
  if (size == 0 || !fits_) return nullptr;
  if (max_rows_ > static_cast<uint64_t>(kMost / size)) {
    fits_ = false;
    return nullptr;
  }
  const int64_t begin = total_;
  const int64_t length = static_cast<int64_t>(max_rows_) * size;
  if (length > kMost - total_ - kPieceAlignment) {
    fits_ = false;
    return nullptr;
  }
  total_ += (length + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  return memory_ == nullptr ? nullptr : memory_ + begin;
}

void CutStates(const std::vector<LayerDemand>& demands, PieceCutter* cutter,
               std::vector<LayerState>* layers) {
  layers->resize(demands.size());
  for (size_t i = 0; i < demands.size(); ++i) {
    LayerState& layer = (*layers)[i];
    layer.output = cutter->Cut(demands[i].output);
    layer.kept = cutter->Cut(demands[i].kept);
    CutStates(demands[i].inner, cutter, &layer.inner);
  }
}

void CutScratch(const std::vector<LayerDemand>& demands, PieceCutter* cutter,
                std::vector<LayerState>* layers) {
  layers->resize(demands.size());
  for (size_t i = 0; i < demands.size(); ++i) {
    LayerState& layer = (*layers)[i];
    layer.delta = cutter->Cut(demands[i].delta);
    layer.input_gradient = cutter->Cut(demands[i].input_gradient);
    CutScratch(demands[i].inner, cutter, &layer.inner);
  }
}

}  // namespace sangam
