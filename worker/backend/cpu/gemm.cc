#include "worker/backend/cpu/gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "oneapi/dnnl/dnnl.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/bf16.h"
#include "worker/backend/cpu/matmul.h"
#include "worker/backend/cpu/tf32.h"
#include "worker/backend/precision.h"
#include "worker/backend/views.h"

// Of the OpenMP runtime below oneDNN (OpenMP 5.1, section 3.2.1). Declared here because Clang finds
// no <omp.h> where only GCC's runtime is installed.
extern "C" void omp_set_num_threads(int num_threads);

namespace sangam {
namespace {

// A panel holds so many steps of the inner dimension: few enough to stay in the second-level cache
// for usual widths, enough that visiting c once per panel costs little.
constexpr int64_t kPanelSteps = 256;
// Added to the rows of a copy: one cache line, so that rows start in different sets.
constexpr int64_t kPanelGap = 16;
// Below so many rows of c a copy costs more than it gains.
constexpr int64_t kMinRowsForPanels = 16;
// Rows that lie a multiple of this apart fall into the same sets, in floats.
constexpr int64_t kAliasingStride = 512;
constexpr int64_t kAliasingStrideTransposed = 256;

// oneDNN would run a team of threads. The number is a property of each thread in OpenMP.
void UseOneThread() {
  thread_local bool done = false;
  if (done) return;
  omp_set_num_threads(1);
  done = true;
}

absl::Status ToStatus(dnnl_status_t status) {
  if (status == dnnl_success) return absl::OkStatus();
  if (status == dnnl_out_of_memory) {
    return absl::ResourceExhaustedError("oneDNN: no memory for a matrix product");
  }
  return absl::InternalError(
      absl::StrCat("oneDNN: matrix product failed with status ", static_cast<int>(status)));
}

// One call of sgemm, row-major.
struct Call {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  const float* a;
  int64_t stride_a;  // between rows as stored, in floats; likewise below
  const float* b;
  int64_t stride_b;
  float* c;
  bool accumulate;
};

absl::Status Run(const Call& call) {
  return ToStatus(dnnl_sgemm(call.transpose_a ? 'T' : 'N', call.transpose_b ? 'T' : 'N', call.m,
                             call.n, call.k, 1.0f, call.a, call.stride_a, call.b, call.stride_b,
                             call.accumulate ? 1.0f : 0.0f, call.c, call.n));
}

// Copies `rows` rows to `out`, `stride` floats apart.
void CopyRows(const float* in, int64_t rows, int64_t cols, int64_t stride, float* out) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(in + i * cols, cols, out + i * stride);
}

}  // namespace

bool CpuMultipliesBf16() {
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  return isa == dnnl_cpu_isa_avx512_core_bf16 || isa == dnnl_cpu_isa_avx512_core_amx;
}

bool OneDnnUsesAvx2() {
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  return isa == dnnl_cpu_isa_avx2 || isa == dnnl_cpu_isa_avx2_vnni;
}

std::string OneDnnKernels() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
      return "SSE41";
    case dnnl_cpu_isa_avx:
      return "AVX";
    case dnnl_cpu_isa_avx2:
    case dnnl_cpu_isa_avx2_vnni:  // has more for integers alone
      return "AVX2";
    case dnnl_cpu_isa_avx512_mic:
    case dnnl_cpu_isa_avx512_mic_4ops:
      return "AVX512 MIC";
    case dnnl_cpu_isa_avx512_core:
    case dnnl_cpu_isa_avx512_core_vnni:
    case dnnl_cpu_isa_avx512_core_bf16:  // a worker says by itself whether it has these
      return "AVX512";
    case dnnl_cpu_isa_avx512_core_amx:
      return "AVX512 AMX";
    default:
      return "plain";
  }
}

CpuGemm::CpuGemm(Precision precision)
    : precision_(precision), copy_aliasing_panels_(OneDnnUsesAvx2()) {}

absl::Status CpuGemm::Multiply(const GemmArguments& arguments) {
  UseOneThread();
  const int64_t k = arguments.transpose_a ? arguments.a.rows : arguments.a.cols;
  if (precision_ == Precision::kFp32 || k == 0) return MultiplyFloats(arguments);
  const bool packs = precision_ == Precision::kBf16 && CpuMultipliesBf16();
  return packs ? MultiplyPacked(arguments) : MultiplyRounded(arguments);
}

absl::Status CpuGemm::ReserveFactors(int64_t size) {
  if (static_cast<int64_t>(factors_.size()) >= size) return absl::OkStatus();
  factors_ = FloatBuffer();  // frees first
  ASSIGN_OR_RETURN(factors_, FloatBuffer::Allocate(static_cast<size_t>(size)));
  return absl::OkStatus();
}

absl::Status CpuGemm::MultiplyRounded(const GemmArguments& arguments) {
  RETURN_IF_ERROR(ReserveFactors(arguments.a.size() + arguments.b.size()));
  float* const a = factors_.data();
  float* const b = a + arguments.a.size();
  const auto round =
      precision_ == Precision::kTf32 ? cpu_kernels::RoundToTf32 : cpu_kernels::RoundToBf16;
  round(arguments.a.data, arguments.a.size(), a);
  round(arguments.b.data, arguments.b.size(), b);
  GemmArguments rounded = arguments;
  rounded.a.data = a;
  rounded.b.data = b;
  return MultiplyFloats(rounded);
}

absl::Status CpuGemm::MultiplyPacked(const GemmArguments& arguments) {
  if (matmul_ == nullptr) {
    ASSIGN_OR_RETURN(matmul_, CpuMatmul::Create(FactorFormat::kBf16));
  }
  // b begins at a cache line.
  constexpr int64_t kLine = 32;
  const int64_t size_a = (arguments.a.size() + kLine - 1) / kLine * kLine;
  RETURN_IF_ERROR(ReserveFactors((size_a + arguments.b.size() + 1) / 2));
  auto* const a = reinterpret_cast<uint16_t*>(factors_.data());
  uint16_t* const b = a + size_a;
  cpu_kernels::PackBf16(arguments.a.data, arguments.a.size(), a);
  cpu_kernels::PackBf16(arguments.b.data, arguments.b.size(), b);
  const int64_t k = arguments.transpose_a ? arguments.a.rows : arguments.a.cols;
  return matmul_->Multiply({arguments.c.rows, arguments.c.cols, k, arguments.transpose_a,
                            arguments.transpose_b, a, b, arguments.c.data, arguments.accumulate});
}

absl::Status CpuGemm::MultiplyFloats(const GemmArguments& arguments) {
  const int64_t m = arguments.c.rows;
  const int64_t n = arguments.c.cols;
  const int64_t k = arguments.transpose_a ? arguments.a.rows : arguments.a.cols;
  if (k == 0) {
    if (!arguments.accumulate) std::fill_n(arguments.c.data, arguments.c.size(), 0.0f);
    return absl::OkStatus();
  }
  const int64_t stride = arguments.transpose_a ? kAliasingStrideTransposed : kAliasingStride;
  const bool aliases = n % stride == 0 || (arguments.transpose_a && m % stride == 0);
  if (copy_aliasing_panels_ && !arguments.transpose_b && aliases && m >= kMinRowsForPanels) {
    return MultiplyInPanels(arguments, m, n, k);
  }
  return Run({arguments.transpose_a, arguments.transpose_b, m, n, k, arguments.a.data,
              arguments.a.cols, arguments.b.data, arguments.b.cols, arguments.c.data,
              arguments.accumulate});
}

absl::Status CpuGemm::MultiplyInPanels(const GemmArguments& arguments, int64_t m, int64_t n,
                                       int64_t k) {
  const int64_t steps = std::min(k, kPanelSteps);
  const int64_t stride_b = n + kPanelGap;
  const int64_t stride_a = arguments.transpose_a ? m + kPanelGap : k;
  const int64_t size_b = steps * stride_b;
  const int64_t size = size_b + (arguments.transpose_a ? steps * stride_a : 0);
  if (static_cast<int64_t>(scratch_.size()) < size) {
    scratch_ = FloatBuffer();  // frees first
    ASSIGN_OR_RETURN(scratch_, FloatBuffer::Allocate(static_cast<size_t>(size)));
  }
  float* const panel_b = scratch_.data();
  float* const panel_a = panel_b + size_b;
  for (int64_t first = 0; first < k; first += steps) {
    const int64_t count = std::min(steps, k - first);
    CopyRows(arguments.b.data + first * n, count, n, stride_b, panel_b);
    const float* a = arguments.a.data + first;
    if (arguments.transpose_a) {
      CopyRows(arguments.a.data + first * m, count, m, stride_a, panel_a);
      a = panel_a;
    }
    RETURN_IF_ERROR(Run({arguments.transpose_a, false, m, n, count, a, stride_a, panel_b, stride_b,
                         arguments.c.data, arguments.accumulate || first > 0}));
  }
  return absl::OkStatus();
}

}  // namespace sangam
