#include "worker/backend/cpu/ordered_gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define SANGAM_AVX2 __attribute__((target("avx2,fma")))
#endif

namespace sangam {

#if defined(__x86_64__)
namespace {

// A tile of c: 12 vectors of sums, which leaves 4 of the 16 registers for the factors.
constexpr int64_t kTileRows = 6;
constexpr int64_t kTileCols = 16;
constexpr int64_t kTileSize = kTileRows * kTileCols;
// Of the tall factor so much is used again and again before the next part: a quarter of a
// second-level cache.
constexpr int64_t kBlockElements = 32 * 1024;
// Whoever wants to know how far a product is hears of it after so many elements of c: often enough
// beside what is done with them, seldom enough that the wide factor is not read too often.
constexpr int64_t kToldElements = 64 * 1024;

// Element (r, x) at data[r * row + x * step]; x is the inner index.
struct Factor {
  const float* data;
  int64_t row;
  int64_t step;
};

// Six rows of the tall factor, `step` floats from one inner index to the next.
struct TallRows {
  const float* row[kTileRows];
  int64_t step;
};

SANGAM_AVX2 inline void StoreRow(__m256 left, __m256 right, bool add, float* out) {
  if (add) {
    left = _mm256_add_ps(_mm256_loadu_ps(out), left);
    right = _mm256_add_ps(_mm256_loadu_ps(out + 8), right);
  }
  _mm256_storeu_ps(out, left);
  _mm256_storeu_ps(out + 8, right);
}

// The product of six rows and a packed panel, over `count` inner indices, in one run: to `out`, six
// rows `stride` apart, or added to what is there.
SANGAM_AVX2 void MultiplyRun(const TallRows& tall, int64_t first, int64_t count, const float* panel,
                             bool add, float* out, int64_t stride) {
  __m256 s00 = _mm256_setzero_ps(), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00;
  __m256 s30 = s00, s31 = s00, s40 = s00, s41 = s00, s50 = s00, s51 = s00;
  const int64_t step = tall.step;
  const float* const t0 = tall.row[0] + first * step;
  const float* const t1 = tall.row[1] + first * step;
  const float* const t2 = tall.row[2] + first * step;
  const float* const t3 = tall.row[3] + first * step;
  const float* const t4 = tall.row[4] + first * step;
  const float* const t5 = tall.row[5] + first * step;
  panel += first * kTileCols;
  int64_t at = 0;
  for (int64_t x = 0; x < count; ++x, at += step, panel += kTileCols) {
    const __m256 w0 = _mm256_load_ps(panel);
    const __m256 w1 = _mm256_load_ps(panel + 8);
    __m256 t = _mm256_broadcast_ss(t0 + at);
    s00 = _mm256_fmadd_ps(t, w0, s00);
    s01 = _mm256_fmadd_ps(t, w1, s01);
    t = _mm256_broadcast_ss(t1 + at);
    s10 = _mm256_fmadd_ps(t, w0, s10);
    s11 = _mm256_fmadd_ps(t, w1, s11);
    t = _mm256_broadcast_ss(t2 + at);
    s20 = _mm256_fmadd_ps(t, w0, s20);
    s21 = _mm256_fmadd_ps(t, w1, s21);
    t = _mm256_broadcast_ss(t3 + at);
    s30 = _mm256_fmadd_ps(t, w0, s30);
    s31 = _mm256_fmadd_ps(t, w1, s31);
    t = _mm256_broadcast_ss(t4 + at);
    s40 = _mm256_fmadd_ps(t, w0, s40);
    s41 = _mm256_fmadd_ps(t, w1, s41);
    t = _mm256_broadcast_ss(t5 + at);
    s50 = _mm256_fmadd_ps(t, w0, s50);
    s51 = _mm256_fmadd_ps(t, w1, s51);
  }
  StoreRow(s00, s01, add, out);
  StoreRow(s10, s11, add, out + stride);
  StoreRow(s20, s21, add, out + 2 * stride);
  StoreRow(s30, s31, add, out + 3 * stride);
  StoreRow(s40, s41, add, out + 4 * stride);
  StoreRow(s50, s51, add, out + 5 * stride);
}

// to += from, for two tiles.
SANGAM_AVX2 void AddTile(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  for (int64_t r = 0; r < kTileRows; ++r) {
    for (int64_t c = 0; c < kTileCols; c += 8) {
      float* const at = to + r * to_stride + c;
      _mm256_storeu_ps(
          at, _mm256_add_ps(_mm256_loadu_ps(at), _mm256_loadu_ps(from + r * from_stride + c)));
    }
  }
}

// The product over [first, end), within one stretch, in runs.
void MultiplyStretch(const TallRows& tall, int64_t first, int64_t end, const float* panel, bool add,
                     float* out, int64_t stride) {
  if (!add || end - first <= OrderedGemm::kRun) {
    for (int64_t x = first; x < end; x += OrderedGemm::kRun) {
      MultiplyRun(tall, x, std::min(OrderedGemm::kRun, end - x), panel, add || x > first, out,
                  stride);
    }
    return;
  }
  // The runs are added up before they meet what is there.
  alignas(64) float sum[kTileSize];
  MultiplyStretch(tall, first, end, panel, false, sum, kTileCols);
  AddTile(sum, kTileCols, out, stride);
}

void MultiplyTile(const TallRows& tall, int64_t first, int64_t end, const float* panel, bool add,
                  float* out, int64_t stride) {
  for (int64_t x = first; x < end; x += OrderedGemm::kStretch) {
    MultiplyStretch(tall, x, std::min(end, x + OrderedGemm::kStretch), panel, add || x > first, out,
                    stride);
  }
}

// Rows in[0..8) of 8 floats, `stride` apart, as columns.
SANGAM_AVX2 void Transpose8(const float* in, int64_t stride, float* out) {
  __m256 pairs[8];
  for (int i = 0; i < 4; ++i) {
    const __m256 even = _mm256_loadu_ps(in + 2 * i * stride);
    const __m256 odd = _mm256_loadu_ps(in + (2 * i + 1) * stride);
    pairs[2 * i] = _mm256_unpacklo_ps(even, odd);
    pairs[2 * i + 1] = _mm256_unpackhi_ps(even, odd);
  }
  __m256 fours[8];
  for (int half = 0; half < 2; ++half) {
    const __m256* const p = pairs + 4 * half;
    fours[4 * half] = _mm256_shuffle_ps(p[0], p[2], 0x44);
    fours[4 * half + 1] = _mm256_shuffle_ps(p[0], p[2], 0xEE);
    fours[4 * half + 2] = _mm256_shuffle_ps(p[1], p[3], 0x44);
    fours[4 * half + 3] = _mm256_shuffle_ps(p[1], p[3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_store_ps(out + i * kTileCols, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
    _mm256_store_ps(out + (i + 4) * kTileCols,
                    _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
  }
}

// Lays 16 rows of the wide factor out so that they are read from front to back: inner index by
// inner index, missing rows as 0.
SANGAM_AVX2 void PackPanel(const Factor& wide, int64_t rows, int64_t inner, float* out) {
  int64_t x = 0;
  if (rows == kTileCols && wide.row == 1) {
    for (; x < inner; ++x) {
      const float* const from = wide.data + x * wide.step;
      _mm256_store_ps(out + x * kTileCols, _mm256_loadu_ps(from));
      _mm256_store_ps(out + x * kTileCols + 8, _mm256_loadu_ps(from + 8));
    }
    return;
  }
  if (rows == kTileCols && wide.step == 1) {
    for (; x + 8 <= inner; x += 8) {
      Transpose8(wide.data + x, wide.row, out + x * kTileCols);
      Transpose8(wide.data + 8 * wide.row + x, wide.row, out + x * kTileCols + 8);
    }
  }
  for (; x < inner; ++x) {
    float* const to = out + x * kTileCols;
    for (int64_t r = 0; r < rows; ++r) to[r] = wide.data[r * wide.row + x * wide.step];
    std::fill(to + rows, to + kTileCols, 0.0f);
  }
}

int64_t PanelsOf(int64_t rows) { return (rows + kTileCols - 1) / kTileCols; }

void PackWide(const Factor& wide, int64_t rows, int64_t inner, float* out) {
  for (int64_t r = 0; r < rows; r += kTileCols, out += inner * kTileCols) {
    PackPanel({wide.data + r * wide.row, wide.row, wide.step}, std::min(kTileCols, rows - r), inner,
              out);
  }
}

// Where six rows of the tall factor from `first` on are read; rows that it lacks are its last one,
// and what they give is dropped.
TallRows RowsAt(const Factor& tall, int64_t rows, int64_t first) {
  TallRows found;
  for (int64_t r = 0; r < kTileRows; ++r) {
    found.row[r] = tall.data + std::min(first + r, rows - 1) * tall.row;
  }
  found.step = tall.step;
  return found;
}

// Groups of six rows, inner index by inner index: for a tall factor whose rows are columns in
// memory.
void PackTall(const Factor& tall, int64_t rows, int64_t inner, float* out) {
  for (int64_t first = 0; first < rows; first += kTileRows) {
    const int64_t count = std::min(kTileRows, rows - first);
    for (int64_t x = 0; x < inner; ++x, out += kTileRows) {
      const float* const from = tall.data + first * tall.row + x * tall.step;
      for (int64_t r = 0; r < count; ++r) out[r] = from[r * tall.row];
      std::fill(out + count, out + kTileRows, 0.0f);
    }
  }
}

TallRows PackedRowsAt(const float* packed, int64_t inner, int64_t first) {
  TallRows found;
  for (int64_t r = 0; r < kTileRows; ++r) found.row[r] = packed + first * inner + r;
  found.step = kTileRows;
  return found;
}

// Where a tile goes: c itself when it is whole and lies there in rows, else a copy.
class TileTarget {
 public:
  // `swapped`: the tall factor's rows are the columns of c.
  TileTarget(Matrix c, bool swapped, bool add) : c_(c), swapped_(swapped), add_(add) {}

  // The tile whose first tall row and first wide row are these.
  void Begin(int64_t tall, int64_t wide) {
    tall_ = tall;
    wide_ = wide;
    rows_ = std::min(kTileRows, (swapped_ ? c_.cols : c_.rows) - tall);
    cols_ = std::min(kTileCols, (swapped_ ? c_.rows : c_.cols) - wide);
    direct_ = !swapped_ && rows_ == kTileRows && cols_ == kTileCols;
    if (!direct_ && add_) Exchange([](float* own, float* theirs) { *own = *theirs; });
  }
  float* data() { return direct_ ? c_.data + tall_ * c_.cols + wide_ : copy_; }
  int64_t stride() const { return direct_ ? c_.cols : kTileCols; }
  void End() {
    if (!direct_) Exchange([](float* own, float* theirs) { *theirs = *own; });
  }

 private:
  template <typename Move>
  void Exchange(Move move) {
    if (swapped_) {
      for (int64_t w = 0; w < cols_; ++w) {
        float* const to = c_.data + (wide_ + w) * c_.cols + tall_;
        for (int64_t t = 0; t < rows_; ++t) move(copy_ + t * kTileCols + w, to + t);
      }
      return;
    }
    for (int64_t t = 0; t < rows_; ++t) {
      float* const to = c_.data + (tall_ + t) * c_.cols + wide_;
      for (int64_t w = 0; w < cols_; ++w) move(copy_ + t * kTileCols + w, to + w);
    }
  }

  const Matrix c_;
  const bool swapped_;
  const bool add_;
  int64_t tall_ = 0;
  int64_t wide_ = 0;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  bool direct_ = false;
  alignas(64) float copy_[kTileSize] = {};
};

// Calls tile(first tall row, first wide row) for all tiles, in an order that keeps what is used
// again near; `wanted` with the number of tall rows that are read so far, and `done` with that of
// those that are through.
template <typename Tile>
absl::Status ForTiles(int64_t tall, int64_t wide, int64_t inner, const RowsWanted* wanted,
                      const RowsDone* done, Tile tile) {
  int64_t block =
      std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, inner * kTileRows)) * kTileRows;
  if (done != nullptr) {
    const int64_t told = std::max<int64_t>(1, kToldElements / std::max<int64_t>(1, wide));
    block = std::min(block, (told + kTileRows - 1) / kTileRows * kTileRows);
  }
  for (int64_t begin = 0; begin < tall; begin += block) {
    const int64_t end = std::min(tall, begin + block);
    if (wanted != nullptr) RETURN_IF_ERROR((*wanted)(end));
    for (int64_t w = 0; w < wide; w += kTileCols) {
      for (int64_t t = begin; t < end; t += kTileRows) tile(t, w);
    }
    if (done != nullptr) RETURN_IF_ERROR((*done)(end));
  }
  return absl::OkStatus();
}

}  // namespace

bool OrderedGemm::Available() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

absl::Status OrderedGemm::Reserve(int64_t wide, int64_t tall) {
  const auto reserve = [](int64_t size, FloatBuffer* buffer) -> absl::Status {
    if (static_cast<int64_t>(buffer->size()) >= size) return absl::OkStatus();
    *buffer = FloatBuffer();  // frees first
    ASSIGN_OR_RETURN(*buffer, FloatBuffer::Allocate(static_cast<size_t>(size)));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(reserve(wide, &wide_));
  return reserve(tall, &tall_);
}

absl::Status OrderedGemm::Multiply(const GemmArguments& arguments) {
  const int64_t m = arguments.c.rows;
  const int64_t n = arguments.c.cols;
  const int64_t k = arguments.transpose_a ? arguments.a.rows : arguments.a.cols;
  if (k == 0) {
    if (arguments.rows_wanted != nullptr)
      RETURN_IF_ERROR((*arguments.rows_wanted)(arguments.b.rows));
    if (!arguments.accumulate) std::fill_n(arguments.c.data, arguments.c.size(), 0.0f);
    return absl::OkStatus();
  }
  const Factor a =
      arguments.transpose_a ? Factor{arguments.a.data, 1, m} : Factor{arguments.a.data, k, 1};
  const Factor b =
      arguments.transpose_b ? Factor{arguments.b.data, k, 1} : Factor{arguments.b.data, 1, n};
  // One factor is laid out in panels; the other one is read where it lies, when its rows are rows
  // in memory. Which is which makes no difference to any element.
  const int64_t copied = n * k + (a.step == 1 ? 0 : m * k);
  const int64_t copied_swapped = m * k + (b.step == 1 ? 0 : n * k) + 2 * m * n;
  const bool swapped = copied_swapped < copied;
  const Factor wide = swapped ? a : b;
  const Factor tall = swapped ? b : a;
  const int64_t wide_rows = swapped ? m : n;
  const int64_t tall_rows = swapped ? n : m;
  const bool packs_tall = tall.step != 1;
  const int64_t groups = (tall_rows + kTileRows - 1) / kTileRows;
  RETURN_IF_ERROR(
      Reserve(PanelsOf(wide_rows) * kTileCols * k, packs_tall ? groups * kTileRows * k : 0));
  // Only b that is read where it lies, row by row of it, can be read in parts.
  const RowsWanted* wanted = arguments.rows_wanted;
  if (wanted != nullptr && !(swapped && arguments.transpose_b)) {
    RETURN_IF_ERROR((*std::exchange(wanted, nullptr))(arguments.b.rows));
  }
  PackWide(wide, wide_rows, k, wide_.data());
  if (packs_tall) PackTall(tall, tall_rows, k, tall_.data());
  TileTarget target(arguments.c, swapped, arguments.accumulate);
  // Where the tall factor's rows are not those of c, only the end tells that any of them is final.
  const RowsDone* const done = swapped ? nullptr : arguments.rows_done;
  return ForTiles(tall_rows, wide_rows, k, wanted, done, [&](int64_t t, int64_t w) {
    const TallRows rows =
        packs_tall ? PackedRowsAt(tall_.data(), k, t) : RowsAt(tall, tall_rows, t);
    target.Begin(t, w);
    MultiplyTile(rows, 0, k, wide_.data() + w * k, arguments.accumulate, target.data(),
                 target.stride());
    target.End();
  });
}

absl::Status OrderedGemm::MultiplyTerms(ConstMatrix a, ConstMatrix b,
                                        const std::vector<RowTerm>& terms, Matrix c,
                                        const RowsDone* rows_done) {
  const int64_t k = a.rows;
  const int64_t groups = (c.rows + kTileRows - 1) / kTileRows;
  RETURN_IF_ERROR(Reserve(PanelsOf(c.cols) * kTileCols * k, groups * kTileRows * k));
  PackWide({b.data, 1, c.cols}, c.cols, k, wide_.data());
  PackTall({a.data, 1, c.rows}, c.rows, k, tall_.data());
  TileTarget target(c, false, false);
  // Sums that wait for the one to their right; the first one waits in the target.
  alignas(64) float waiting[kMaxRowTermDepth][kTileSize];
  return ForTiles(c.rows, c.cols, k, nullptr, rows_done, [&](int64_t t, int64_t w) {
    const TallRows rows = PackedRowsAt(tall_.data(), k, t);
    const float* const panel = wide_.data() + w * k;
    target.Begin(t, w);
    const auto place = [&](uint32_t depth) { return depth == 0 ? target.data() : waiting[depth]; };
    const auto stride = [&](uint32_t depth) { return depth == 0 ? target.stride() : kTileCols; };
    uint32_t depth = 0;  // sums that wait
    int64_t first = 0;
    for (const RowTerm& term : terms) {
      // The term's first addition is made as it is stored.
      uint32_t additions = term.additions;
      const bool add = additions > 0 && term.rows <= kStretch;
      if (add) --additions;
      const uint32_t to = add ? depth - 1 : depth++;
      if (term.rows <= kRun) {
        MultiplyRun(rows, first, term.rows, panel, add, place(to), stride(to));
      } else {
        MultiplyTile(rows, first, first + term.rows, panel, add, place(to), stride(to));
      }
      first += term.rows;
      for (; additions > 0; --additions) {
        --depth;
        AddTile(place(depth), stride(depth), place(depth - 1), stride(depth - 1));
      }
    }
    target.End();
  });
}

#else  // no such machine

bool OrderedGemm::Available() { return false; }

absl::Status OrderedGemm::Reserve(int64_t, int64_t) { return absl::OkStatus(); }

absl::Status OrderedGemm::Multiply(const GemmArguments&) {
  return absl::InternalError("ordered products need AVX2");
}

absl::Status OrderedGemm::MultiplyTerms(ConstMatrix, ConstMatrix, const std::vector<RowTerm>&,
                                        Matrix, const RowsDone*) {
  return absl::InternalError("ordered products need AVX2");
}

#endif

}  // namespace sangam
