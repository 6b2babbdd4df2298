#ifndef SANGAM_WORKER_BACKEND_BACKEND_H_
#define SANGAM_WORKER_BACKEND_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam {

// Floats in the memory of a backend, freed with the object. Must not outlive its backend.
class BackendMemory {
 public:
  virtual ~BackendMemory() = default;
  // Valid in the backend's memory, which need not be the host's; aligned to 64 bytes.
  float* data() const { return data_; }
  // In elements.
  int64_t size() const { return size_; }

 protected:
  BackendMemory(float* data, int64_t size) : data_(data), size_(size) {}

 private:
  float* data_;
  int64_t size_;
};

// A point in a backend's work, for any thread of the process. Must not outlive its backend.
class BackendEvent {
 public:
  virtual ~BackendEvent() = default;
  // Waits until all work in front of the point is done.
  // Errors: Internal  the device failed
  virtual absl::Status Wait() const = 0;
};

// Host memory that the device reads and writes by itself as long as this object lives.
class HostPin {
 public:
  virtual ~HostPin() = default;
};

// Sums of a loss, which the device may have to compute yet. Must not outlive its backend.
class PendingSums {
 public:
  virtual ~PendingSums() = default;
  // Waits for them.
  // Errors: Internal  the device failed
  virtual absl::StatusOr<ClassificationSums> Get() = 0;
};

// Told by a product that is under way that the first `rows` rows of c, more than the last time, are
// what they will be. An error ends the product.
using RowsDone = std::function<absl::Status(int64_t rows)>;
// Asked by a product before it reads the first `rows` rows of b as it is given (columns of op(b)
// when transposed), more than the last time; the last time for all. An error ends the product.
using RowsWanted = std::function<absl::Status(int64_t rows)>;

// c = op(a) op(b), or c += op(a) op(b), where op transposes when asked.
struct GemmArguments {
  ConstMatrix a;  // [m, k], or [k, m] when transposed
  bool transpose_a = false;
  ConstMatrix b;  // [k, n], or [n, k] when transposed
  bool transpose_b = false;
  Matrix c;  // [m, n]; overlaps none of the others
  bool accumulate = false;
  Epilogue epilogue = Epilogue::kNone;  // only without `accumulate`
  ConstMatrix bias;                     // [1, n] with an epilogue, else unused
  // Not nullptr, only without an epilogue: a backend that computes at once may tell how far it is,
  // on the thread of the call.
  const RowsDone* rows_done = nullptr;
  // Not nullptr: neither b nor the bias may be read before. Not for backends that compute later.
  const RowsWanted* rows_wanted = nullptr;
};

// Sums that are known.
std::unique_ptr<PendingSums> KnownSums(const ClassificationSums& sums);

// The primitives that layers are made of. One object is one lane: it is not thread-safe, but any
// number of objects work in parallel, on any threads. Work is done in the order of the calls; it
// may go on after a call has returned, until Synchronize. Matrices are borrowed until then.
//
// Results are a pure function of shapes and values: the same bits in every run, on every thread, at
// every address, whatever other lanes do. Every sum has an order that depends on shapes alone;
// where one is named it is the CPU's.
//
// Elementwise operations may write to one of their inputs (the very same matrix); any other overlap
// of an output with an input is an error. No operation allocates once the largest shapes have been
// seen or rehearsed, but for what a vendor's library does inside.
//
// Errors of all operations:
//   InvalidArgument    shapes that do not fit, a missing pointer, a forbidden overlap; nothing was
//                      written
//   ResourceExhausted  the memory cannot be had
//   Internal           the library or the device below failed
class Backend {
 public:
  virtual ~Backend() = default;

  virtual absl::string_view name() const = 0;

  // Whether host memory is the backend's memory: then any host pointer may be used in a matrix and
  // nothing needs to be uploaded.
  virtual bool uses_host_memory() const = 0;

  // `num_elements` floats (0 is allowed), all 0.
  absl::StatusOr<std::unique_ptr<BackendMemory>> Allocate(int64_t num_elements);

  // Sets memory for `num_elements` floats aside, in one piece, for the Allocates to come; each of
  // them takes its size, rounded up to kAllocationElements, from it as long as it lasts. Where it
  // makes no difference it does nothing. Errors: ResourceExhausted  names what was asked for and
  // what the device has, free and in all
  virtual absl::Status Reserve(int64_t num_elements) {
    (void)num_elements;
    return absl::OkStatus();
  }
  static constexpr int64_t kAllocationElements = 64;

  // Whether a row has the same bits alone and among any others: in Gemm a row of c, for a given
  // kind, n and k, and in all other operations on rows; and whether an element of a product with
  // transposed `a` depends on its own column of `a` alone. Then micro-batches may be computed
  // together. Only such a backend has GemmOfTerms and SumRowsOfTerms.
  virtual bool rows_stand_alone() const { return false; }

  // Copies between the host and the backend's memory. `host` holds as many floats as the matrix; it
  // must stay unchanged until Synchronize.
  absl::Status Upload(const float* host, Matrix to);
  absl::Status Download(ConstMatrix from, float* host);

  // Waits until all that was asked for is done.
  virtual absl::Status Synchronize() = 0;

  // From BeginSequence to EndSequence operations may be kept, so that the device gets as one piece
  // what it was given in the same way before; results are the same. What is kept is begun at
  // EndSequence at the latest, and before Synchronize, Record, WaitFor, copies between host and
  // device and losses. Errors of operations may come there. BeginSequence in a sequence goes on
  // with it.
  virtual void BeginSequence() {}
  virtual absl::Status EndSequence() { return absl::OkStatus(); }

  // From BeginRehearsal to EndRehearsal nothing is computed: the backend notes what operations and
  // losses of these shapes need besides their matrices, and takes it at the end. Matrices must be
  // the backend's as ever. False: the backend cannot, and there must be no EndRehearsal. Errors of
  // EndRehearsal: ResourceExhausted  says how much was needed
  virtual bool BeginRehearsal() { return false; }
  virtual absl::Status EndRehearsal() { return absl::OkStatus(); }

  // For backends with memory of their own, so that copies go on beside the computation. Where host
  // memory is the backend's they copy at once.
  //
  // The point after all operations asked for so far, but for copies beside them.
  virtual absl::StatusOr<std::unique_ptr<BackendEvent>> Record();
  // Operations asked for from now on begin after `event`, which may be of another backend of the
  // same device.
  virtual absl::Status WaitFor(const BackendEvent& event);
  // Upload that waits for `after` (nullptr: for nothing) and not for the operations asked for so
  // far, nor they for it. The result is the point when it is done: then `host` may change, and
  // operations that read `to` have to WaitFor it.
  absl::StatusOr<std::unique_ptr<BackendEvent>> UploadBeside(const float* host, Matrix to,
                                                             const BackendEvent* after);
  // Download of what the operations asked for so far give; later ones do not wait for it. The
  // result is the point when `host` holds it; before that nothing may be written to `from`
  // (WaitFor).
  absl::StatusOr<std::unique_ptr<BackendEvent>> DownloadBeside(ConstMatrix from, float* host);
  // Makes copies from and to `num_elements` floats at `host` as fast as they can be, and truly
  // beside the computation. Takes long: once for each buffer, not in a step.
  virtual absl::StatusOr<std::unique_ptr<HostPin>> Pin(float* host, int64_t num_elements);

  absl::Status Fill(float value, Matrix out);

  // out = in, within the backend's memory.
  absl::Status Copy(ConstMatrix in, Matrix out);

  absl::Status Gemm(const GemmArguments& arguments);

  // out[0, j] = sum over i of in[i, j], or += when `accumulate`; out: [1, in.cols].
  absl::Status SumRows(ConstMatrix in, bool accumulate, Matrix out);

  // c = a^T b, summed as `terms` say: the same bits as one Gemm (with transposed `a`) for each
  // term's rows and Adds between their results, but c is written once. Errors: InvalidArgument
  // terms that are not of a.rows rows, or do not leave one sum
  //         Unimplemented    rows_stand_alone() is false
  absl::Status GemmOfTerms(ConstMatrix a, ConstMatrix b, const std::vector<RowTerm>& terms,
                           Matrix c, const RowsDone* rows_done = nullptr);

  // SumRows, in the same way.
  absl::Status SumRowsOfTerms(ConstMatrix in, const std::vector<RowTerm>& terms, Matrix out);

  // out = f(in), elementwise.
  absl::Status Activate(Activation activation, ConstMatrix in, Matrix out);

  // input_gradient = output_gradient * f'(.). `kept` is what Activate returned for relu, tanh
  // and sigmoid, and what it was given for gelu. NaN goes through.
  absl::Status ActivateBackward(Activation activation, ConstMatrix kept,
                                ConstMatrix output_gradient, Matrix input_gradient);

  // out = in / (1 - rate) where kept, 0 elsewhere. The same call with a gradient is its own
  // backward pass: the address says again what was kept, so no mask is stored. rate: in [0, 1).
  absl::Status Dropout(const DropoutAddress& address, float rate, ConstMatrix in, Matrix out);

  // out = a + b, elementwise.
  absl::Status Add(ConstMatrix a, ConstMatrix b, Matrix out);

  // out[r, :] = in[r, :] + addend[r % addend.rows, :]. in.rows: a multiple of addend.rows.
  absl::Status AddRepeated(ConstMatrix in, ConstMatrix addend, Matrix out);

  // Backward of it: out[t, :] = sum over the rows r with r % out.rows == t of in[r, :], in the
  // order of r, or += when `accumulate`.
  absl::Status SumRepeated(ConstMatrix in, bool accumulate, Matrix out);

  // out[r, :] = table[tokens.data[r], :]. tokens: any shape of out.rows elements, whole numbers.
  // Errors: InvalidArgument  a token is no row of the table; names its index and value. A backend
  //                          with memory of its own may say so at the next Synchronize.
  absl::Status Lookup(ConstMatrix tokens, ConstMatrix table, Matrix out);

  // Backward of it: table_gradient[k, :] += sum over the rows r with token k of output_gradient[r,
  // :], in the order of r.
  absl::Status LookupBackward(ConstMatrix tokens, ConstMatrix output_gradient,
                              Matrix table_gradient);

  // inverse_rms[r] = 1 / sqrt(mean over j of in[r, j]^2 + epsilon);
  // out[r, j] = gain[j] * in[r, j] * inverse_rms[r]. gain: [1, in.cols]; inverse_rms: [in.rows, 1].
  absl::Status RmsNorm(ConstMatrix in, ConstMatrix gain, float epsilon, Matrix out,
                       Matrix inverse_rms);

  // Gradient with respect to `in`; with x = in, d = output_gradient, g = gain, s = inverse_rms, n
  // columns: s g d - x s^3 / n * sum over j of (g d x)[j].
  absl::Status RmsNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix inverse_rms,
                               ConstMatrix output_gradient, Matrix input_gradient);

  // gain_gradient[j] = sum over r, in order, of output_gradient[r, j] in[r, j] inverse_rms[r], or
  // += when `accumulate`. gain_gradient: [1, in.cols].
  absl::Status RmsNormGainGradient(ConstMatrix in, ConstMatrix inverse_rms,
                                   ConstMatrix output_gradient, bool accumulate,
                                   Matrix gain_gradient);

  // Rotary positions on the first 2 w columns of `in`, [rows, 3 w]: queries and keys, each `heads`
  // heads of width w / heads side by side. Within a head the pair (2i, 2i + 1) is turned by
  // t * base^(-2i / head width), t the row's position; values are copied. May write to `in`.
  absl::Status Rotate(const Rotation& rotation, ConstMatrix in, Matrix out);

  // Causal attention: `qkv` [rows, 3 w] has queries, keys and values side by side. For each
  // sequence, head and position t: scores s[u] = q[t] . k[u] / sqrt(head width) for u <= t; out[t]
  // = sum over u of softmax(s)[u] v[u]; log_sum[row, head] = log of the sum of exp(s[u]). out:
  // [rows, w]; log_sum: [rows, heads].
  absl::Status CausalAttention(const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                               Matrix log_sum);

  // Gradient with respect to qkv; the softmax is computed anew from log_sum.
  absl::Status CausalAttentionBackward(const AttentionShape& shape, ConstMatrix qkv,
                                       ConstMatrix out, ConstMatrix log_sum,
                                       ConstMatrix output_gradient, Matrix qkv_gradient);

  // out = scale * in, or out += scale * in; elementwise.
  absl::Status AddScaled(float scale, ConstMatrix in, bool accumulate, Matrix out);

  // out[r, out_column + j] = in[r, in_column + j] for j < columns.
  absl::Status CopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                           int64_t out_column);

  // Cross-correlation. in: [n, in.elements()]; weight: [out_channels, kernel_height * kernel_width
  // * in.channels], the last index being (kernel row, kernel column, channel); bias: [1,
  // out_channels], with an epilogue only; out: [n, out.elements()].
  absl::Status Conv2d(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                      Epilogue epilogue, ConstMatrix bias, Matrix out);
  // Gradient with respect to `in`.
  absl::Status Conv2dBackwardInput(const WindowShape& shape, ConstMatrix weight,
                                   ConstMatrix output_gradient, Matrix input_gradient);
  // Gradient with respect to `weight`, summed over the images in their order; += when `accumulate`.
  absl::Status Conv2dBackwardWeight(const WindowShape& shape, ConstMatrix in,
                                    ConstMatrix output_gradient, bool accumulate,
                                    Matrix weight_gradient);

  // Largest element of each window. A window never lies wholly outside.
  absl::Status MaxPool2d(const WindowShape& shape, ConstMatrix in, Matrix out);
  // The first one of equals, in row order of the window, takes the gradient. `out`: what MaxPool2d
  // gave.
  absl::Status MaxPool2dBackward(const WindowShape& shape, ConstMatrix in, ConstMatrix out,
                                 ConstMatrix output_gradient, Matrix input_gradient);
  // Sum over the window, outside being 0, divided by kernel_height * kernel_width.
  absl::Status AveragePool2d(const WindowShape& shape, ConstMatrix in, Matrix out);
  absl::Status AveragePool2dBackward(const WindowShape& shape, ConstMatrix output_gradient,
                                     Matrix input_gradient);

  // mean[j] and variance[j] (biased) of column j, over the rows in their order; rows >= 1. mean,
  // variance: [1, in.cols].
  absl::Status ColumnMoments(ConstMatrix in, Matrix mean, Matrix variance);
  // out[r, j] = gain[j] * (in[r, j] - mean[j]) / sqrt(variance[j] + epsilon) + bias[j]. May write
  // to `in`.
  absl::Status NormalizeColumns(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                float epsilon, ConstMatrix gain, ConstMatrix bias, Matrix out);
  // sums: [2, in.cols]; with x' the normalised input, sums[0, j] = sum over r of d[r, j] x'[r, j]
  // (the gain's gradient), sums[1, j] = sum over r of d[r, j] (the bias'), d = output_gradient.
  absl::Status BatchNormSums(ConstMatrix in, ConstMatrix mean, ConstMatrix variance, float epsilon,
                             ConstMatrix output_gradient, Matrix sums);
  // Gradient with respect to `in`, mean and variance being those of `in`; n rows:
  // gain / sqrt(variance + epsilon) * (d - sums[1] / n - x' sums[0] / n). May write to `in` or d.
  absl::Status BatchNormBackward(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                 float epsilon, ConstMatrix gain, ConstMatrix sums,
                                 ConstMatrix output_gradient, Matrix input_gradient);

  // mean[r] and inverse_deviation[r] = 1 / sqrt(biased variance + epsilon) of row r;
  // out[r, j] = gain[j] * (in[r, j] - mean[r]) * inverse_deviation[r] + bias[j]. mean,
  // inverse_deviation: [in.rows, 1].
  absl::Status LayerNorm(ConstMatrix in, ConstMatrix gain, ConstMatrix bias, float epsilon,
                         Matrix out, Matrix mean, Matrix inverse_deviation);
  absl::Status LayerNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix mean,
                                 ConstMatrix inverse_deviation, ConstMatrix output_gradient,
                                 Matrix input_gradient);
  // Sums over the rows in their order; += when `accumulate`. Both: [1, in.cols].
  absl::Status LayerNormParameterGradients(ConstMatrix in, ConstMatrix mean,
                                           ConstMatrix inverse_deviation,
                                           ConstMatrix output_gradient, bool accumulate,
                                           Matrix gain_gradient, Matrix bias_gradient);

  // Losses. Labels and targets lie in host memory, may change when the call has returned, and are
  // checked in it. When `gradient` is not nullptr, the gradient of the sum is written to it; it may
  // be the first argument itself. The order of a sum depends on shapes alone; the CPU's goes row
  // after row.

  // Sum over all elements of (outputs - targets)^2, in double; `correct` is 0. targets: as many
  // numbers as outputs.
  absl::StatusOr<std::unique_ptr<PendingSums>> SquaredError(ConstMatrix outputs,
                                                            const float* targets, Matrix* gradient);

  // The same for the cross-entropy of sigmoid(outputs) with targets in [0, 1]:
  // max(o, 0) - o t + log(1 + exp(-|o|)); its gradient is sigmoid(o) - t. `correct` counts the
  // elements with (o > 0) == (t >= 0.5).
  // Errors: InvalidArgument  a target outside of [0, 1]; names row, column and value
  absl::StatusOr<std::unique_ptr<PendingSums>> BinaryCrossEntropy(ConstMatrix outputs,
                                                                  const float* targets,
                                                                  Matrix* gradient);

  // Softmax and cross-entropy with integer labels: the loss of row r is
  //   log(sum over j of exp(logits[r, j])) - logits[r, labels[r]],
  // computed without overflow. labels: logits.rows numbers.
  // Errors: InvalidArgument  a label is not below logits.cols; names row, label and classes
  absl::StatusOr<std::unique_ptr<PendingSums>> SoftmaxCrossEntropy(ConstMatrix logits,
                                                                   const uint32_t* labels,
                                                                   Matrix* gradient);

 protected:
  // Called with checked arguments and at least one element to write; Gemm may have k = 0; sums
  // over rows may have none.
  virtual absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t num_elements) = 0;
  virtual absl::Status DoUpload(const float* host, Matrix to) = 0;
  virtual absl::Status DoDownload(ConstMatrix from, float* host) = 0;
  virtual absl::Status DoFill(float value, Matrix out) = 0;
  virtual absl::Status DoCopy(ConstMatrix in, Matrix out) = 0;
  virtual absl::Status DoGemm(const GemmArguments& arguments) = 0;
  virtual absl::Status DoSumRows(ConstMatrix in, bool accumulate, Matrix out) = 0;
  virtual absl::Status DoGemmOfTerms(ConstMatrix a, ConstMatrix b,
                                     const std::vector<RowTerm>& terms, Matrix c,
                                     const RowsDone* rows_done);
  virtual absl::Status DoSumRowsOfTerms(ConstMatrix in, const std::vector<RowTerm>& terms,
                                        Matrix out);
  virtual absl::Status DoActivate(Activation activation, ConstMatrix in, Matrix out) = 0;
  virtual absl::Status DoActivateBackward(Activation activation, ConstMatrix kept,
                                          ConstMatrix output_gradient, Matrix input_gradient) = 0;
  virtual absl::Status DoDropout(const DropoutAddress& address, float rate, ConstMatrix in,
                                 Matrix out) = 0;
  virtual absl::Status DoAdd(ConstMatrix a, ConstMatrix b, Matrix out) = 0;
  virtual absl::Status DoAddRepeated(ConstMatrix in, ConstMatrix addend, Matrix out) = 0;
  virtual absl::Status DoSumRepeated(ConstMatrix in, bool accumulate, Matrix out) = 0;
  virtual absl::Status DoLookup(ConstMatrix tokens, ConstMatrix table, Matrix out) = 0;
  virtual absl::Status DoLookupBackward(ConstMatrix tokens, ConstMatrix output_gradient,
                                        Matrix table_gradient) = 0;
  virtual absl::Status DoRmsNorm(ConstMatrix in, ConstMatrix gain, float epsilon, Matrix out,
                                 Matrix inverse_rms) = 0;
  virtual absl::Status DoRmsNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix inverse_rms,
                                         ConstMatrix output_gradient, Matrix input_gradient) = 0;
  virtual absl::Status DoRmsNormGainGradient(ConstMatrix in, ConstMatrix inverse_rms,
                                             ConstMatrix output_gradient, bool accumulate,
                                             Matrix gain_gradient) = 0;
  virtual absl::Status DoRotate(const Rotation& rotation, ConstMatrix in, Matrix out) = 0;
  virtual absl::Status DoCausalAttention(const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                                         Matrix log_sum) = 0;
  virtual absl::Status DoCausalAttentionBackward(const AttentionShape& shape, ConstMatrix qkv,
                                                 ConstMatrix out, ConstMatrix log_sum,
                                                 ConstMatrix output_gradient,
                                                 Matrix qkv_gradient) = 0;
  virtual absl::Status DoAddScaled(float scale, ConstMatrix in, bool accumulate, Matrix out) = 0;
  virtual absl::Status DoCopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                                     int64_t out_column) = 0;
  virtual absl::Status DoConv2d(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                                Epilogue epilogue, ConstMatrix bias, Matrix out) = 0;
  virtual absl::Status DoConv2dBackwardInput(const WindowShape& shape, ConstMatrix weight,
                                             ConstMatrix output_gradient,
                                             Matrix input_gradient) = 0;
  virtual absl::Status DoConv2dBackwardWeight(const WindowShape& shape, ConstMatrix in,
                                              ConstMatrix output_gradient, bool accumulate,
                                              Matrix weight_gradient) = 0;
  virtual absl::Status DoMaxPool2d(const WindowShape& shape, ConstMatrix in, Matrix out) = 0;
  virtual absl::Status DoMaxPool2dBackward(const WindowShape& shape, ConstMatrix in,
                                           ConstMatrix out, ConstMatrix output_gradient,
                                           Matrix input_gradient) = 0;
  virtual absl::Status DoAveragePool2d(const WindowShape& shape, ConstMatrix in, Matrix out) = 0;
  virtual absl::Status DoAveragePool2dBackward(const WindowShape& shape,
                                               ConstMatrix output_gradient,
                                               Matrix input_gradient) = 0;
  virtual absl::Status DoColumnMoments(ConstMatrix in, Matrix mean, Matrix variance) = 0;
  virtual absl::Status DoNormalizeColumns(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                          float epsilon, ConstMatrix gain, ConstMatrix bias,
                                          Matrix out) = 0;
  virtual absl::Status DoBatchNormSums(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                       float epsilon, ConstMatrix output_gradient, Matrix sums) = 0;
  virtual absl::Status DoBatchNormBackward(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                           float epsilon, ConstMatrix gain, ConstMatrix sums,
                                           ConstMatrix output_gradient, Matrix input_gradient) = 0;
  virtual absl::Status DoLayerNorm(ConstMatrix in, ConstMatrix gain, ConstMatrix bias,
                                   float epsilon, Matrix out, Matrix mean,
                                   Matrix inverse_deviation) = 0;
  virtual absl::Status DoLayerNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix mean,
                                           ConstMatrix inverse_deviation,
                                           ConstMatrix output_gradient, Matrix input_gradient) = 0;
  virtual absl::Status DoLayerNormParameterGradients(ConstMatrix in, ConstMatrix mean,
                                                     ConstMatrix inverse_deviation,
                                                     ConstMatrix output_gradient, bool accumulate,
                                                     Matrix gain_gradient,
                                                     Matrix bias_gradient) = 0;
  virtual absl::StatusOr<std::unique_ptr<PendingSums>> DoSquaredError(ConstMatrix outputs,
                                                                      const float* targets,
                                                                      Matrix* gradient) = 0;
  virtual absl::StatusOr<std::unique_ptr<PendingSums>> DoBinaryCrossEntropy(ConstMatrix outputs,
                                                                            const float* targets,
                                                                            Matrix* gradient) = 0;
  virtual absl::StatusOr<std::unique_ptr<PendingSums>> DoSoftmaxCrossEntropy(ConstMatrix logits,
                                                                             const uint32_t* labels,
                                                                             Matrix* gradient) = 0;
  // The default: at once.
  virtual absl::StatusOr<std::unique_ptr<BackendEvent>> DoUploadBeside(const float* host, Matrix to,
                                                                       const BackendEvent* after);
  virtual absl::StatusOr<std::unique_ptr<BackendEvent>> DoDownloadBeside(ConstMatrix from,
                                                                         float* host);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_BACKEND_H_
