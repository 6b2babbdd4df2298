#ifndef SANGAM_TESTS_TESTING_STUB_BACKEND_H_
#define SANGAM_TESTS_TESTING_STUB_BACKEND_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

namespace sangam::testing {

// A backend that computes nothing: every operation but Allocate is answered alike.
class StubBackend : public Backend {
 public:
  bool uses_host_memory() const override { return true; }
  absl::Status Synchronize() override { return absl::OkStatus(); }

 protected:
  virtual absl::Status Answer() = 0;

  absl::Status DoUpload(const float*, Matrix) override { return Answer(); }
  absl::Status DoDownload(ConstMatrix, float*) override { return Answer(); }
  absl::Status DoFill(float, Matrix) override { return Answer(); }
  absl::Status DoCopy(ConstMatrix, Matrix) override { return Answer(); }
  absl::Status DoGemm(const GemmArguments&) override { return Answer(); }
  absl::Status DoSumRows(ConstMatrix, bool, Matrix) override { return Answer(); }
  absl::Status DoActivate(Activation, ConstMatrix, Matrix) override { return Answer(); }
  absl::Status DoActivateBackward(Activation, ConstMatrix, ConstMatrix, Matrix) override {
    return Answer();
  }
  absl::Status DoDropout(const DropoutAddress&, float, ConstMatrix, Matrix) override {
    return Answer();
  }
  absl::Status DoAdd(ConstMatrix, ConstMatrix, Matrix) override { return Answer(); }
  absl::Status DoAddRepeated(ConstMatrix, ConstMatrix, Matrix) override { return Answer(); }
  absl::Status DoSumRepeated(ConstMatrix, bool, Matrix) override { return Answer(); }
  absl::Status DoLookup(ConstMatrix, ConstMatrix, Matrix) override { return Answer(); }
  absl::Status DoLookupBackward(ConstMatrix, ConstMatrix, Matrix) override { return Answer(); }
  absl::Status DoRmsNorm(ConstMatrix, ConstMatrix, float, Matrix, Matrix) override {
    return Answer();
  }
  absl::Status DoRmsNormBackward(ConstMatrix, ConstMatrix, ConstMatrix, ConstMatrix,
                                 Matrix) override {
    return Answer();
  }
  absl::Status DoRmsNormGainGradient(ConstMatrix, ConstMatrix, ConstMatrix, bool, Matrix) override {
    return Answer();
  }
  absl::Status DoRotate(const Rotation&, ConstMatrix, Matrix) override { return Answer(); }
  absl::Status DoCausalAttention(const AttentionShape&, ConstMatrix, Matrix, Matrix) override {
    return Answer();
  }
  absl::Status DoCausalAttentionBackward(const AttentionShape&, ConstMatrix, ConstMatrix,
                                         ConstMatrix, ConstMatrix, Matrix) override {
    return Answer();
  }
  absl::Status DoAddScaled(float, ConstMatrix, bool, Matrix) override { return Answer(); }
  absl::Status DoCopyColumns(ConstMatrix, int64_t, int64_t, Matrix, int64_t) override {
    return Answer();
  }
  absl::Status DoConv2d(const WindowShape&, ConstMatrix, ConstMatrix, Epilogue, ConstMatrix,
                        Matrix) override {
    return Answer();
  }
  absl::Status DoConv2dBackwardInput(const WindowShape&, ConstMatrix, ConstMatrix,
                                     Matrix) override {
    return Answer();
  }
  absl::Status DoConv2dBackwardWeight(const WindowShape&, ConstMatrix, ConstMatrix, bool,
                                      Matrix) override {
    return Answer();
  }
  absl::Status DoMaxPool2d(const WindowShape&, ConstMatrix, Matrix) override { return Answer(); }
  absl::Status DoMaxPool2dBackward(const WindowShape&, ConstMatrix, ConstMatrix, ConstMatrix,
                                   Matrix) override {
    return Answer();
  }
  absl::Status DoAveragePool2d(const WindowShape&, ConstMatrix, Matrix) override {
    return Answer();
  }
  absl::Status DoAveragePool2dBackward(const WindowShape&, ConstMatrix, Matrix) override {
    return Answer();
  }
  absl::Status DoColumnMoments(ConstMatrix, Matrix, Matrix) override { return Answer(); }
  absl::Status DoNormalizeColumns(ConstMatrix, ConstMatrix, ConstMatrix, float, ConstMatrix,
                                  ConstMatrix, Matrix) override {
    return Answer();
  }
  absl::Status DoBatchNormSums(ConstMatrix, ConstMatrix, ConstMatrix, float, ConstMatrix,
                               Matrix) override {
    return Answer();
  }
  absl::Status DoBatchNormBackward(ConstMatrix, ConstMatrix, ConstMatrix, float, ConstMatrix,
                                   ConstMatrix, ConstMatrix, Matrix) override {
    return Answer();
  }
  absl::Status DoLayerNorm(ConstMatrix, ConstMatrix, ConstMatrix, float, Matrix, Matrix,
                           Matrix) override {
    return Answer();
  }
  absl::Status DoLayerNormBackward(ConstMatrix, ConstMatrix, ConstMatrix, ConstMatrix, ConstMatrix,
                                   Matrix) override {
    return Answer();
  }
  absl::Status DoLayerNormParameterGradients(ConstMatrix, ConstMatrix, ConstMatrix, ConstMatrix,
                                             bool, Matrix, Matrix) override {
    return Answer();
  }
  absl::StatusOr<std::unique_ptr<PendingSums>> DoSquaredError(ConstMatrix, const float*,
                                                              Matrix*) override {
    RETURN_IF_ERROR(Answer());
    return KnownSums({});
  }
  absl::StatusOr<std::unique_ptr<PendingSums>> DoBinaryCrossEntropy(ConstMatrix, const float*,
                                                                    Matrix*) override {
    RETURN_IF_ERROR(Answer());
    return KnownSums({});
  }
  absl::StatusOr<std::unique_ptr<PendingSums>> DoSoftmaxCrossEntropy(ConstMatrix, const uint32_t*,
                                                                     Matrix*) override {
    RETURN_IF_ERROR(Answer());
    return KnownSums({});
  }
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_STUB_BACKEND_H_
