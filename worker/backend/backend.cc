#include "worker/backend/backend.h"

#include <cmath>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/checks.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

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

// `many` is so many times `few`, one after the other.
absl::Status CheckRepeats(absl::string_view operation, absl::string_view name_of_many,
                          ConstMatrix many, absl::string_view name_of_few, ConstMatrix few) {
  const bool repeats = few.rows == 0 ? many.rows == 0 : many.rows % few.rows == 0;
  if (repeats && many.cols == few.cols) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": ", name_of_many, " is ", ShapeText(many), " and ", name_of_few,
                   " is ", ShapeText(few), ", expected equal columns and a multiple of its rows"));
}

absl::Status CheckTokens(absl::string_view operation, ConstMatrix tokens, int64_t rows) {
  RETURN_IF_ERROR(CheckView(operation, "tokens", tokens));
  if (tokens.size() == rows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": tokens is ", ShapeText(tokens), ", expected ", rows, " elements"));
}

// The inputs that the operations of the root mean square share, and that there is one to take.
absl::Status CheckRms(absl::string_view operation, ConstMatrix in, ConstMatrix inverse_rms) {
  RETURN_IF_ERROR(CheckView(operation, "in", in));
  if (in.cols == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation, ": in is ", ShapeText(in), ", expected at least one column"));
  }
  return CheckShape(operation, "inverse_rms", inverse_rms, in.rows, 1);
}

// Queries, keys and values of whole sequences, in heads of equal width.
absl::Status CheckSequences(absl::string_view operation, absl::string_view name, ConstMatrix qkv,
                            int64_t positions, int64_t heads) {
  RETURN_IF_ERROR(CheckView(operation, name, qkv));
  if (positions < 1 || heads < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        operation, ": found ", positions, " positions and ", heads, " heads, expected at least 1"));
  }
  if (qkv.rows % positions != 0) {
    return absl::InvalidArgumentError(absl::StrCat(operation, ": ", name, " is ", ShapeText(qkv),
                                                   ", expected a multiple of ", positions,
                                                   " positions as rows"));
  }
  // The product 3 * heads may not fit.
  if (qkv.cols == 0 || qkv.cols % 3 != 0 || qkv.cols / 3 % heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(operation, ": ", name, " is ", ShapeText(qkv),
                                                   ", expected columns for queries, keys and "
                                                   "values of ",
                                                   heads, " heads"));
  }
  return absl::OkStatus();
}

// A part of a matrix' columns.
absl::Status CheckColumns(absl::string_view operation, absl::string_view name, ConstMatrix matrix,
                          int64_t first, int64_t columns) {
  if (first >= 0 && columns >= 0 && first <= matrix.cols && columns <= matrix.cols - first) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(operation, ": ", name, " is ", ShapeText(matrix),
                                                 ", expected ", columns, " columns from column ",
                                                 first));
}

absl::Status CheckTerms(absl::string_view operation, const std::vector<RowTerm>& terms,
                        int64_t rows) {
  int64_t found = 0;
  uint64_t waiting = 0;
  for (const RowTerm& term : terms) {
    ++waiting;
    if (term.rows < 0 || term.rows > rows - found || waiting > kMaxRowTermDepth ||
        term.additions >= waiting) {
      return absl::InvalidArgumentError(
          absl::StrCat(operation, ": terms: found one of ", term.rows, " rows and ", term.additions,
                       " additions behind ", found, " of ", rows, " rows in ", waiting - 1,
                       " sums, expected no more rows and fewer additions than sums, at most ",
                       kMaxRowTermDepth));
    }
    found += term.rows;
    waiting -= term.additions;
  }
  if (found == rows && waiting == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operation, ": terms: found ", found, " rows in ",
                                                 waiting, " sums, expected ", rows, " in 1"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackendMemory>> Backend::Allocate(int64_t num_elements) {
  if (num_elements < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("allocate: found ", num_elements, " elements, expected at least 0"));
  }
  return DoAllocate(num_elements);
}

absl::Status Backend::Fill(float value, Matrix out) {
  RETURN_IF_ERROR(CheckView("fill", "out", out));
  return out.size() == 0 ? absl::OkStatus() : DoFill(value, out);
}

absl::Status Backend::Copy(ConstMatrix in, Matrix out) {
  RETURN_IF_ERROR(CheckView("copy", "out", out));
  RETURN_IF_ERROR(CheckShape("copy", "in", in, out.rows, out.cols));
  RETURN_IF_ERROR(CheckApart("copy", "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoCopy(in, out);
}

absl::Status Backend::Gemm(const GemmArguments& arguments) {
  RETURN_IF_ERROR(CheckGemm(arguments));
  if (!uses_host_memory() && (arguments.rows_done != nullptr || arguments.rows_wanted != nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gemm: backend ", name(), " computes later and cannot tell how far it is"));
  }
  return arguments.c.size() == 0 ? absl::OkStatus() : DoGemm(arguments);
}

absl::Status Backend::SumRows(ConstMatrix in, bool accumulate, Matrix out) {
  RETURN_IF_ERROR(CheckView("sum rows", "in", in));
  RETURN_IF_ERROR(CheckShape("sum rows", "out", out, 1, in.cols));
  RETURN_IF_ERROR(CheckApart("sum rows", "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoSumRows(in, accumulate, out);
}

absl::Status Backend::GemmOfTerms(ConstMatrix a, ConstMatrix b, const std::vector<RowTerm>& terms,
                                  Matrix c, const RowsDone* rows_done) {
  GemmArguments product;
  product.a = a;
  product.transpose_a = true;
  product.b = b;
  product.c = c;
  RETURN_IF_ERROR(CheckGemm(product));
  RETURN_IF_ERROR(CheckTerms("gemm", terms, a.rows));
  return c.size() == 0 ? absl::OkStatus() : DoGemmOfTerms(a, b, terms, c, rows_done);
}

absl::Status Backend::SumRowsOfTerms(ConstMatrix in, const std::vector<RowTerm>& terms,
                                     Matrix out) {
  RETURN_IF_ERROR(CheckView("sum rows", "in", in));
  RETURN_IF_ERROR(CheckShape("sum rows", "out", out, 1, in.cols));
  RETURN_IF_ERROR(CheckApart("sum rows", "in", in, out));
  RETURN_IF_ERROR(CheckTerms("sum rows", terms, in.rows));
  return out.size() == 0 ? absl::OkStatus() : DoSumRowsOfTerms(in, terms, out);
}

absl::Status Backend::DoGemmOfTerms(ConstMatrix, ConstMatrix, const std::vector<RowTerm>&, Matrix,
                                    const RowsDone*) {
  return absl::UnimplementedError(absl::StrCat("backend ", name(), ": rows do not stand alone"));
}

absl::Status Backend::DoSumRowsOfTerms(ConstMatrix, const std::vector<RowTerm>&, Matrix) {
  return absl::UnimplementedError(absl::StrCat("backend ", name(), ": rows do not stand alone"));
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

absl::Status Backend::Add(ConstMatrix a, ConstMatrix b, Matrix out) {
  RETURN_IF_ERROR(CheckView("add", "out", out));
  RETURN_IF_ERROR(CheckElementwise("add", "a", a, out));
  RETURN_IF_ERROR(CheckElementwise("add", "b", b, out));
  return out.size() == 0 ? absl::OkStatus() : DoAdd(a, b, out);
}

absl::Status Backend::AddRepeated(ConstMatrix in, ConstMatrix addend, Matrix out) {
  constexpr absl::string_view kOperation = "add repeated";
  RETURN_IF_ERROR(CheckView(kOperation, "out", out));
  RETURN_IF_ERROR(CheckElementwise(kOperation, "in", in, out));
  RETURN_IF_ERROR(CheckView(kOperation, "addend", addend));
  RETURN_IF_ERROR(CheckRepeats(kOperation, "in", in, "addend", addend));
  if (addend.data != out.data || addend.rows != out.rows) {
    RETURN_IF_ERROR(CheckApart(kOperation, "addend", addend, out));
  }
  return out.size() == 0 ? absl::OkStatus() : DoAddRepeated(in, addend, out);
}

absl::Status Backend::SumRepeated(ConstMatrix in, bool accumulate, Matrix out) {
  constexpr absl::string_view kOperation = "sum repeated";
  RETURN_IF_ERROR(CheckView(kOperation, "in", in));
  RETURN_IF_ERROR(CheckView(kOperation, "out", out));
  RETURN_IF_ERROR(CheckRepeats(kOperation, "in", in, "out", out));
  RETURN_IF_ERROR(CheckApart(kOperation, "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoSumRepeated(in, accumulate, out);
}

absl::Status Backend::Lookup(ConstMatrix tokens, ConstMatrix table, Matrix out) {
  constexpr absl::string_view kOperation = "lookup";
  RETURN_IF_ERROR(CheckTokens(kOperation, tokens, out.rows));
  RETURN_IF_ERROR(CheckView(kOperation, "table", table));
  RETURN_IF_ERROR(CheckShape(kOperation, "out", out, out.rows, table.cols));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation, {{"tokens", tokens}, {"table", table}}, out));
  return out.size() == 0 ? absl::OkStatus() : DoLookup(tokens, table, out);
}

absl::Status Backend::LookupBackward(ConstMatrix tokens, ConstMatrix output_gradient,
                                     Matrix table_gradient) {
  constexpr absl::string_view kOperation = "lookup backward";
  RETURN_IF_ERROR(CheckView(kOperation, "output_gradient", output_gradient));
  RETURN_IF_ERROR(CheckTokens(kOperation, tokens, output_gradient.rows));
  RETURN_IF_ERROR(CheckShape(kOperation, "table_gradient", table_gradient, table_gradient.rows,
                             output_gradient.cols));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation, {{"tokens", tokens}, {"output_gradient", output_gradient}}, table_gradient));
  // Tokens for a table without rows are the backend's to refuse.
  if (output_gradient.size() == 0) return absl::OkStatus();
  return DoLookupBackward(tokens, output_gradient, table_gradient);
}

absl::Status Backend::RmsNorm(ConstMatrix in, ConstMatrix gain, float epsilon, Matrix out,
                              Matrix inverse_rms) {
  constexpr absl::string_view kOperation = "rms norm";
  RETURN_IF_ERROR(CheckRms(kOperation, in, inverse_rms));
  RETURN_IF_ERROR(CheckShape(kOperation, "gain", gain, 1, in.cols));
  RETURN_IF_ERROR(CheckShape(kOperation, "out", out, in.rows, in.cols));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation, {{"in", in}, {"gain", gain}}, out));
  RETURN_IF_ERROR(
      CheckApartFromAll(kOperation, {{"in", in}, {"gain", gain}, {"out", out}}, inverse_rms));
  RETURN_IF_ERROR(CheckEpsilon(kOperation, epsilon));
  return out.size() == 0 ? absl::OkStatus() : DoRmsNorm(in, gain, epsilon, out, inverse_rms);
}

absl::Status Backend::RmsNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix inverse_rms,
                                      ConstMatrix output_gradient, Matrix input_gradient) {
  constexpr absl::string_view kOperation = "rms norm backward";
  RETURN_IF_ERROR(CheckRms(kOperation, in, inverse_rms));
  RETURN_IF_ERROR(CheckShape(kOperation, "gain", gain, 1, in.cols));
  RETURN_IF_ERROR(CheckShape(kOperation, "output_gradient", output_gradient, in.rows, in.cols));
  RETURN_IF_ERROR(CheckShape(kOperation, "input_gradient", input_gradient, in.rows, in.cols));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation,
                                    {{"in", in},
                                     {"gain", gain},
                                     {"inverse_rms", inverse_rms},
                                     {"output_gradient", output_gradient}},
                                    input_gradient));
  if (input_gradient.size() == 0) return absl::OkStatus();
  return DoRmsNormBackward(in, gain, inverse_rms, output_gradient, input_gradient);
}

absl::Status Backend::RmsNormGainGradient(ConstMatrix in, ConstMatrix inverse_rms,
                                          ConstMatrix output_gradient, bool accumulate,
                                          Matrix gain_gradient) {
  constexpr absl::string_view kOperation = "rms norm gain gradient";
  RETURN_IF_ERROR(CheckRms(kOperation, in, inverse_rms));
  RETURN_IF_ERROR(CheckShape(kOperation, "output_gradient", output_gradient, in.rows, in.cols));
  RETURN_IF_ERROR(CheckShape(kOperation, "gain_gradient", gain_gradient, 1, in.cols));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation, {{"in", in}, {"inverse_rms", inverse_rms}, {"output_gradient", output_gradient}},
      gain_gradient));
  return DoRmsNormGainGradient(in, inverse_rms, output_gradient, accumulate, gain_gradient);
}

absl::Status Backend::Rotate(const Rotation& rotation, ConstMatrix in, Matrix out) {
  constexpr absl::string_view kOperation = "rotate";
  RETURN_IF_ERROR(CheckSequences(kOperation, "in", in, rotation.positions, rotation.heads));
  if (in.cols / 3 / rotation.heads % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(kOperation, ": in is ", ShapeText(in),
                                                   ", expected ", rotation.heads,
                                                   " heads of an even width"));
  }
  if (!(rotation.base >= 1 && std::isfinite(rotation.base))) {
    return absl::InvalidArgumentError(
        absl::StrCat(kOperation, ": base is ", rotation.base, ", expected a number of at least 1"));
  }
  RETURN_IF_ERROR(CheckShape(kOperation, "out", out, in.rows, in.cols));
  if (in.data != out.data) RETURN_IF_ERROR(CheckApart(kOperation, "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoRotate(rotation, in, out);
}

absl::Status Backend::CausalAttention(const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                                      Matrix log_sum) {
  constexpr absl::string_view kOperation = "causal attention";
  RETURN_IF_ERROR(CheckSequences(kOperation, "qkv", qkv, shape.positions, shape.heads));
  RETURN_IF_ERROR(CheckShape(kOperation, "out", out, qkv.rows, qkv.cols / 3));
  RETURN_IF_ERROR(CheckShape(kOperation, "log_sum", log_sum, qkv.rows, shape.heads));
  RETURN_IF_ERROR(CheckApart(kOperation, "qkv", qkv, out));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation, {{"qkv", qkv}, {"out", out}}, log_sum));
  return out.size() == 0 ? absl::OkStatus() : DoCausalAttention(shape, qkv, out, log_sum);
}

absl::Status Backend::CausalAttentionBackward(const AttentionShape& shape, ConstMatrix qkv,
                                              ConstMatrix out, ConstMatrix log_sum,
                                              ConstMatrix output_gradient, Matrix qkv_gradient) {
  constexpr absl::string_view kOperation = "causal attention backward";
  RETURN_IF_ERROR(CheckSequences(kOperation, "qkv", qkv, shape.positions, shape.heads));
  RETURN_IF_ERROR(CheckShape(kOperation, "out", out, qkv.rows, qkv.cols / 3));
  RETURN_IF_ERROR(CheckShape(kOperation, "log_sum", log_sum, qkv.rows, shape.heads));
  RETURN_IF_ERROR(
      CheckShape(kOperation, "output_gradient", output_gradient, qkv.rows, qkv.cols / 3));
  RETURN_IF_ERROR(CheckShape(kOperation, "qkv_gradient", qkv_gradient, qkv.rows, qkv.cols));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation,
      {{"qkv", qkv}, {"out", out}, {"log_sum", log_sum}, {"output_gradient", output_gradient}},
      qkv_gradient));
  if (qkv_gradient.size() == 0) return absl::OkStatus();
  return DoCausalAttentionBackward(shape, qkv, out, log_sum, output_gradient, qkv_gradient);
}

absl::Status Backend::AddScaled(float scale, ConstMatrix in, bool accumulate, Matrix out) {
  RETURN_IF_ERROR(CheckView("add scaled", "out", out));
  RETURN_IF_ERROR(CheckElementwise("add scaled", "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoAddScaled(scale, in, accumulate, out);
}

absl::Status Backend::CopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                                  int64_t out_column) {
  constexpr absl::string_view kOperation = "copy columns";
  RETURN_IF_ERROR(CheckView(kOperation, "in", in));
  RETURN_IF_ERROR(CheckView(kOperation, "out", out));
  RETURN_IF_ERROR(CheckColumns(kOperation, "in", in, in_column, columns));
  RETURN_IF_ERROR(CheckColumns(kOperation, "out", out, out_column, columns));
  RETURN_IF_ERROR(CheckShape(kOperation, "in", in, out.rows, in.cols));
  RETURN_IF_ERROR(CheckApart(kOperation, "in", in, out));
  if (out.rows == 0 || columns == 0) return absl::OkStatus();
  return DoCopyColumns(in, in_column, columns, out, out_column);
}

}  // namespace sangam
