#ifndef SANGAM_TESTS_WORKER_LAYERS_SIZE_BACKEND_H_
#define SANGAM_TESTS_WORKER_LAYERS_SIZE_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/testing/stub_backend.h"
#include "worker/backend/backend.h"

namespace sangam::testing {

// A backend that computes nothing and counts what it is asked to allocate.
class SizeBackend : public StubBackend {
 public:
  absl::string_view name() const override { return "size"; }

  uint64_t allocated_bytes() const { return allocated_bytes_; }

 protected:
  absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t num_elements) override {
    allocated_bytes_ += sizeof(float) * static_cast<uint64_t>(num_elements);
    return std::make_unique<Memory>(std::vector<float>(static_cast<size_t>(num_elements)));
  }
<<<<<<< HEAD
  absl::Status DoUpload(const float*, Matrix) override { return None(); }
  absl::Status DoDownload(ConstMatrix, float*) override { return None(); }
  absl::Status DoFill(float, Matrix) override { return None(); }
  absl::Status DoCopy(ConstMatrix, Matrix) override { return None(); }
  absl::Status DoGemm(const GemmArguments&) override { return None(); }
  absl::Status DoSumRows(ConstMatrix, bool, Matrix) override { return None(); }
  absl::Status DoActivate(Activation, ConstMatrix, Matrix) override { return None(); }
  absl::Status DoActivateBackward(Activation, ConstMatrix, ConstMatrix, Matrix) override {
    return None();
  }
  absl::Status DoDropout(const DropoutAddress&, float, ConstMatrix, Matrix) override {
    return None();
  }
  absl::Status DoAdd(ConstMatrix, ConstMatrix, Matrix) override { return None(); }
  absl::Status DoAddRepeated(ConstMatrix, ConstMatrix, Matrix) override { return None(); }
  absl::Status DoSumRepeated(ConstMatrix, bool, Matrix) override { return None(); }
  absl::Status DoLookup(ConstMatrix, ConstMatrix, Matrix) override { return None(); }
  absl::Status DoLookupBackward(ConstMatrix, ConstMatrix, Matrix) override { return None(); }
  absl::Status DoRmsNorm(ConstMatrix, ConstMatrix, float, Matrix, Matrix) override {
    return None();
  }
  absl::Status DoRmsNormBackward(ConstMatrix, ConstMatrix, ConstMatrix, ConstMatrix,
                                 Matrix) override {
    return None();
  }
  absl::Status DoRmsNormGainGradient(ConstMatrix, ConstMatrix, ConstMatrix, bool, Matrix) override {
    return None();
  }
  absl::Status DoRotate(const Rotation&, ConstMatrix, Matrix) override { return None(); }
  absl::Status DoCausalAttention(const AttentionShape&, ConstMatrix, Matrix, Matrix) override {
    return None();
  }
  absl::Status DoCausalAttentionBackward(const AttentionShape&, ConstMatrix, ConstMatrix,
                                         ConstMatrix, ConstMatrix, Matrix) override {
    return None();
  }
  absl::Status DoAddScaled(float, ConstMatrix, bool, Matrix) override { return None(); }
  absl::Status DoCopyColumns(ConstMatrix, int64_t, int64_t, Matrix, int64_t) override {
    return None();
  }
  absl::Status DoConv2d(const WindowShape&, ConstMatrix, ConstMatrix, Epilogue, ConstMatrix,
                        Matrix) override {
    return None();
  }
  absl::Status DoConv2dBackwardInput(const WindowShape&, ConstMatrix, ConstMatrix,
                                     Matrix) override {
    return None();
  }
  absl::Status DoConv2dBackwardWeight(const WindowShape&, ConstMatrix, ConstMatrix, bool,
                                      Matrix) override {
    return None();
  }
  absl::Status DoMaxPool2d(const WindowShape&, ConstMatrix, Matrix) override { return None(); }
  absl::Status DoMaxPool2dBackward(const WindowShape&, ConstMatrix, ConstMatrix, ConstMatrix,
                                   Matrix) override {
    return None();
  }
  absl::Status DoAveragePool2d(const WindowShape&, ConstMatrix, Matrix) override { return None(); }
  absl::Status DoAveragePool2dBackward(const WindowShape&, ConstMatrix, Matrix) override {
    return None();
  }
  absl::Status DoColumnMoments(ConstMatrix, Matrix, Matrix) override { return None(); }
  absl::Status DoNormalizeColumns(ConstMatrix, ConstMatrix, ConstMatrix, float, ConstMatrix,
                                  ConstMatrix, Matrix) override {
    return None();
  }
  absl::Status DoBatchNormSums(ConstMatrix, ConstMatrix, ConstMatrix, float, ConstMatrix,
                               Matrix) override {
    return None();
  }
  absl::Status DoBatchNormBackward(ConstMatrix, ConstMatrix, ConstMatrix, float, ConstMatrix,
                                   ConstMatrix, ConstMatrix, Matrix) override {
    return None();
  }
  absl::Status DoLayerNorm(ConstMatrix, ConstMatrix, ConstMatrix, float, Matrix, Matrix,
                           Matrix) override {
    return None();
  }
  absl::Status DoLayerNormBackward(ConstMatrix, ConstMatrix, ConstMatrix, ConstMatrix, ConstMatrix,
                                   Matrix) override {
    return None();
  }
  absl::Status DoLayerNormParameterGradients(ConstMatrix, ConstMatrix, ConstMatrix, ConstMatrix,
                                             bool, Matrix, Matrix) override {
    return None();
  }
  absl::StatusOr<double> DoSquaredError(ConstMatrix, const float*, Matrix*) override {
    return None();
  }
  absl::StatusOr<ClassificationSums> DoBinaryCrossEntropy(ConstMatrix, const float*,
                                                          Matrix*) override {
    return None();
  }
  absl::StatusOr<ClassificationSums> DoSoftmaxCrossEntropy(ConstMatrix, const uint32_t*,
                                                           Matrix*) override {
    return None();
  }
=======
  absl::Status Answer() override { return absl::UnimplementedError("this backend only counts"); }
>>>>>>> aabd12e79fe7c2021f8f209a3da1068f5e096363

 private:
  class Memory : public BackendMemory {
   public:
    explicit Memory(std::vector<float> values)
        : BackendMemory(values.data(), static_cast<int64_t>(values.size())),
          values_(std::move(values)) {}

   private:
    std::vector<float> values_;
  };

  uint64_t allocated_bytes_ = 0;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_SIZE_BACKEND_H_
