#include "worker/backend/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/cuda/activations.h"
#include "worker/backend/cuda/arena.h"
#include "worker/backend/cuda/attention.h"
#include "worker/backend/cuda/bad_tokens.h"
#include "worker/backend/cuda/batch_norm.h"
#include "worker/backend/cuda/conv2d.h"
#include "worker/backend/cuda/device.h"
#include "worker/backend/cuda/dropout.h"
#include "worker/backend/cuda/elementwise.h"
#include "worker/backend/cuda/host_pins.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/cuda/layer_norm.h"
#include "worker/backend/cuda/lookup.h"
#include "worker/backend/cuda/losses.h"
#include "worker/backend/cuda/pooling.h"
#include "worker/backend/cuda/products.h"
#include "worker/backend/cuda/rms_norm.h"
#include "worker/backend/cuda/rotary.h"
#include "worker/backend/cuda/scratch.h"
#include "worker/backend/cuda/sequences.h"
#include "worker/backend/cuda/staging.h"
#include "worker/backend/cuda/sums.h"
#include "worker/backend/precision.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

size_t FloatBytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

// Its address stands for a type.
template <typename T>
constexpr char kAddressOf = 0;

float* DataOf(const Matrix* gradient) { return gradient == nullptr ? nullptr : gradient->data; }

class CudaEvent : public BackendEvent {
 public:
  explicit CudaEvent(std::unique_ptr<CudaPoint> point) : point_(std::move(point)) {}
  absl::Status Wait() const override { return point_->Wait(); }
  const CudaPoint& point() const { return *point_; }

 private:
  std::unique_ptr<CudaPoint> point_;
};

class CudaBackend : public Backend {
 public:
  CudaBackend(std::unique_ptr<CudaLane> lane, std::unique_ptr<CudaProducts> products,
              Precision precision)
      : precision_(precision),
        lane_(std::move(lane)),
        products_(std::move(products)),
        conv2d_(lane_.get(), products_.get()),
        arena_(lane_.get()),
        scratch_(lane_.get()),
        staging_(lane_.get()),
        sums_(lane_.get()),
        bad_tokens_(lane_.get()),
        sequences_(lane_.get()) {}
  // What is in the streams uses the memory that goes now.
  ~CudaBackend() override { lane_->Synchronize().IgnoreError(); }

  absl::string_view name() const override { return "cuda"; }
  bool uses_host_memory() const override { return false; }

  absl::Status Reserve(int64_t num_elements) override { return arena_.Reserve(num_elements); }

  void BeginSequence() override { sequences_.Open(); }
  absl::Status EndSequence() override { return sequences_.Close(); }

  bool BeginRehearsal() override {
    lane_->set_rehearses(true);
    return true;
  }

  absl::Status EndRehearsal() override {
    lane_->set_rehearses(false);
    RETURN_IF_ERROR(lane_->Begin("make room"));
    int64_t missing = staging_.missing_bytes();
    for (const CudaScratch* scratch : Scratches()) missing += scratch->missing_bytes();
    RETURN_IF_ERROR(MakeRoom(),
                    "operations need %.1f MiB of the device's memory besides their matrices",
                    static_cast<double>(missing) / (1024 * 1024));
    return lane_->Synchronize(lane_->compute());
  }

  absl::Status Synchronize() override {
    RETURN_IF_ERROR(sequences_.Submit());
    RETURN_IF_ERROR(lane_->Synchronize());
    return bad_tokens_.Check();
  }

  absl::StatusOr<std::unique_ptr<BackendEvent>> Record() override {
    RETURN_IF_ERROR(sequences_.Submit());
    RETURN_IF_ERROR(lane_->Begin("record"));
    return EventOf(lane_->compute());
  }

  absl::Status WaitFor(const BackendEvent& event) override {
    RETURN_IF_ERROR(sequences_.Submit());
    RETURN_IF_ERROR(lane_->Begin("wait for"));
    return LetWait(lane_->compute(), event);
  }

  absl::StatusOr<std::unique_ptr<HostPin>> Pin(float* host, int64_t num_elements) override {
    if (num_elements <= 0 || host == nullptr) return Backend::Pin(host, num_elements);
    RETURN_IF_ERROR(lane_->Begin("pin"));
    return PinHostMemory(host, static_cast<int64_t>(FloatBytes(num_elements)));
  }

 protected:
  absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t num_elements) override {
    RETURN_IF_ERROR(sequences_.Submit());
    return arena_.Allocate(num_elements);
  }

  absl::Status DoUpload(const float* host, Matrix to) override {
    RETURN_IF_ERROR(sequences_.Submit());
    return lane_->Run("upload", [&](cudaStream_t stream) {
      return cudaMemcpyAsync(to.data, host, FloatBytes(to.size()), cudaMemcpyHostToDevice, stream);
    });
  }

  absl::Status DoDownload(ConstMatrix from, float* host) override {
    RETURN_IF_ERROR(sequences_.Submit());
    return lane_->Run("download", [&](cudaStream_t stream) {
      return cudaMemcpyAsync(host, from.data, FloatBytes(from.size()), cudaMemcpyDeviceToHost,
                             stream);
    });
  }

  absl::StatusOr<std::unique_ptr<BackendEvent>> DoUploadBeside(const float* host, Matrix to,
                                                               const BackendEvent* after) override {
    RETURN_IF_ERROR(lane_->Begin("upload beside"));
    if (after != nullptr) RETURN_IF_ERROR(LetWait(lane_->upload(), *after));
    RETURN_IF_ERROR(lane_->Check(cudaMemcpyAsync(to.data, host, FloatBytes(to.size()),
                                                 cudaMemcpyHostToDevice, lane_->upload()),
                                 "upload beside"));
    return EventOf(lane_->upload());
  }

  absl::StatusOr<std::unique_ptr<BackendEvent>> DoDownloadBeside(ConstMatrix from,
                                                                 float* host) override {
    RETURN_IF_ERROR(sequences_.Submit());
    RETURN_IF_ERROR(lane_->Begin("download beside"));
    ASSIGN_OR_RETURN(const std::unique_ptr<CudaPoint> computed, lane_->Record(lane_->compute()));
    RETURN_IF_ERROR(lane_->Check(cudaStreamWaitEvent(lane_->download(), computed->event(), 0),
                                 "download beside"));
    RETURN_IF_ERROR(lane_->Check(cudaMemcpyAsync(host, from.data, FloatBytes(from.size()),
                                                 cudaMemcpyDeviceToHost, lane_->download()),
                                 "download beside"));
    return EventOf(lane_->download());
  }

  absl::Status DoFill(float value, Matrix out) override {
    return Do(
        "fill",
        [](cudaStream_t stream, auto value, auto out) {
          return cuda_kernels::Fill(stream, value, out);
        },
        value, out);
  }

  absl::Status DoCopy(ConstMatrix in, Matrix out) override {
    return Do(
        "copy",
        [](cudaStream_t stream, auto in, auto out) {
          return cuda_kernels::Copy(stream, in.data, in.size(), out.data);
        },
        in, out);
  }

  absl::Status DoGemm(const GemmArguments& arguments) override {
    return DoOnHost(
        "gemm",
        [](CudaBackend* self, const auto& arguments) {
          return self->products_->Multiply(arguments);
        },
        arguments);
  }

  absl::Status DoSumRows(ConstMatrix in, bool accumulate, Matrix out) override {
    return DoWithScratch(
        "sum rows", cuda_kernels::SumRowsScratchBytes(in.rows, in.cols),
        [](cudaStream_t stream, void* scratch, auto in, auto accumulate, auto out) {
          return cuda_kernels::SumRows(stream, in, accumulate, scratch, out.data);
        },
        in, accumulate, out);
  }

  absl::Status DoActivate(Activation activation, ConstMatrix in, Matrix out) override {
    return Do(
        "activate",
        [](cudaStream_t stream, auto activation, auto in, auto out) {
          return cuda_kernels::Activate(stream, activation, in, out.data);
        },
        activation, in, out);
  }

  absl::Status DoActivateBackward(Activation activation, ConstMatrix kept,
                                  ConstMatrix output_gradient, Matrix input_gradient) override {
    return Do(
        "activate backward",
        [](cudaStream_t stream, auto activation, auto kept, auto output_gradient,
           auto input_gradient) {
          return cuda_kernels::ActivateBackward(stream, activation, kept.data, output_gradient,
                                                input_gradient.data);
        },
        activation, kept, output_gradient, input_gradient);
  }

  absl::Status DoDropout(const DropoutAddress& address, float rate, ConstMatrix in,
                         Matrix out) override {
    if (!sequences_.is_open()) {
      return lane_->Run("dropout", [&](cudaStream_t stream) {
        return cuda_kernels::Dropout(stream, address, rate, in, out.data);
      });
    }
    // The address is another one in each step.
    ASSIGN_OR_RETURN(const size_t numbers,
                     sequences_.KeepNumbers(cuda_kernels::NumbersOf(address)));
    return DoOnHost(
        "dropout",
        [](CudaBackend* self, size_t kept, float drop, const auto& from, const auto& to) {
          return self->lane_->Launch("dropout", [&](cudaStream_t stream) {
            return cuda_kernels::Dropout(stream, self->sequences_.numbers(kept), drop, from,
                                         to.data);
          });
        },
        numbers, rate, in, out);
  }

  absl::Status DoAdd(ConstMatrix a, ConstMatrix b, Matrix out) override {
    return Do(
        "add",
        [](cudaStream_t stream, auto a, auto b, auto out) {
          return cuda_kernels::Add(stream, a.data, b.data, out.size(), out.data);
        },
        a, b, out);
  }

  absl::Status DoAddRepeated(ConstMatrix in, ConstMatrix addend, Matrix out) override {
    return Do(
        "add repeated",
        [](cudaStream_t stream, auto in, auto addend, auto out) {
          return cuda_kernels::AddRepeated(stream, in, addend, out.data);
        },
        in, addend, out);
  }

  absl::Status DoSumRepeated(ConstMatrix in, bool accumulate, Matrix out) override {
    return Do(
        "sum repeated",
        [](cudaStream_t stream, auto in, auto accumulate, auto out) {
          return cuda_kernels::SumRepeated(stream, in, accumulate, out);
        },
        in, accumulate, out);
  }

  absl::Status DoLookup(ConstMatrix tokens, ConstMatrix table, Matrix out) override {
    bad_tokens_.Expect();
    return DoOnHost(
        "lookup",
        [](CudaBackend* self, const auto& tokens, const auto& table,
           const auto& out) -> absl::Status {
          ASSIGN_OR_RETURN(const CudaBadTokens::Call call, self->bad_tokens_.Begin());
          return self->lane_->Launch("lookup", [&](cudaStream_t stream) {
            return cuda_kernels::Lookup(stream, tokens, table, call.number, call.found, out.data);
          });
        },
        tokens, table, out);
  }

  absl::Status DoLookupBackward(ConstMatrix tokens, ConstMatrix output_gradient,
                                Matrix table_gradient) override {
    bad_tokens_.Expect();
    return DoOnHost(
        "lookup backward",
        [](CudaBackend* self, const auto& tokens, const auto& output_gradient,
           const auto& table_gradient) -> absl::Status {
          ASSIGN_OR_RETURN(const CudaBadTokens::Call call, self->bad_tokens_.Begin());
          ASSIGN_OR_RETURN(void* const scratch,
                           self->Scratch(cuda_kernels::LookupBackwardScratchBytes(tokens.size())));
          return self->lane_->Launch("lookup backward", [&](cudaStream_t stream) {
            return cuda_kernels::LookupBackward(stream, tokens, output_gradient, call.number,
                                                call.found, scratch, table_gradient);
          });
        },
        tokens, output_gradient, table_gradient);
  }

  absl::Status DoRmsNorm(ConstMatrix in, ConstMatrix gain, float epsilon, Matrix out,
                         Matrix inverse_rms) override {
    return Do(
        "rms norm",
        [](cudaStream_t stream, auto in, auto gain, auto epsilon, auto out, auto inverse_rms) {
          return cuda_kernels::RmsNorm(stream, in, gain.data, epsilon, out.data, inverse_rms.data);
        },
        in, gain, epsilon, out, inverse_rms);
  }

  absl::Status DoRmsNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix inverse_rms,
                                 ConstMatrix output_gradient, Matrix input_gradient) override {
    return Do(
        "rms norm backward",
        [](cudaStream_t stream, auto in, auto gain, auto inverse_rms, auto output_gradient,
           auto input_gradient) {
          return cuda_kernels::RmsNormBackward(stream, in, gain.data, inverse_rms.data,
                                               output_gradient.data, input_gradient.data);
        },
        in, gain, inverse_rms, output_gradient, input_gradient);
  }

  absl::Status DoRmsNormGainGradient(ConstMatrix in, ConstMatrix inverse_rms,
                                     ConstMatrix output_gradient, bool accumulate,
                                     Matrix gain_gradient) override {
    return DoWithScratch(
        "rms norm gain gradient", cuda_kernels::RmsNormGainGradientScratchBytes(in.rows, in.cols),
        [](cudaStream_t stream, void* scratch, auto in, auto inverse_rms, auto output_gradient,
           auto accumulate, auto gain_gradient) {
          return cuda_kernels::RmsNormGainGradient(stream, in, inverse_rms.data,
                                                   output_gradient.data, accumulate, scratch,
                                                   gain_gradient.data);
        },
        in, inverse_rms, output_gradient, accumulate, gain_gradient);
  }

  absl::Status DoRotate(const Rotation& rotation, ConstMatrix in, Matrix out) override {
    return DoOnHost(
        "rotate",
        [](CudaBackend* self, const auto& rotation, const auto& in,
           const auto& out) -> absl::Status {
          ASSIGN_OR_RETURN(const float* const table,
                           self->RotaryTable(rotation, in.cols / 3 / rotation.heads));
          return self->lane_->Launch("rotate", [&](cudaStream_t stream) {
            return cuda_kernels::Rotate(stream, rotation, in, table, out.data);
          });
        },
        rotation, in, out);
  }

  absl::Status DoCausalAttention(const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                                 Matrix log_sum) override {
    return Do(
        "causal attention",
        [](cudaStream_t stream, auto shape, auto qkv, auto out, auto log_sum, auto precision) {
          return cuda_kernels::CausalAttention(stream, shape, precision, qkv, out.data,
                                               log_sum.data);
        },
        shape, qkv, out, log_sum, precision_);
  }

  absl::Status DoCausalAttentionBackward(const AttentionShape& shape, ConstMatrix qkv,
                                         ConstMatrix out, ConstMatrix log_sum,
                                         ConstMatrix output_gradient,
                                         Matrix qkv_gradient) override {
    return DoWithScratch(
        "causal attention backward",
        cuda_kernels::CausalAttentionBackwardScratchBytes(shape, qkv.rows),
        [](cudaStream_t stream, void* scratch, auto shape, auto qkv, auto out, auto log_sum,
           auto output_gradient, auto qkv_gradient, auto precision) {
          return cuda_kernels::CausalAttentionBackward(stream, shape, precision, qkv, out.data,
                                                       log_sum.data, output_gradient.data, scratch,
                                                       qkv_gradient.data);
        },
        shape, qkv, out, log_sum, output_gradient, qkv_gradient, precision_);
  }

  absl::Status DoAddScaled(float scale, ConstMatrix in, bool accumulate, Matrix out) override {
    return Do(
        "add scaled",
        [](cudaStream_t stream, auto scale, auto in, auto accumulate, auto out) {
          return cuda_kernels::AddScaled(stream, scale, in.data, in.size(), accumulate, out.data);
        },
        scale, in, accumulate, out);
  }

  absl::Status DoCopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                             int64_t out_column) override {
    return Do(
        "copy columns",
        [](cudaStream_t stream, auto in, auto in_column, auto columns, auto out, auto out_column) {
          return cuda_kernels::CopyColumns(stream, in, in_column, columns, out, out_column);
        },
        in, in_column, columns, out, out_column);
  }

  absl::Status DoConv2d(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                        Epilogue epilogue, ConstMatrix bias, Matrix out) override {
    return DoOnHost(
        "conv2d",
        [](CudaBackend* self, const auto& shape, const auto& in, const auto& weight,
           const auto& epilogue, const auto& bias, const auto& out) {
          return self->conv2d_.Forward(shape, in, weight, epilogue, bias, out);
        },
        shape, in, weight, epilogue, bias, out);
  }

  absl::Status DoConv2dBackwardInput(const WindowShape& shape, ConstMatrix weight,
                                     ConstMatrix output_gradient, Matrix input_gradient) override {
    return DoOnHost(
        "conv2d backward input",
        [](CudaBackend* self, const auto& shape, const auto& weight, const auto& output_gradient,
           const auto& input_gradient) {
          return self->conv2d_.BackwardInput(shape, weight, output_gradient, input_gradient);
        },
        shape, weight, output_gradient, input_gradient);
  }

  absl::Status DoConv2dBackwardWeight(const WindowShape& shape, ConstMatrix in,
                                      ConstMatrix output_gradient, bool accumulate,
                                      Matrix weight_gradient) override {
    return DoOnHost(
        "conv2d backward weight",
        [](CudaBackend* self, const auto& shape, const auto& in, const auto& output_gradient,
           const auto& accumulate, const auto& weight_gradient) {
          return self->conv2d_.BackwardWeight(shape, in, output_gradient, accumulate,
                                              weight_gradient);
        },
        shape, in, output_gradient, accumulate, weight_gradient);
  }

  absl::Status DoMaxPool2d(const WindowShape& shape, ConstMatrix in, Matrix out) override {
    return Do(
        "max pool",
        [](cudaStream_t stream, auto shape, auto in, auto out) {
          return cuda_kernels::MaxPool2d(stream, shape, in, out.data);
        },
        shape, in, out);
  }

  absl::Status DoMaxPool2dBackward(const WindowShape& shape, ConstMatrix in, ConstMatrix out,
                                   ConstMatrix output_gradient, Matrix input_gradient) override {
    return Do(
        "max pool backward",
        [](cudaStream_t stream, auto shape, auto in, auto out, auto output_gradient,
           auto input_gradient) {
          return cuda_kernels::MaxPool2dBackward(stream, shape, in, out.data, output_gradient.data,
                                                 input_gradient.data);
        },
        shape, in, out, output_gradient, input_gradient);
  }

  absl::Status DoAveragePool2d(const WindowShape& shape, ConstMatrix in, Matrix out) override {
    return Do(
        "average pool",
        [](cudaStream_t stream, auto shape, auto in, auto out) {
          return cuda_kernels::AveragePool2d(stream, shape, in, out.data);
        },
        shape, in, out);
  }

  absl::Status DoAveragePool2dBackward(const WindowShape& shape, ConstMatrix output_gradient,
                                       Matrix input_gradient) override {
    return Do(
        "average pool backward",
        [](cudaStream_t stream, auto shape, auto output_gradient, auto input_gradient) {
          return cuda_kernels::AveragePool2dBackward(stream, shape, output_gradient,
                                                     input_gradient.data);
        },
        shape, output_gradient, input_gradient);
  }

  absl::Status DoColumnMoments(ConstMatrix in, Matrix mean, Matrix variance) override {
    return DoWithScratch(
        "column moments", cuda_kernels::ColumnMomentsScratchBytes(in.rows, in.cols),
        [](cudaStream_t stream, void* scratch, auto in, auto mean, auto variance) {
          return cuda_kernels::ColumnMoments(stream, in, scratch, mean.data, variance.data);
        },
        in, mean, variance);
  }

  absl::Status DoNormalizeColumns(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                  float epsilon, ConstMatrix gain, ConstMatrix bias,
                                  Matrix out) override {
    return Do(
        "normalize columns",
        [](cudaStream_t stream, auto in, auto mean, auto variance, auto epsilon, auto gain,
           auto bias, auto out) {
          return cuda_kernels::NormalizeColumns(stream, in, mean.data, variance.data, epsilon,
                                                gain.data, bias.data, out.data);
        },
        in, mean, variance, epsilon, gain, bias, out);
  }

  absl::Status DoBatchNormSums(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                               float epsilon, ConstMatrix output_gradient, Matrix sums) override {
    return DoWithScratch(
        "batch norm sums", cuda_kernels::BatchNormSumsScratchBytes(in.rows, in.cols),
        [](cudaStream_t stream, void* scratch, auto in, auto mean, auto variance, auto epsilon,
           auto output_gradient, auto sums) {
          return cuda_kernels::BatchNormSums(stream, in, mean.data, variance.data, epsilon,
                                             output_gradient.data, scratch, sums.data);
        },
        in, mean, variance, epsilon, output_gradient, sums);
  }

  absl::Status DoBatchNormBackward(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                   float epsilon, ConstMatrix gain, ConstMatrix sums,
                                   ConstMatrix output_gradient, Matrix input_gradient) override {
    return Do(
        "batch norm backward",
        [](cudaStream_t stream, auto in, auto mean, auto variance, auto epsilon, auto gain,
           auto sums, auto output_gradient, auto input_gradient) {
          return cuda_kernels::BatchNormBackward(stream, in, mean.data, variance.data, epsilon,
                                                 gain.data, sums.data, output_gradient.data,
                                                 input_gradient.data);
        },
        in, mean, variance, epsilon, gain, sums, output_gradient, input_gradient);
  }

  absl::Status DoLayerNorm(ConstMatrix in, ConstMatrix gain, ConstMatrix bias, float epsilon,
                           Matrix out, Matrix mean, Matrix inverse_deviation) override {
    return Do(
        "layer norm",
        [](cudaStream_t stream, auto in, auto gain, auto bias, auto epsilon, auto out, auto mean,
           auto inverse_deviation) {
          return cuda_kernels::LayerNorm(stream, in, gain.data, bias.data, epsilon, out.data,
                                         mean.data, inverse_deviation.data);
        },
        in, gain, bias, epsilon, out, mean, inverse_deviation);
  }

  absl::Status DoLayerNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix mean,
                                   ConstMatrix inverse_deviation, ConstMatrix output_gradient,
                                   Matrix input_gradient) override {
    return Do(
        "layer norm backward",
        [](cudaStream_t stream, auto in, auto gain, auto mean, auto inverse_deviation,
           auto output_gradient, auto input_gradient) {
          return cuda_kernels::LayerNormBackward(stream, in, gain.data, mean.data,
                                                 inverse_deviation.data, output_gradient.data,
                                                 input_gradient.data);
        },
        in, gain, mean, inverse_deviation, output_gradient, input_gradient);
  }

  absl::Status DoLayerNormParameterGradients(ConstMatrix in, ConstMatrix mean,
                                             ConstMatrix inverse_deviation,
                                             ConstMatrix output_gradient, bool accumulate,
                                             Matrix gain_gradient, Matrix bias_gradient) override {
    return DoWithScratch(
        "layer norm parameter gradients",
        cuda_kernels::LayerNormParameterGradientsScratchBytes(in.rows, in.cols),
        [](cudaStream_t stream, void* scratch, auto in, auto mean, auto inverse_deviation,
           auto output_gradient, auto accumulate, auto gain_gradient, auto bias_gradient) {
          return cuda_kernels::LayerNormParameterGradients(
              stream, in, mean.data, inverse_deviation.data, output_gradient.data, accumulate,
              scratch, gain_gradient.data, bias_gradient.data);
        },
        in, mean, inverse_deviation, output_gradient, accumulate, gain_gradient, bias_gradient);
  }

  absl::StatusOr<std::unique_ptr<PendingSums>> DoSquaredError(ConstMatrix outputs,
                                                              const float* targets,
                                                              Matrix* gradient) override {
    return RunLoss("squared error", targets, outputs.size(),
                   cuda_kernels::NumberLossScratchBytes(outputs.size()),
                   [&](const float* on_device, void* scratch, ClassificationSums* sums) {
                     return cuda_kernels::SquaredError(lane_->compute(), outputs, on_device,
                                                       DataOf(gradient), scratch, sums);
                   });
  }

  absl::StatusOr<std::unique_ptr<PendingSums>> DoBinaryCrossEntropy(ConstMatrix outputs,
                                                                    const float* targets,
                                                                    Matrix* gradient) override {
    return RunLoss("binary cross-entropy", targets, outputs.size(),
                   cuda_kernels::NumberLossScratchBytes(outputs.size()),
                   [&](const float* on_device, void* scratch, ClassificationSums* sums) {
                     return cuda_kernels::BinaryCrossEntropy(lane_->compute(), outputs, on_device,
                                                             DataOf(gradient), scratch, sums);
                   });
  }

  absl::StatusOr<std::unique_ptr<PendingSums>> DoSoftmaxCrossEntropy(ConstMatrix logits,
                                                                     const uint32_t* labels,
                                                                     Matrix* gradient) override {
    return RunLoss("softmax cross-entropy", labels, logits.rows,
                   cuda_kernels::SoftmaxCrossEntropyScratchBytes(logits.rows),
                   [&](const uint32_t* on_device, void* scratch, ClassificationSums* sums) {
                     return cuda_kernels::SoftmaxCrossEntropy(lane_->compute(), logits, on_device,
                                                              DataOf(gradient), scratch, sums);
                   });
  }

 private:
  absl::Status MakeRoom() {
    for (CudaScratch* scratch : Scratches()) RETURN_IF_ERROR(scratch->MakeRoom());
    RETURN_IF_ERROR(staging_.MakeRoom());
    RETURN_IF_ERROR(sums_.MakeRoom());
    RETURN_IF_ERROR(bad_tokens_.MakeRoom());
    return sequences_.MakeRoom();
  }

  absl::StatusOr<std::unique_ptr<BackendEvent>> EventOf(cudaStream_t stream) {
    ASSIGN_OR_RETURN(std::unique_ptr<CudaPoint> point, lane_->Record(stream));
    return std::make_unique<CudaEvent>(std::move(point));
  }

  // What follows in `stream` begins after `event`.
  absl::Status LetWait(cudaStream_t stream, const BackendEvent& event) {
    const auto* const of_device = dynamic_cast<const CudaEvent*>(&event);
    if (of_device == nullptr) return event.Wait();
    return lane_->Check(cudaStreamWaitEvent(stream, of_device->point().event(), 0), "wait for");
  }

  absl::StatusOr<void*> Scratch(size_t bytes) { return scratch_.Get(static_cast<int64_t>(bytes)); }

  // Asks for an operation or, in a sequence, keeps it. `Kind` is a type of the operation's own,
  // with nothing in it: what the operation is told is among the arguments, for only these tell one
  // sequence from another.
  template <typename Kind, typename Run, typename... Arguments>
  absl::Status AskFor(const char* name, Run run, const Arguments&... arguments) {
    static_assert(std::is_empty_v<Kind>, "found other things than arguments");
    const auto begin = [this, name, run](const Arguments&... told) -> absl::Status {
      RETURN_IF_ERROR(lane_->Begin(name));
      return run(told...);
    };
    if (!sequences_.is_open()) return begin(arguments...);
    sequences_.key()->Add(&kAddressOf<Kind>);
    (sequences_.key()->Add(arguments), ...);
    return sequences_.Keep(name, [begin, arguments...] { return begin(arguments...); });
  }

  // operation: (CudaBackend*, arguments) -> absl::Status.
  template <typename Operation, typename... Arguments>
  absl::Status DoOnHost(const char* name, Operation operation, const Arguments&... arguments) {
    return AskFor<Operation>(
        name, [this, operation](const Arguments&... told) { return operation(this, told...); },
        arguments...);
  }

  // kernels: (cudaStream_t, arguments) -> cudaError_t.
  template <typename Kernels, typename... Arguments>
  absl::Status Do(const char* name, Kernels kernels, const Arguments&... arguments) {
    return AskFor<Kernels>(
        name,
        [this, name, kernels](const Arguments&... told) {
          return lane_->Launch(name, [&](cudaStream_t stream) { return kernels(stream, told...); });
        },
        arguments...);
  }

  // kernels: (cudaStream_t, void* scratch, arguments) -> cudaError_t. The arguments decide about
  // `bytes`.
  template <typename Kernels, typename... Arguments>
  absl::Status DoWithScratch(const char* name, size_t bytes, Kernels kernels,
                             const Arguments&... arguments) {
    return AskFor<Kernels>(
        name,
        [this, name, bytes, kernels](const Arguments&... told) -> absl::Status {
          ASSIGN_OR_RETURN(void* const scratch, Scratch(bytes));
          return lane_->Launch(
              name, [&](cudaStream_t stream) { return kernels(stream, scratch, told...); });
        },
        arguments...);
  }

  template <typename Label, typename Launch>
  absl::StatusOr<std::unique_ptr<PendingSums>> RunLoss(const char* operation, const Label* labels,
                                                       int64_t count, size_t scratch_bytes,
                                                       const Launch& launch) {
    RETURN_IF_ERROR(sequences_.Submit());
    RETURN_IF_ERROR(lane_->Begin(operation));
    ASSIGN_OR_RETURN(const void* const on_device,
                     staging_.Take(labels, count * static_cast<int64_t>(sizeof(Label))));
    ASSIGN_OR_RETURN(void* const scratch, Scratch(scratch_bytes));
    if (lane_->rehearses()) return KnownSums({});
    ASSIGN_OR_RETURN(ClassificationSums* const sums, sums_.Cell());
    RETURN_IF_ERROR(
        lane_->Check(launch(static_cast<const Label*>(on_device), scratch, sums), operation));
    return sums_.Send();
  }

  // The table of these positions, this width and base, of which a job has one or two.
  absl::StatusOr<const float*> RotaryTable(const Rotation& rotation, int64_t head_width) {
    std::unique_ptr<RotaryTableMemory>& table =
        rotary_tables_[{rotation.positions, head_width, rotation.base}];
    if (table == nullptr) table = std::make_unique<RotaryTableMemory>(lane_.get());
    ASSIGN_OR_RETURN(void* const memory,
                     table->memory.Get(static_cast<int64_t>(
                         cuda_kernels::RotaryTableBytes(rotation.positions, head_width))));
    if (table->filled || lane_->rehearses()) return static_cast<const float*>(memory);
    RETURN_IF_ERROR(lane_->Launch("rotate", [&](cudaStream_t stream) {
      return cuda_kernels::FillRotaryTable(stream, rotation.positions, head_width, rotation.base,
                                           static_cast<float*>(memory));
    }));
    // What is recorded has not been done.
    table->filled = !lane_->records();
    return static_cast<const float*>(memory);
  }

  // All memories that grow with what operations ask for.
  std::vector<CudaScratch*> Scratches() {
    std::vector<CudaScratch*> all = {&scratch_, conv2d_.rows(), products_->operands()};
    for (const auto& [key, table] : rotary_tables_) all.push_back(&table->memory);
    return all;
  }

  struct RotaryTableMemory {
    explicit RotaryTableMemory(CudaLane* lane) : memory(lane) {}
    CudaScratch memory;
    bool filled = false;
  };
  using RotaryKey = std::tuple<int64_t, int64_t, float>;  // positions, head width, base

  const Precision precision_;
  std::unique_ptr<CudaLane> lane_;  // outlives the others
  std::unique_ptr<CudaProducts> products_;
  CudaConv2d conv2d_;
  CudaArena arena_;
  CudaScratch scratch_;  // of kernels
  std::map<RotaryKey, std::unique_ptr<RotaryTableMemory>> rotary_tables_;
  CudaStaging staging_;
  CudaSums sums_;
  CudaBadTokens bad_tokens_;
  CudaSequences sequences_;
};

BackendKind Cuda() {
  BackendKind cuda;
  cuda.name = "cuda";
  cuda.create = [](int device, Precision precision) {
    return CreateCudaBackend(device, precision);
  };
  // Tensor cores of all devices that can be opened multiply both short formats.
  cuda.is_native = [](int device, Precision) { return OpenCudaDevice(device).ok(); };
  cuda.describe = [](int device) -> absl::StatusOr<BackendDevice> {
    ASSIGN_OR_RETURN(CudaDevice opened, OpenCudaDevice(device));
    return std::move(opened.facts);
  };
  return cuda;
}

const bool kRegistered = RegisterBackend(Cuda());

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int device, Precision precision) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaLane> lane, CudaLane::Create(device));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaProducts> products,
                   CudaProducts::Create(lane.get(), precision));
  return std::make_unique<CudaBackend>(std::move(lane), std::move(products), precision);
}

}  // namespace sangam
