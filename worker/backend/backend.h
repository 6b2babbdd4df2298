#ifndef SANGAM_WORKER_BACKEND_BACKEND_H_
#define SANGAM_WORKER_BACKEND_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// What a product does to each row before it is written: add `bias`, then take max(., 0).
enum class Epilogue { kNone, kBias, kBiasRelu };

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
};

// relu(x) = max(x, 0). gelu(x) = x Phi(x) with the exact normal distribution function (Hendrycks &
// Gimpel 2016). tanh(x).
enum class Activation { kRelu, kGelu, kTanh };

// Where dropout's random numbers lie: element e of row r is kept when
//   ToUnitFloat(RandomStream(seed, kDropout, step, layer << 32 | first_position + r).At(e)) >=
//   rate.
// REQUIRES: first_position + rows <= 2^32.
struct DropoutAddress {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t layer = 0;
  uint64_t first_position = 0;
};

// Sequences in a matrix: row r is position r % positions of sequence r / positions.
struct AttentionShape {
  int64_t positions = 1;
  int64_t heads = 1;
};

// How Rotate turns.
struct Rotation {
  int64_t positions = 1;  // as in AttentionShape
  int64_t heads = 1;
  float base = 10000;     // at least 1
  bool backward = false;  // by the negative angle: the gradient's way back
};

// Sums over the rows of one batch.
struct ClassificationSums {
  double loss = 0;       // in double, row after row
  uint64_t correct = 0;  // rows whose largest element (the first of equals) is the label
};

// The primitives that layers are made of. One object is one lane: it is not thread-safe, but any
// number of objects work in parallel, on any threads. Work is done in the order of the calls; it
// may go on after a call has returned, until Synchronize. Matrices are borrowed until then.
//
// Results are a pure function of shapes and values: the same bits in every run, on every thread, at
// every address, whatever other lanes do. Every sum has an order that depends on shapes alone.
//
// Elementwise operations may write to one of their inputs (the very same matrix); any other overlap
// of an output with an input is an error. No operation allocates once the largest shapes have been
// seen, but for what a vendor's library does inside.
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

  // Copies between the host and the backend's memory. `host` holds as many floats as the matrix; it
  // must stay unchanged until Synchronize.
  absl::Status Upload(const float* host, Matrix to);
  absl::Status Download(ConstMatrix from, float* host);

  // Waits until all that was asked for is done.
  virtual absl::Status Synchronize() = 0;

  absl::Status Fill(float value, Matrix out);

  // out = in, within the backend's memory.
  absl::Status Copy(ConstMatrix in, Matrix out);

  absl::Status Gemm(const GemmArguments& arguments);

  // out[0, j] = sum over i of in[i, j], or += when `accumulate`; out: [1, in.cols].
  absl::Status SumRows(ConstMatrix in, bool accumulate, Matrix out);

  // out = f(in), elementwise.
  absl::Status Activate(Activation activation, ConstMatrix in, Matrix out);

  // input_gradient = output_gradient * f'(.). `kept` is what Activate returned for relu and tanh,
  // and what it was given for gelu. NaN goes through.
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

  // Softmax and cross-entropy with integer labels: the loss of row r is
  //   log(sum over j of exp(logits[r, j])) - logits[r, labels[r]],
  // computed without overflow. labels: logits.rows numbers in host memory. When `gradient` is not
  // nullptr, the gradient of the sum of the losses is written to it; it may be `logits` itself.
  // Waits for the result.
  // Errors: InvalidArgument  a label is not below logits.cols; names row, label and classes
  absl::StatusOr<ClassificationSums> SoftmaxCrossEntropy(ConstMatrix logits, const uint32_t* labels,
                                                         Matrix* gradient);

 protected:
  // Called with checked arguments and at least one element to write; Gemm may have k = 0, SumRows
  // no rows.
  virtual absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t num_elements) = 0;
  virtual absl::Status DoUpload(const float* host, Matrix to) = 0;
  virtual absl::Status DoDownload(ConstMatrix from, float* host) = 0;
  virtual absl::Status DoFill(float value, Matrix out) = 0;
  virtual absl::Status DoCopy(ConstMatrix in, Matrix out) = 0;
  virtual absl::Status DoGemm(const GemmArguments& arguments) = 0;
  virtual absl::Status DoSumRows(ConstMatrix in, bool accumulate, Matrix out) = 0;
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
  virtual absl::StatusOr<ClassificationSums> DoSoftmaxCrossEntropy(ConstMatrix logits,
                                                                   const uint32_t* labels,
                                                                   Matrix* gradient) = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_BACKEND_H_
