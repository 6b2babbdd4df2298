#include "worker/backend/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

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
#include "worker/backend/cuda/staging.h"
#include "worker/backend/cuda/sums.h"
#include "worker/backend/precision.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

size_t FloatBytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

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
        rotary_table_(lane_.get()),
        staging_(lane_.get()),
        sums_(lane_.get()),
        bad_tokens_(lane_.get()) {}
  // What is in the streams uses the memory that goes now.
  ~CudaBackend() override { lane_->Synchronize().IgnoreError(); }

  absl::string_view name() const override { return "cuda"; }
  bool uses_host_memory() const override { return false; }

  absl::Status Reserve(int64_t num_elements) override { return arena_.Reserve(num_elements); }

  absl::Status Synchronize() override {
    RETURN_IF_ERROR(lane_->Synchronize());
    return bad_tokens_.Check();
  }

  absl::StatusOr<std::unique_ptr<BackendEvent>> Record() override {
    RETURN_IF_ERROR(lane_->Begin("record"));
    return EventOf(lane_->compute());
  }

  absl::Status WaitFor(const BackendEvent& event) override {
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
    return arena_.Allocate(num_elements);
  }

  absl::Status DoUpload(const float* host, Matrix to) override {
    return lane_->Run("upload", [&](cudaStream_t stream) {
      return cudaMemcpyAsync(to.data, host, FloatBytes(to.size()), cudaMemcpyHostToDevice, stream);
    });
  }

  absl::Status DoDownload(ConstMatrix from, float* host) override {
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
    return lane_->Run("fill",
                      [&](cudaStream_t stream) { return cuda_kernels::Fill(stream, value, out); });
  }

  absl::Status DoCopy(ConstMatrix in, Matrix out) override {
    return lane_->Run("copy", [&](cudaStream_t stream) {
      return cuda_kernels::Copy(stream, in.data, in.size(), out.data);
    });
  }

  absl::Status DoGemm(const GemmArguments& arguments) override {
    RETURN_IF_ERROR(lane_->Begin("gemm"));
    return products_->Multiply(arguments);
  }

  absl::Status DoSumRows(ConstMatrix in, bool accumulate, Matrix out) override {
    return RunWithScratch("sum rows", cuda_kernels::SumRowsScratchBytes(in.rows, in.cols),
                          [&](cudaStream_t stream, void* scratch) {
                            return cuda_kernels::SumRows(stream, in, accumulate, scratch, out.data);
                          });
  }

  absl::Status DoActivate(Activation activation, ConstMatrix in, Matrix out) override {
    return lane_->Run("activate", [&](cudaStream_t stream) {
      return cuda_kernels::Activate(stream, activation, in, out.data);
    });
  }

  absl::Status DoActivateBackward(Activation activation, ConstMatrix kept,
                                  ConstMatrix output_gradient, Matrix input_gradient) override {
    return lane_->Run("activate backward", [&](cudaStream_t stream) {
      return cuda_kernels::ActivateBackward(stream, activation, kept.data, output_gradient,
                                            input_gradient.data);
    });
  }

  absl::Status DoDropout(const DropoutAddress& address, float rate, ConstMatrix in,
                         Matrix out) override {
    return lane_->Run("dropout", [&](cudaStream_t stream) {
      return cuda_kernels::Dropout(stream, address, rate, in, out.data);
    });
  }

  absl::Status DoAdd(ConstMatrix a, ConstMatrix b, Matrix out) override {
    return lane_->Run("add", [&](cudaStream_t stream) {
      return cuda_kernels::Add(stream, a.data, b.data, out.size(), out.data);
    });
  }

  absl::Status DoAddRepeated(ConstMatrix in, ConstMatrix addend, Matrix out) override {
    return lane_->Run("add repeated", [&](cudaStream_t stream) {
      return cuda_kernels::AddRepeated(stream, in, addend, out.data);
    });
  }

  absl::Status DoSumRepeated(ConstMatrix in, bool accumulate, Matrix out) override {
    return lane_->Run("sum repeated", [&](cudaStream_t stream) {
      return cuda_kernels::SumRepeated(stream, in, accumulate, out);
    });
  }

  absl::Status DoLookup(ConstMatrix tokens, ConstMatrix table, Matrix out) override {
    RETURN_IF_ERROR(lane_->Begin("lookup"));
    ASSIGN_OR_RETURN(const CudaBadTokens::Call call, bad_tokens_.Begin());
    return lane_->Check(
        cuda_kernels::Lookup(lane_->compute(), tokens, table, call.number, call.found, out.data),
        "lookup");
  }

  absl::Status DoLookupBackward(ConstMatrix tokens, ConstMatrix output_gradient,
                                Matrix table_gradient) override {
    RETURN_IF_ERROR(lane_->Begin("lookup backward"));
    ASSIGN_OR_RETURN(const CudaBadTokens::Call call, bad_tokens_.Begin());
    ASSIGN_OR_RETURN(void* const scratch,
                     Scratch(cuda_kernels::LookupBackwardScratchBytes(tokens.size())));
    return lane_->Check(
        cuda_kernels::LookupBackward(lane_->compute(), tokens, output_gradient, call.number,
                                     call.found, scratch, table_gradient),
        "lookup backward");
  }

  absl::Status DoRmsNorm(ConstMatrix in, ConstMatrix gain, float epsilon, Matrix out,
                         Matrix inverse_rms) override {
    return lane_->Run("rms norm", [&](cudaStream_t stream) {
      return cuda_kernels::RmsNorm(stream, in, gain.data, epsilon, out.data, inverse_rms.data);
    });
  }

  absl::Status DoRmsNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix inverse_rms,
                                 ConstMatrix output_gradient, Matrix input_gradient) override {
    return lane_->Run("rms norm backward", [&](cudaStream_t stream) {
      return cuda_kernels::RmsNormBackward(stream, in, gain.data, inverse_rms.data,
                                           output_gradient.data, input_gradient.data);
    });
  }

  absl::Status DoRmsNormGainGradient(ConstMatrix in, ConstMatrix inverse_rms,
                                     ConstMatrix output_gradient, bool accumulate,
                                     Matrix gain_gradient) override {
    return RunWithScratch("rms norm gain gradient",
                          cuda_kernels::RmsNormGainGradientScratchBytes(in.rows, in.cols),
                          [&](cudaStream_t stream, void* scratch) {
                            return cuda_kernels::RmsNormGainGradient(
                                stream, in, inverse_rms.data, output_gradient.data, accumulate,
                                scratch, gain_gradient.data);
                          });
  }

  absl::Status DoRotate(const Rotation& rotation, ConstMatrix in, Matrix out) override {
    RETURN_IF_ERROR(lane_->Begin("rotate"));
    ASSIGN_OR_RETURN(const float* const table, RotaryTable(rotation, in.cols / 3 / rotation.heads));
    return lane_->Check(cuda_kernels::Rotate(lane_->compute(), rotation, in, table, out.data),
                        "rotate");
  }

  absl::Status DoCausalAttention(const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                                 Matrix log_sum) override {
    return lane_->Run("causal attention", [&](cudaStream_t stream) {
      return cuda_kernels::CausalAttention(stream, shape, precision_, qkv, out.data, log_sum.data);
    });
  }

  absl::Status DoCausalAttentionBackward(const AttentionShape& shape, ConstMatrix qkv,
                                         ConstMatrix out, ConstMatrix log_sum,
                                         ConstMatrix output_gradient,
                                         Matrix qkv_gradient) override {
    return RunWithScratch("causal attention backward",
                          cuda_kernels::CausalAttentionBackwardScratchBytes(shape, qkv.rows),
                          [&](cudaStream_t stream, void* scratch) {
                            return cuda_kernels::CausalAttentionBackward(
                                stream, shape, precision_, qkv, out.data, log_sum.data,
                                output_gradient.data, scratch, qkv_gradient.data);
                          });
  }

  absl::Status DoAddScaled(float scale, ConstMatrix in, bool accumulate, Matrix out) override {
    return lane_->Run("add scaled", [&](cudaStream_t stream) {
      return cuda_kernels::AddScaled(stream, scale, in.data, in.size(), accumulate, out.data);
    });
  }

  absl::Status DoCopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                             int64_t out_column) override {
    return lane_->Run("copy columns", [&](cudaStream_t stream) {
      return cuda_kernels::CopyColumns(stream, in, in_column, columns, out, out_column);
    });
  }

  absl::Status DoConv2d(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                        Epilogue epilogue, ConstMatrix bias, Matrix out) override {
    RETURN_IF_ERROR(lane_->Begin("conv2d"));
    return conv2d_.Forward(shape, in, weight, epilogue, bias, out);
  }

  absl::Status DoConv2dBackwardInput(const WindowShape& shape, ConstMatrix weight,
                                     ConstMatrix output_gradient, Matrix input_gradient) override {
    RETURN_IF_ERROR(lane_->Begin("conv2d backward input"));
    return conv2d_.BackwardInput(shape, weight, output_gradient, input_gradient);
  }

  absl::Status DoConv2dBackwardWeight(const WindowShape& shape, ConstMatrix in,
                                      ConstMatrix output_gradient, bool accumulate,
                                      Matrix weight_gradient) override {
    RETURN_IF_ERROR(lane_->Begin("conv2d backward weight"));
    return conv2d_.BackwardWeight(shape, in, output_gradient, accumulate, weight_gradient);
  }

  absl::Status DoMaxPool2d(const WindowShape& shape, ConstMatrix in, Matrix out) override {
    return lane_->Run("max pool", [&](cudaStream_t stream) {
      return cuda_kernels::MaxPool2d(stream, shape, in, out.data);
    });
  }

  absl::Status DoMaxPool2dBackward(const WindowShape& shape, ConstMatrix in, ConstMatrix out,
                                   ConstMatrix output_gradient, Matrix input_gradient) override {
    return lane_->Run("max pool backward", [&](cudaStream_t stream) {
      return cuda_kernels::MaxPool2dBackward(stream, shape, in, out.data, output_gradient.data,
                                             input_gradient.data);
    });
  }

  absl::Status DoAveragePool2d(const WindowShape& shape, ConstMatrix in, Matrix out) override {
    return lane_->Run("average pool", [&](cudaStream_t stream) {
      return cuda_kernels::AveragePool2d(stream, shape, in, out.data);
    });
  }

  absl::Status DoAveragePool2dBackward(const WindowShape& shape, ConstMatrix output_gradient,
                                       Matrix input_gradient) override {
    return lane_->Run("average pool backward", [&](cudaStream_t stream) {
      return cuda_kernels::AveragePool2dBackward(stream, shape, output_gradient,
                                                 input_gradient.data);
    });
  }

  absl::Status DoColumnMoments(ConstMatrix in, Matrix mean, Matrix variance) override {
    return RunWithScratch(
        "column moments", cuda_kernels::ColumnMomentsScratchBytes(in.rows, in.cols),
        [&](cudaStream_t stream, void* scratch) {
          return cuda_kernels::ColumnMoments(stream, in, scratch, mean.data, variance.data);
        });
  }

  absl::Status DoNormalizeColumns(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                  float epsilon, ConstMatrix gain, ConstMatrix bias,
                                  Matrix out) override {
    return lane_->Run("normalize columns", [&](cudaStream_t stream) {
      return cuda_kernels::NormalizeColumns(stream, in, mean.data, variance.data, epsilon,
                                            gain.data, bias.data, out.data);
    });
  }

  absl::Status DoBatchNormSums(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                               float epsilon, ConstMatrix output_gradient, Matrix sums) override {
    return RunWithScratch(
        "batch norm sums", cuda_kernels::BatchNormSumsScratchBytes(in.rows, in.cols),
        [&](cudaStream_t stream, void* scratch) {
          return cuda_kernels::BatchNormSums(stream, in, mean.data, variance.data, epsilon,
                                             output_gradient.data, scratch, sums.data);
        });
  }

  absl::Status DoBatchNormBackward(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                   float epsilon, ConstMatrix gain, ConstMatrix sums,
                                   ConstMatrix output_gradient, Matrix input_gradient) override {
    return lane_->Run("batch norm backward", [&](cudaStream_t stream) {
      return cuda_kernels::BatchNormBackward(stream, in, mean.data, variance.data, epsilon,
                                             gain.data, sums.data, output_gradient.data,
                                             input_gradient.data);
    });
  }

  absl::Status DoLayerNorm(ConstMatrix in, ConstMatrix gain, ConstMatrix bias, float epsilon,
                           Matrix out, Matrix mean, Matrix inverse_deviation) override {
    return lane_->Run("layer norm", [&](cudaStream_t stream) {
      return cuda_kernels::LayerNorm(stream, in, gain.data, bias.data, epsilon, out.data, mean.data,
                                     inverse_deviation.data);
    });
  }

  absl::Status DoLayerNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix mean,
                                   ConstMatrix inverse_deviation, ConstMatrix output_gradient,
                                   Matrix input_gradient) override {
    return lane_->Run("layer norm backward", [&](cudaStream_t stream) {
      return cuda_kernels::LayerNormBackward(stream, in, gain.data, mean.data,
                                             inverse_deviation.data, output_gradient.data,
                                             input_gradient.data);
    });
  }

  absl::Status DoLayerNormParameterGradients(ConstMatrix in, ConstMatrix mean,
                                             ConstMatrix inverse_deviation,
                                             ConstMatrix output_gradient, bool accumulate,
                                             Matrix gain_gradient, Matrix bias_gradient) override {
    return RunWithScratch("layer norm parameter gradients",
                          cuda_kernels::LayerNormParameterGradientsScratchBytes(in.rows, in.cols),
                          [&](cudaStream_t stream, void* scratch) {
                            return cuda_kernels::LayerNormParameterGradients(
                                stream, in, mean.data, inverse_deviation.data, output_gradient.data,
                                accumulate, scratch, gain_gradient.data, bias_gradient.data);
                          });
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

  template <typename Launch>
  absl::Status RunWithScratch(const char* operation, size_t bytes, const Launch& launch) {
    RETURN_IF_ERROR(lane_->Begin(operation));
    ASSIGN_OR_RETURN(void* const scratch, Scratch(bytes));
    return lane_->Check(launch(lane_->compute(), scratch), operation);
  }

  template <typename Label, typename Launch>
  absl::StatusOr<std::unique_ptr<PendingSums>> RunLoss(const char* operation, const Label* labels,
                                                       int64_t count, size_t scratch_bytes,
                                                       const Launch& launch) {
    RETURN_IF_ERROR(lane_->Begin(operation));
    ASSIGN_OR_RETURN(const void* const on_device,
                     staging_.Take(labels, count * static_cast<int64_t>(sizeof(Label))));
    ASSIGN_OR_RETURN(void* const scratch, Scratch(scratch_bytes));
    ASSIGN_OR_RETURN(ClassificationSums* const sums, sums_.Cell());
    RETURN_IF_ERROR(
        lane_->Check(launch(static_cast<const Label*>(on_device), scratch, sums), operation));
    return sums_.Send();
  }

  // The table of the last positions, width and base: those of a job are all alike.
  absl::StatusOr<const float*> RotaryTable(const Rotation& rotation, int64_t head_width) {
    ASSIGN_OR_RETURN(void* const memory,
                     rotary_table_.Get(static_cast<int64_t>(
                         cuda_kernels::RotaryTableBytes(rotation.positions, head_width))));
    auto* const table = static_cast<float*>(memory);
    const RotaryKey key = {rotation.positions, head_width, rotation.base, table};
    if (key == rotary_key_) return table;
    RETURN_IF_ERROR(lane_->Check(cuda_kernels::FillRotaryTable(lane_->compute(), rotation.positions,
                                                               head_width, rotation.base, table),
                                 "rotate"));
    rotary_key_ = key;
    return table;
  }

  using RotaryKey = std::tuple<int64_t, int64_t, float, const float*>;

  const Precision precision_;
  std::unique_ptr<CudaLane> lane_;  // outlives the others
  std::unique_ptr<CudaProducts> products_;
  CudaConv2d conv2d_;
  CudaArena arena_;
  CudaScratch scratch_;  // of kernels
  CudaScratch rotary_table_;
  RotaryKey rotary_key_ = {};
  CudaStaging staging_;
  CudaSums sums_;
  CudaBadTokens bad_tokens_;
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
