#include "worker/backend/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/bf16.h"
#include "worker/backend/cpu/functions.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/lanes.h"
#include "worker/backend/cpu/softmax_row.h"
#include "worker/backend/cpu/tf32.h"
#include "worker/backend/cpu/tiles.h"
#include "worker/backend/cpu/wide_functions.h"
#include "worker/backend/precision.h"
#include "worker/backend/views.h"

namespace sangam {
namespace cpu_kernels {
namespace {

// Queries whose scores are kept at once; a multiple of kTileRows and kPanel.
constexpr int64_t kBlock = 32;

// Sizes of the parts of one head.
struct HeadSizes {
  int64_t positions, width;
  int64_t keys;         // positions, rounded up to whole panels
  int64_t columns;      // width, likewise
  int64_t stride_qkv;   // floats from one position to the next
  int64_t stride_out;   // likewise
  int64_t stride_sums;  // likewise
  float scale;          // of scores
  Precision precision;  // of factors

  int64_t packed_rows() const { return keys * width; }
  int64_t packed_columns() const { return positions * columns; }
  int64_t block_scores() const { return kBlock * keys; }
  int64_t block_rows() const { return kBlock * columns; }
};

HeadSizes SizesOf(const AttentionShape& shape, ConstMatrix qkv, Precision precision) {
  HeadSizes sizes = {};
  sizes.positions = shape.positions;
  sizes.stride_qkv = qkv.cols;
  sizes.stride_out = qkv.cols / 3;
  sizes.stride_sums = shape.heads;
  sizes.width = sizes.stride_out / shape.heads;
  sizes.keys = RoundUpToPanel(sizes.positions);
  sizes.columns = RoundUpToPanel(sizes.width);
  sizes.scale = 1.0f / std::sqrt(static_cast<float>(sizes.width));
  sizes.precision = precision;
  return sizes;
}

// Makes factors of the row's numbers.
SANGAM_CPU_INLINE void RoundRow(Precision precision, float* row, int64_t size) {
  switch (precision) {
    case Precision::kFp32:
      return;
    case Precision::kBf16:
      for (int64_t i = 0; i < size; ++i) row[i] = RoundedToBf16(row[i]);
      return;
    case Precision::kTf32:
      for (int64_t i = 0; i < size; ++i) row[i] = RoundedToTf32(row[i]);
      return;
  }
}

// products[t - begin, u] = rows[t] . packed[u] for t in [begin, end) and u up to the end of t's
// panel at least; packed: the other rows by PackRows.
SANGAM_CPU_INLINE void MultiplyByRows(const HeadSizes& sizes, const float* rows, int64_t stride,
                                      const float* packed, int64_t begin, int64_t end,
                                      float* products) {
  for (int64_t first = 0; first < end; first += kPanel) {
    const float* panel = packed + first * sizes.width;
    int64_t t = std::max(begin, first);
    for (; t + kTileRows <= end; t += kTileRows) {
      MultiplyTile<kTileRows>(rows + t * stride, stride, 1, panel, sizes.width, false,
                              products + (t - begin) * sizes.keys + first, sizes.keys);
    }
    for (; t < end; ++t) {
      MultiplyTile<1>(rows + t * stride, stride, 1, panel, sizes.width, false,
                      products + (t - begin) * sizes.keys + first, sizes.keys);
    }
  }
}

// sums[t - begin, :] = sum over u <= t of weights[t - begin, u] rows[u, :] for t in [begin, end);
// packed: rows by PackColumns.
SANGAM_CPU_INLINE void SumOverKeys(const HeadSizes& sizes, const float* weights,
                                   const float* packed, int64_t begin, int64_t end, float* sums) {
  for (int64_t first = 0; first < sizes.columns; first += kPanel) {
    const float* panel = packed + first * sizes.positions;
    int64_t t = begin;
    for (; t + kTileRows <= end; t += kTileRows) {
      const float* w = weights + (t - begin) * sizes.keys;
      float* sum = sums + (t - begin) * sizes.columns + first;
      // What all rows of the tile see, then the corner.
      MultiplyTile<kTileRows>(w, sizes.keys, 1, panel, t + 1, false, sum, sizes.columns);
      for (int r = 1; r < kTileRows; ++r) {
        MultiplyTile<1>(w + r * sizes.keys + t + 1, 0, 1, panel + (t + 1) * kPanel, r, true,
                        sum + r * sizes.columns, 0);
      }
    }
    for (; t < end; ++t) {
      MultiplyTile<1>(weights + (t - begin) * sizes.keys, 0, 1, panel, t + 1, false,
                      sums + (t - begin) * sizes.columns + first, 0);
    }
  }
}

// sums[u, :] += sum over t in [begin, end), t >= u, of weights[t - begin, u] rows[t, :]; packed:
// rows by PackColumns; sums in panels likewise.
SANGAM_CPU_INLINE void AddOverQueries(const HeadSizes& sizes, const float* weights,
                                      const float* packed, int64_t begin, int64_t end,
                                      float* sums) {
  for (int64_t first = 0; first < sizes.columns; first += kPanel) {
    const float* panel = packed + first * sizes.positions;
    float* panel_sums = sums + first * sizes.positions;
    for (int64_t u = 0; u < end; u += kTileRows) {
      // From here on all keys of the tile are seen; before it, the corner.
      const int64_t common = std::max(begin, u + kTileRows - 1);
      for (int64_t row = u; row < std::min(u + kTileRows, end); ++row) {
        const int64_t from = std::max(begin, row);
        const int64_t steps = std::min(common, end) - from;
        if (steps <= 0) continue;
        MultiplyTile<1>(weights + (from - begin) * sizes.keys + row, 0, sizes.keys,
                        panel + from * kPanel, steps, true, panel_sums + row * kPanel, 0);
      }
      if (common >= end) continue;
      MultiplyTile<kTileRows>(weights + (common - begin) * sizes.keys + u, 1, sizes.keys,
                              panel + common * kPanel, end - common, true, panel_sums + u * kPanel,
                              kPanel);
    }
  }
}

// Inverse of PackColumns.
SANGAM_CPU_INLINE void UnpackColumns(const float* panels, int64_t rows, int64_t cols,
                                     int64_t stride, float* out) {
  for (int64_t first = 0; first < cols; first += kPanel) {
    const int64_t count = std::min(kPanel, cols - first);
    for (int64_t r = 0; r < rows; ++r, panels += kPanel) {
      for (int64_t j = 0; j < count; ++j) out[r * stride + first + j] = panels[j];
    }
  }
}

}  // namespace

struct ForwardHead {
  const float* q;  // [positions, stride_qkv], likewise k and v
  const float* k;
  const float* v;
  float* out;
  float* log_sum;
};

SANGAM_CPU_KERNEL
void AttendForward(const HeadSizes& sizes, const ForwardHead& head, float* scratch) {
  float* const keys = scratch;
  float* const values = keys + sizes.packed_rows();
  float* const scores = values + sizes.packed_columns();
  float* const sums = scores + sizes.block_scores();
  PackRows(head.k, sizes.stride_qkv, sizes.positions, sizes.width, keys);
  PackColumns(head.v, sizes.stride_qkv, sizes.positions, sizes.width, values);
  for (int64_t begin = 0; begin < sizes.positions; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, sizes.positions);
    MultiplyByRows(sizes, head.q, sizes.stride_qkv, keys, begin, end, scores);
    float inverse_sums[kBlock];
    for (int64_t t = begin; t < end; ++t) {
      float* const s = scores + (t - begin) * sizes.keys;
      for (int64_t u = 0; u <= t; ++u) s[u] *= sizes.scale;
      const float largest = Largest(s, t + 1);
      const float sum = SumOfExp(s, t + 1, largest, s);
      RoundRow(sizes.precision, s, t + 1);
      inverse_sums[t - begin] = 1.0f / sum;
      head.log_sum[t * sizes.stride_sums] =
          static_cast<float>(double{largest} + cpu_functions::WideLog(double{sum}));
    }
    SumOverKeys(sizes, scores, values, begin, end, sums);
    for (int64_t t = begin; t < end; ++t) {
      const float* const sum = sums + (t - begin) * sizes.columns;
      float* const y = head.out + t * sizes.stride_out;
      const float inverse_sum = inverse_sums[t - begin];
      for (int64_t j = 0; j < sizes.width; ++j) y[j] = sum[j] * inverse_sum;
    }
  }
}

struct BackwardHead {
  const float* q;  // [positions, stride_qkv], likewise k, v and their gradients
  const float* k;
  const float* v;
  const float* out;
  const float* log_sum;
  const float* dout;
  const float* dout_factors;
  float* dq;
  float* dk;
  float* dv;
};

SANGAM_CPU_KERNEL
void AttendBackward(const HeadSizes& sizes, const BackwardHead& head, float* scratch) {
  float* const key_rows = scratch;
  float* const value_rows = key_rows + sizes.packed_rows();
  float* const keys = value_rows + sizes.packed_rows();
  float* const queries = keys + sizes.packed_columns();
  float* const douts = queries + sizes.packed_columns();
  float* const dkeys = douts + sizes.packed_columns();
  float* const dvalues = dkeys + sizes.packed_columns();
  float* const weights = dvalues + sizes.packed_columns();
  float* const dscores = weights + sizes.block_scores();
  float* const dqueries = dscores + sizes.block_scores();
  PackRows(head.k, sizes.stride_qkv, sizes.positions, sizes.width, key_rows);
  PackRows(head.v, sizes.stride_qkv, sizes.positions, sizes.width, value_rows);
  PackColumns(head.k, sizes.stride_qkv, sizes.positions, sizes.width, keys);
  PackColumns(head.q, sizes.stride_qkv, sizes.positions, sizes.width, queries);
  PackColumns(head.dout_factors, sizes.stride_out, sizes.positions, sizes.width, douts);
  std::fill_n(dkeys, 2 * sizes.packed_columns(), 0.0f);
  for (int64_t begin = 0; begin < sizes.positions; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, sizes.positions);
    MultiplyByRows(sizes, head.q, sizes.stride_qkv, key_rows, begin, end, weights);
    MultiplyByRows(sizes, head.dout_factors, sizes.stride_out, value_rows, begin, end, dscores);
    for (int64_t t = begin; t < end; ++t) {
      float* const w = weights + (t - begin) * sizes.keys;
      float* const ds = dscores + (t - begin) * sizes.keys;
      const float* const y = head.out + t * sizes.stride_out;
      const float* const dy = head.dout + t * sizes.stride_out;
      const float common = SumInLanes(sizes.width, [=](int64_t j) { return y[j] * dy[j]; });
      const float log_sum = head.log_sum[t * sizes.stride_sums];
      for (int64_t u = 0; u <= t; ++u) {
        w[u] = cpu_functions::Exp(w[u] * sizes.scale - log_sum);
        ds[u] = (w[u] * (ds[u] - common)) * sizes.scale;
      }
      RoundRow(sizes.precision, w, t + 1);
      RoundRow(sizes.precision, ds, t + 1);
    }
    AddOverQueries(sizes, weights, douts, begin, end, dvalues);
    AddOverQueries(sizes, dscores, queries, begin, end, dkeys);
    SumOverKeys(sizes, dscores, keys, begin, end, dqueries);
    for (int64_t t = begin; t < end; ++t) {
      std::copy_n(dqueries + (t - begin) * sizes.columns, sizes.width,
                  head.dq + t * sizes.stride_qkv);
    }
  }
  UnpackColumns(dkeys, sizes.positions, sizes.width, sizes.stride_qkv, head.dk);
  UnpackColumns(dvalues, sizes.positions, sizes.width, sizes.stride_qkv, head.dv);
}

}  // namespace cpu_kernels

absl::Status CpuAttention::Reserve(int64_t size) {
  if (static_cast<int64_t>(scratch_.size()) >= size) return absl::OkStatus();
  scratch_ = FloatBuffer();  // frees first
  ASSIGN_OR_RETURN(scratch_, FloatBuffer::Allocate(static_cast<size_t>(size)));
  return absl::OkStatus();
}

absl::Status CpuAttention::MakeFactors(ConstMatrix qkv, const float* output_gradient,
                                       const float** qkv_factors, const float** gradient_factors) {
  *qkv_factors = qkv.data;
  *gradient_factors = output_gradient;
  if (precision_ == Precision::kFp32) return absl::OkStatus();
  const int64_t size = qkv.size() + (output_gradient == nullptr ? 0 : qkv.size() / 3);
  if (static_cast<int64_t>(factors_.size()) < size) {
    factors_ = FloatBuffer();  // frees first
    ASSIGN_OR_RETURN(factors_, FloatBuffer::Allocate(static_cast<size_t>(size)));
  }
  const auto round =
      precision_ == Precision::kTf32 ? cpu_kernels::RoundToTf32 : cpu_kernels::RoundToBf16;
  round(qkv.data, qkv.size(), factors_.data());
  *qkv_factors = factors_.data();
  if (output_gradient == nullptr) return absl::OkStatus();
  round(output_gradient, qkv.size() / 3, factors_.data() + qkv.size());
  *gradient_factors = factors_.data() + qkv.size();
  return absl::OkStatus();
}

absl::Status CpuAttention::Forward(const AttentionShape& shape, ConstMatrix qkv, float* out,
                                   float* log_sum) {
  const cpu_kernels::HeadSizes sizes = cpu_kernels::SizesOf(shape, qkv, precision_);
  RETURN_IF_ERROR(Reserve(sizes.packed_rows() + sizes.packed_columns() + sizes.block_scores() +
                          sizes.block_rows()));
  const float* factors = nullptr;
  const float* unused = nullptr;
  RETURN_IF_ERROR(MakeFactors(qkv, nullptr, &factors, &unused));
  for (int64_t row = 0; row < qkv.rows; row += shape.positions) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const float* q = factors + row * sizes.stride_qkv + h * sizes.width;
      cpu_kernels::AttendForward(
          sizes,
          {q, q + sizes.stride_out, q + 2 * sizes.stride_out,
           out + row * sizes.stride_out + h * sizes.width, log_sum + row * sizes.stride_sums + h},
          scratch_.data());
    }
  }
  return absl::OkStatus();
}

absl::Status CpuAttention::Backward(const AttentionShape& shape, ConstMatrix qkv, const float* out,
                                    const float* log_sum, const float* output_gradient,
                                    float* qkv_gradient) {
  const cpu_kernels::HeadSizes sizes = cpu_kernels::SizesOf(shape, qkv, precision_);
  RETURN_IF_ERROR(Reserve(2 * sizes.packed_rows() + 5 * sizes.packed_columns() +
                          2 * sizes.block_scores() + sizes.block_rows()));
  const float* factors = nullptr;
  const float* gradient_factors = nullptr;
  RETURN_IF_ERROR(MakeFactors(qkv, output_gradient, &factors, &gradient_factors));
  for (int64_t row = 0; row < qkv.rows; row += shape.positions) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const int64_t at_qkv = row * sizes.stride_qkv + h * sizes.width;
      const int64_t at_out = row * sizes.stride_out + h * sizes.width;
      const float* q = factors + at_qkv;
      float* dq = qkv_gradient + at_qkv;
      cpu_kernels::AttendBackward(
          sizes,
          {q, q + sizes.stride_out, q + 2 * sizes.stride_out, out + at_out,
           log_sum + row * sizes.stride_sums + h, output_gradient + at_out,
           gradient_factors + at_out, dq, dq + sizes.stride_out, dq + 2 * sizes.stride_out},
          scratch_.data());
    }
  }
  return absl::OkStatus();
}

}  // namespace sangam
