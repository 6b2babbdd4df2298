#include "worker/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/attention.h"
#include "worker/backend/cpu/batch_norm.h"
#include "worker/backend/cpu/conv2d.h"
#include "worker/backend/cpu/dropout.h"
#include "worker/backend/cpu/elementwise.h"
#include "worker/backend/cpu/embedding.h"
#include "worker/backend/cpu/gemm.h"
#include "worker/backend/cpu/layer_norm.h"
#include "worker/backend/cpu/number_losses.h"
#include "worker/backend/cpu/ordered_gemm.h"
#include "worker/backend/cpu/pooling.h"
#include "worker/backend/cpu/rms_norm.h"
#include "worker/backend/cpu/rotary.h"
#include "worker/backend/cpu/softmax.h"
#include "worker/backend/precision.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

class CpuMemory : public BackendMemory {
 public:
  explicit CpuMemory(FloatBuffer buffer)
      : BackendMemory(buffer.data(), static_cast<int64_t>(buffer.size())),
        buffer_(std::move(buffer)) {}

 private:
  FloatBuffer buffer_;
};

void Finish(Epilogue epilogue, const float* bias, Matrix product) {
  switch (epilogue) {
    case Epilogue::kNone:
      return;
    case Epilogue::kBias:
      cpu_kernels::AddBias(bias, product);
      return;
    case Epilogue::kBiasRelu:
      cpu_kernels::AddBiasRelu(bias, product);
      return;
  }
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(Precision precision)
      : gemm_(precision), attention_(precision), orders_products_(CpuOrdersProducts(precision)) {}

  absl::string_view name() const override { return "cpu"; }
  bool uses_host_memory() const override { return true; }
  bool rows_stand_alone() const override { return orders_products_; }
  absl::Status Synchronize() override { return absl::OkStatus(); }

 protected:
  absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t num_elements) override {
    ASSIGN_OR_RETURN(FloatBuffer buffer, FloatBuffer::Allocate(static_cast<size_t>(num_elements)));
    return std::make_unique<CpuMemory>(std::move(buffer));
  }

  absl::Status DoUpload(const float* host, Matrix to) override {
    std::copy_n(host, to.size(), to.data);
    return absl::OkStatus();
  }

  absl::Status DoDownload(ConstMatrix from, float* host) override {
    std::copy_n(from.data, from.size(), host);
    return absl::OkStatus();
  }

  absl::Status DoFill(float value, Matrix out) override {
    std::fill_n(out.data, out.size(), value);
    return absl::OkStatus();
  }

  absl::Status DoCopy(ConstMatrix in, Matrix out) override {
    std::copy_n(in.data, in.size(), out.data);
    return absl::OkStatus();
  }

  absl::Status DoGemm(const GemmArguments& arguments) override {
    if (arguments.rows_wanted != nullptr && !orders_products_) {
      RETURN_IF_ERROR((*arguments.rows_wanted)(arguments.b.rows));
    }
    RETURN_IF_ERROR(orders_products_ ? ordered_.Multiply(arguments) : gemm_.Multiply(arguments));
    Finish(arguments.epilogue, arguments.bias.data, arguments.c);
    return absl::OkStatus();
  }

  absl::Status DoSumRows(ConstMatrix in, bool accumulate, Matrix out) override {
    cpu_kernels::SumRows(in, accumulate, out.data);
    return absl::OkStatus();
  }

  absl::Status DoGemmOfTerms(ConstMatrix a, ConstMatrix b, const std::vector<RowTerm>& terms,
                             Matrix c, const RowsDone* rows_done) override {
    if (!orders_products_) return Backend::DoGemmOfTerms(a, b, terms, c, rows_done);
    return ordered_.MultiplyTerms(a, b, terms, c, rows_done);
  }

  absl::Status DoSumRowsOfTerms(ConstMatrix in, const std::vector<RowTerm>& terms,
                                Matrix out) override {
    if (!orders_products_) return Backend::DoSumRowsOfTerms(in, terms, out);
    // Sums that wait; the first one waits in `out`.
    const int64_t size = kMaxRowTermDepth * in.cols;
    if (static_cast<int64_t>(waiting_sums_.size()) < size) {
      waiting_sums_ = FloatBuffer();  // frees first
      ASSIGN_OR_RETURN(waiting_sums_, FloatBuffer::Allocate(static_cast<size_t>(size)));
    }
    const auto place = [&](uint32_t depth) {
      return depth == 0 ? out.data : waiting_sums_.data() + depth * in.cols;
    };
    uint32_t depth = 0;
    for (const RowTerm& term : terms) {
      cpu_kernels::SumRows({in.data, term.rows, in.cols}, false, place(depth));
      ++depth;
      in.data += term.rows * in.cols;
      for (uint32_t i = 0; i < term.additions; ++i) {
        --depth;
        cpu_kernels::Add(place(depth - 1), place(depth), in.cols, place(depth - 1));
      }
    }
    return absl::OkStatus();
  }

  absl::Status DoActivate(Activation activation, ConstMatrix in, Matrix out) override {
    cpu_kernels::Activate(activation, in, out.data);
    return absl::OkStatus();
  }

  absl::Status DoActivateBackward(Activation activation, ConstMatrix kept,
                                  ConstMatrix output_gradient, Matrix input_gradient) override {
    cpu_kernels::ActivateBackward(activation, kept.data, output_gradient, input_gradient.data);
    return absl::OkStatus();
  }

  absl::Status DoDropout(const DropoutAddress& address, float rate, ConstMatrix in,
                         Matrix out) override {
    cpu_kernels::Dropout(address, rate, in, out.data);
    return absl::OkStatus();
  }

  absl::Status DoAdd(ConstMatrix a, ConstMatrix b, Matrix out) override {
    cpu_kernels::Add(a.data, b.data, out.size(), out.data);
    return absl::OkStatus();
  }

  absl::Status DoAddRepeated(ConstMatrix in, ConstMatrix addend, Matrix out) override {
    cpu_kernels::AddRepeated(in, addend, out.data);
    return absl::OkStatus();
  }

  absl::Status DoSumRepeated(ConstMatrix in, bool accumulate, Matrix out) override {
    cpu_kernels::SumRepeated(in, accumulate, out);
    return absl::OkStatus();
  }

  absl::Status DoLookup(ConstMatrix tokens, ConstMatrix table, Matrix out) override {
    return cpu_kernels::Lookup(tokens, table, out.data);
  }

  absl::Status DoLookupBackward(ConstMatrix tokens, ConstMatrix output_gradient,
                                Matrix table_gradient) override {
    return cpu_kernels::LookupBackward(tokens, output_gradient, table_gradient);
  }

  absl::Status DoRmsNorm(ConstMatrix in, ConstMatrix gain, float epsilon, Matrix out,
                         Matrix inverse_rms) override {
    cpu_kernels::RmsNorm(in, gain.data, epsilon, out.data, inverse_rms.data);
    return absl::OkStatus();
  }

  absl::Status DoRmsNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix inverse_rms,
                                 ConstMatrix output_gradient, Matrix input_gradient) override {
    cpu_kernels::RmsNormBackward(in, gain.data, inverse_rms.data, output_gradient.data,
                                 input_gradient.data);
    return absl::OkStatus();
  }

  absl::Status DoRmsNormGainGradient(ConstMatrix in, ConstMatrix inverse_rms,
                                     ConstMatrix output_gradient, bool accumulate,
                                     Matrix gain_gradient) override {
    cpu_kernels::RmsNormGainGradient(in, inverse_rms.data, output_gradient.data, accumulate,
                                     gain_gradient.data);
    return absl::OkStatus();
  }

  absl::Status DoRotate(const Rotation& rotation, ConstMatrix in, Matrix out) override {
    return rotary_.Rotate(rotation, in, out.data);
  }

  absl::Status DoCausalAttention(const AttentionShape& shape, ConstMatrix qkv, Matrix out,
                                 Matrix log_sum) override {
    return attention_.Forward(shape, qkv, out.data, log_sum.data);
  }

  absl::Status DoCausalAttentionBackward(const AttentionShape& shape, ConstMatrix qkv,
                                         ConstMatrix out, ConstMatrix log_sum,
                                         ConstMatrix output_gradient,
                                         Matrix qkv_gradient) override {
    return attention_.Backward(shape, qkv, out.data, log_sum.data, output_gradient.data,
                               qkv_gradient.data);
  }

  absl::Status DoAddScaled(float scale, ConstMatrix in, bool accumulate, Matrix out) override {
    cpu_kernels::AddScaled(scale, in.data, in.size(), accumulate, out.data);
    return absl::OkStatus();
  }

  absl::Status DoCopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                             int64_t out_column) override {
    cpu_kernels::CopyColumns(in, in_column, columns, out, out_column);
    return absl::OkStatus();
  }

  absl::Status DoConv2d(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                        Epilogue epilogue, ConstMatrix bias, Matrix out) override {
    RETURN_IF_ERROR(conv2d_.Forward(&gemm_, shape, in, weight, out));
    Finish(epilogue, bias.data, {out.data, out.size() / shape.out_channels, shape.out_channels});
    return absl::OkStatus();
  }

  absl::Status DoConv2dBackwardInput(const WindowShape& shape, ConstMatrix weight,
                                     ConstMatrix output_gradient, Matrix input_gradient) override {
    return conv2d_.BackwardInput(&gemm_, shape, weight, output_gradient, input_gradient);
  }

  absl::Status DoConv2dBackwardWeight(const WindowShape& shape, ConstMatrix in,
                                      ConstMatrix output_gradient, bool accumulate,
                                      Matrix weight_gradient) override {
    return conv2d_.BackwardWeight(&gemm_, shape, in, output_gradient, accumulate, weight_gradient);
  }

  absl::Status DoMaxPool2d(const WindowShape& shape, ConstMatrix in, Matrix out) override {
    cpu_kernels::MaxPool2d(shape, in, out.data);
    return absl::OkStatus();
  }

  absl::Status DoMaxPool2dBackward(const WindowShape& shape, ConstMatrix in, ConstMatrix out,
                                   ConstMatrix output_gradient, Matrix input_gradient) override {
    cpu_kernels::MaxPool2dBackward(shape, in, out.data, output_gradient.data, input_gradient.data);
    return absl::OkStatus();
  }

  absl::Status DoAveragePool2d(const WindowShape& shape, ConstMatrix in, Matrix out) override {
    cpu_kernels::AveragePool2d(shape, in, out.data);
    return absl::OkStatus();
  }

  absl::Status DoAveragePool2dBackward(const WindowShape& shape, ConstMatrix output_gradient,
                                       Matrix input_gradient) override {
    cpu_kernels::AveragePool2dBackward(shape, output_gradient, input_gradient.data);
    return absl::OkStatus();
  }

  absl::Status DoColumnMoments(ConstMatrix in, Matrix mean, Matrix variance) override {
    cpu_kernels::ColumnMoments(in, mean.data, variance.data);
    return absl::OkStatus();
  }

  absl::Status DoNormalizeColumns(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                  float epsilon, ConstMatrix gain, ConstMatrix bias,
                                  Matrix out) override {
    cpu_kernels::NormalizeColumns(in, mean.data, variance.data, epsilon, gain.data, bias.data,
                                  out.data);
    return absl::OkStatus();
  }

  absl::Status DoBatchNormSums(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                               float epsilon, ConstMatrix output_gradient, Matrix sums) override {
    cpu_kernels::BatchNormSums(in, mean.data, variance.data, epsilon, output_gradient.data,
                               sums.data);
    return absl::OkStatus();
  }

  absl::Status DoBatchNormBackward(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                   float epsilon, ConstMatrix gain, ConstMatrix sums,
                                   ConstMatrix output_gradient, Matrix input_gradient) override {
    cpu_kernels::BatchNormBackward(in, mean.data, variance.data, epsilon, gain.data, sums.data,
                                   output_gradient.data, input_gradient.data);
    return absl::OkStatus();
  }

  absl::Status DoLayerNorm(ConstMatrix in, ConstMatrix gain, ConstMatrix bias, float epsilon,
                           Matrix out, Matrix mean, Matrix inverse_deviation) override {
    cpu_kernels::LayerNorm(in, gain.data, bias.data, epsilon, out.data, mean.data,
                           inverse_deviation.data);
    return absl::OkStatus();
  }

  absl::Status DoLayerNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix mean,
                                   ConstMatrix inverse_deviation, ConstMatrix output_gradient,
                                   Matrix input_gradient) override {
    cpu_kernels::LayerNormBackward(in, gain.data, mean.data, inverse_deviation.data,
                                   output_gradient.data, input_gradient.data);
    return absl::OkStatus();
  }

  absl::Status DoLayerNormParameterGradients(ConstMatrix in, ConstMatrix mean,
                                             ConstMatrix inverse_deviation,
                                             ConstMatrix output_gradient, bool accumulate,
                                             Matrix gain_gradient, Matrix bias_gradient) override {
    cpu_kernels::LayerNormParameterGradients(in, mean.data, inverse_deviation.data,
                                             output_gradient.data, accumulate, gain_gradient.data,
                                             bias_gradient.data);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<PendingSums>> DoSquaredError(ConstMatrix outputs,
                                                              const float* targets,
                                                              Matrix* gradient) override {
    return KnownSums({cpu_kernels::SquaredError(outputs, targets,
                                                gradient == nullptr ? nullptr : gradient->data),
                      0});
  }

  absl::StatusOr<std::unique_ptr<PendingSums>> DoBinaryCrossEntropy(ConstMatrix outputs,
                                                                    const float* targets,
                                                                    Matrix* gradient) override {
    return KnownSums(cpu_kernels::BinaryCrossEntropy(
        outputs, targets, gradient == nullptr ? nullptr : gradient->data));
  }

  absl::StatusOr<std::unique_ptr<PendingSums>> DoSoftmaxCrossEntropy(ConstMatrix logits,
                                                                     const uint32_t* labels,
                                                                     Matrix* gradient) override {
    return KnownSums(cpu_kernels::SoftmaxCrossEntropy(
        logits, labels, gradient == nullptr ? nullptr : gradient->data));
  }

 private:
  CpuGemm gemm_;
  OrderedGemm ordered_;
  FloatBuffer waiting_sums_;
  CpuRotary rotary_;
  CpuAttention attention_;
  const bool orders_products_;
  CpuConv2d conv2d_;
};

}  // namespace

bool CpuOrdersProducts(Precision precision) {
  return precision == Precision::kFp32 && OneDnnUsesAvx2() && OrderedGemm::Available();
}

std::string CpuKernelSet() {
  const bool lacks_fma = OneDnnUsesAvx2() && !OrderedGemm::Available();
  return absl::StrCat(OneDnnKernels(), lacks_fma ? " without FMA" : "");
}

std::unique_ptr<Backend> CreateCpuBackend(Precision precision) {
  return std::make_unique<CpuBackend>(precision);
}

}  // namespace sangam
