#include "worker/backend/backend.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

std::string ShapeText(ConstMatrix matrix) {
  return absl::StrCat("[", matrix.rows, ", ", matrix.cols, "]");
}

absl::Status CheckView(absl::string_view operation, absl::string_view name, ConstMatrix matrix) {
  if (matrix.rows < 0 || matrix.cols < 0) {
    return absl::InvalidArgumentError(absl::StrCat(operation, ": ", name, " is ", ShapeText(matrix),
                                                   ", expected sizes of at least 0"));
  }
  if (matrix.data == nullptr && matrix.size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation, ": ", name, " ", ShapeText(matrix), " has no memory"));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(absl::string_view operation, absl::string_view name, ConstMatrix matrix,
                        int64_t rows, int64_t cols) {
  if (matrix.rows != rows || matrix.cols != cols) {
    return absl::InvalidArgumentError(absl::StrCat(operation, ": ", name, " is ", ShapeText(matrix),
                                                   ", expected [", rows, ", ", cols, "]"));
  }
  return CheckView(operation, name, matrix);
}

bool Overlap(ConstMatrix x, ConstMatrix y) {
  if (x.size() == 0 || y.size() == 0) return false;
  // The order of unrelated pointers is defined by std::less alone.
  const std::less<> before;
  return before(x.data, y.data + y.size()) && before(y.data, x.data + x.size());
}

absl::Status CheckApart(absl::string_view operation, absl::string_view name, ConstMatrix in,
                        Matrix out) {
  if (!Overlap(in, out)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": ", name, " overlaps the matrix that is written"));
}

// An input of an elementwise operation that writes `out`: a valid view of the same shape, apart
// from `out` or the very same matrix.
absl::Status CheckElementwise(absl::string_view operation, absl::string_view name, ConstMatrix in,
                              Matrix out) {
  RETURN_IF_ERROR(CheckShape(operation, name, in, out.rows, out.cols));
  return in.data == out.data ? absl::OkStatus() : CheckApart(operation, name, in, out);
}

absl::Status CheckGemm(const GemmArguments& arguments) {
  const ConstMatrix& a = arguments.a;
  const ConstMatrix& b = arguments.b;
  RETURN_IF_ERROR(CheckView("gemm", "a", a));
  RETURN_IF_ERROR(CheckView("gemm", "b", b));
  const int64_t m = arguments.transpose_a ? a.cols : a.rows;
  const int64_t k = arguments.transpose_a ? a.rows : a.cols;
  const int64_t n = arguments.transpose_b ? b.rows : b.cols;
  const int64_t k_of_b = arguments.transpose_b ? b.cols : b.rows;
  if (k != k_of_b) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gemm: a is ", ShapeText(a), arguments.transpose_a ? " transposed" : "", " and b is ",
        ShapeText(b), arguments.transpose_b ? " transposed" : "", ", expected one inner size"));
  }
  RETURN_IF_ERROR(CheckShape("gemm", "c", arguments.c, m, n));
  RETURN_IF_ERROR(CheckApart("gemm", "a", a, arguments.c));
  RETURN_IF_ERROR(CheckApart("gemm", "b", b, arguments.c));
  if (arguments.epilogue == Epilogue::kNone) return absl::OkStatus();
  if (arguments.accumulate) {
    return absl::InvalidArgumentError("gemm: an epilogue and accumulate exclude each other");
  }
  RETURN_IF_ERROR(CheckShape("gemm", "bias", arguments.bias, 1, n));
  return CheckApart("gemm", "bias", arguments.bias, arguments.c);
}

absl::Status CheckHostPointer(absl::string_view operation, const void* host, ConstMatrix matrix) {
  if (host != nullptr || matrix.size() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": no host memory for ", ShapeText(matrix)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackendMemory>> Backend::Allocate(int64_t num_elements) {
  if (num_elements < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("allocate: found ", num_elements, " elements, expected at least 0"));
  }
  return DoAllocate(num_elements);
}

absl::Status Backend::Upload(const float* host, Matrix to) {
  RETURN_IF_ERROR(CheckView("upload", "to", to));
  RETURN_IF_ERROR(CheckHostPointer("upload", host, to));
  return to.size() == 0 ? absl::OkStatus() : DoUpload(host, to);
}

absl::Status Backend::Download(ConstMatrix from, float* host) {
  RETURN_IF_ERROR(CheckView("download", "from", from));
  RETURN_IF_ERROR(CheckHostPointer("download", host, from));
  return from.size() == 0 ? absl::OkStatus() : DoDownload(from, host);
}

absl::Status Backend::Fill(float value, Matrix out) {
  RETURN_IF_ERROR(CheckView("fill", "out", out));
  return out.size() == 0 ? absl::OkStatus() : DoFill(value, out);
}

absl::Status Backend::Gemm(const GemmArguments& arguments) {
  RETURN_IF_ERROR(CheckGemm(arguments));
  return arguments.c.size() == 0 ? absl::OkStatus() : DoGemm(arguments);
}

absl::Status Backend::SumRows(ConstMatrix in, bool accumulate, Matrix out) {
  RETURN_IF_ERROR(CheckView("sum rows", "in", in));
  RETURN_IF_ERROR(CheckShape("sum rows", "out", out, 1, in.cols));
  RETURN_IF_ERROR(CheckApart("sum rows", "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoSumRows(in, accumulate, out);
}

absl::Status Backend::Activate(Activation activation, ConstMatrix in, Matrix out) {
  RETURN_IF_ERROR(CheckView("activate", "out", out));
  RETURN_IF_ERROR(CheckElementwise("activate", "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoActivate(activation, in, out);
}

absl::Status Backend::ActivateBackward(Activation activation, ConstMatrix kept,
                                       ConstMatrix output_gradient, Matrix input_gradient) {
  constexpr absl::string_view kOperation = "activate backward";
  RETURN_IF_ERROR(CheckView(kOperation, "input_gradient", input_gradient));
  RETURN_IF_ERROR(CheckElementwise(kOperation, "kept", kept, input_gradient));
  RETURN_IF_ERROR(CheckElementwise(kOperation, "output_gradient", output_gradient, input_gradient));
  if (input_gradient.size() == 0) return absl::OkStatus();
  return DoActivateBackward(activation, kept, output_gradient, input_gradient);
}

absl::Status Backend::Dropout(const DropoutAddress& address, float rate, ConstMatrix in,
                              Matrix out) {
  RETURN_IF_ERROR(CheckView("dropout", "out", out));
  RETURN_IF_ERROR(CheckElementwise("dropout", "in", in, out));
  if (!(rate >= 0 && rate < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dropout: rate is ", rate, ", expected at least 0 and below 1"));
  }
  constexpr uint64_t kPositions = uint64_t{1} << 32;
  if (address.first_position > kPositions ||
      static_cast<uint64_t>(in.rows) > kPositions - address.first_position) {
    return absl::InvalidArgumentError(absl::StrCat("dropout: ", in.rows, " rows from position ",
                                                   address.first_position,
                                                   ", expected positions below 2^32"));
  }
  return out.size() == 0 ? absl::OkStatus() : DoDropout(address, rate, in, out);
}

absl::StatusOr<ClassificationSums> Backend::SoftmaxCrossEntropy(ConstMatrix logits,
                                                                const uint32_t* labels,
                                                                Matrix* gradient) {
  constexpr absl::string_view kOperation = "softmax cross-entropy";
  RETURN_IF_ERROR(CheckView(kOperation, "logits", logits));
  if (gradient != nullptr) {
    RETURN_IF_ERROR(CheckShape(kOperation, "gradient", *gradient, logits.rows, logits.cols));
    RETURN_IF_ERROR(CheckElementwise(kOperation, "logits", logits, *gradient));
  }
  if (logits.rows == 0) return ClassificationSums();
  if (labels == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(kOperation, ": there are no labels"));
  }
  for (int64_t row = 0; row < logits.rows; ++row) {
    if (labels[row] >= logits.cols) {
      return absl::InvalidArgumentError(absl::StrCat(kOperation, ": label of row ", row, " is ",
                                                     labels[row], ", expected one of ", logits.cols,
                                                     " classes"));
    }
  }
  return DoSoftmaxCrossEntropy(logits, labels, gradient);
}

}  // namespace sangam
