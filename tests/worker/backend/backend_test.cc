#include "worker/backend/backend.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/backend/views.h"

// The checks that all backends share. The backend behind them only counts what gets through.
namespace sangam {
namespace {

using ::testing::HasSubstr;

class CountingBackend : public Backend {
 public:
  absl::string_view name() const override { return "counting"; }
  bool uses_host_memory() const override { return true; }
  absl::Status Synchronize() override { return absl::OkStatus(); }

  int calls = 0;

 protected:
  absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t) override {
    ++calls;
    return absl::ResourceExhaustedError("none here");
  }
  absl::Status DoUpload(const float*, Matrix) override { return Count(); }
  absl::Status DoDownload(ConstMatrix, float*) override { return Count(); }
  absl::Status DoFill(float, Matrix) override { return Count(); }
  absl::Status DoGemm(const GemmArguments&) override { return Count(); }
  absl::Status DoSumRows(ConstMatrix, bool, Matrix) override { return Count(); }
  absl::Status DoActivate(Activation, ConstMatrix, Matrix) override { return Count(); }
  absl::Status DoActivateBackward(Activation, ConstMatrix, ConstMatrix, Matrix) override {
    return Count();
  }
  absl::Status DoDropout(const DropoutAddress&, float, ConstMatrix, Matrix) override {
    return Count();
  }
  absl::StatusOr<ClassificationSums> DoSoftmaxCrossEntropy(ConstMatrix, const uint32_t*,
                                                           Matrix*) override {
    ++calls;
    return ClassificationSums();
  }

 private:
  absl::Status Count() {
    ++calls;
    return absl::OkStatus();
  }
};

class BackendTest : public ::testing::Test {
 protected:
  void ExpectRefused(const absl::Status& status, const std::string& message) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_EQ(backend_.calls, 0);
  }
  void ExpectPassed(const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(backend_.calls, 1);
    backend_.calls = 0;
  }
  void ExpectNothingToDo(const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(backend_.calls, 0);
  }

  // A matrix somewhere in one array, so that overlaps can be made.
  Matrix At(int64_t first, int64_t rows, int64_t cols) {
    return {memory_.data() + first, rows, cols};
  }

  GemmArguments Product(int64_t m, int64_t n, int64_t k) {
    GemmArguments arguments;
    arguments.a = At(0, m, k);
    arguments.b = At(200, k, n);
    arguments.c = At(400, m, n);
    return arguments;
  }

  std::vector<float> memory_ = std::vector<float>(1000);
  CountingBackend backend_;
};

TEST_F(BackendTest, AllocateRefusesNegativeSizes) {
  ExpectRefused(backend_.Allocate(-1).status(), "found -1 elements");
}

TEST_F(BackendTest, ViewsMustBeValid) {
  ExpectRefused(backend_.Fill(1, At(0, -1, 3)), "out is [-1, 3]");
  ExpectRefused(backend_.Fill(1, {nullptr, 2, 3}), "out [2, 3] has no memory");
  ExpectRefused(backend_.Upload(nullptr, At(0, 1, 2)), "no host memory for [1, 2]");
  ExpectRefused(backend_.Download(At(0, 1, 2), nullptr), "no host memory for [1, 2]");
  ExpectNothingToDo(backend_.Fill(1, {nullptr, 0, 3}));
  ExpectNothingToDo(backend_.Upload(nullptr, {nullptr, 0, 3}));
  ExpectPassed(backend_.Fill(1, At(0, 2, 3)));
}

TEST_F(BackendTest, GemmChecksShapes) {
  ExpectPassed(backend_.Gemm(Product(2, 3, 4)));
  ExpectPassed(backend_.Gemm(Product(2, 3, 0)));
  ExpectNothingToDo(backend_.Gemm(Product(0, 3, 4)));
  GemmArguments arguments = Product(2, 3, 4);
  arguments.b = At(200, 5, 3);
  ExpectRefused(backend_.Gemm(arguments), "a is [2, 4] and b is [5, 3], expected one inner size");
  arguments = Product(2, 3, 4);
  arguments.transpose_a = true;
  ExpectRefused(backend_.Gemm(arguments), "a is [2, 4] transposed and b is [4, 3]");
  arguments.a = At(0, 4, 2);
  ExpectPassed(backend_.Gemm(arguments));
  arguments.c = At(400, 3, 2);
  ExpectRefused(backend_.Gemm(arguments), "c is [3, 2], expected [2, 3]");
  arguments = Product(2, 3, 4);
  arguments.a.data = nullptr;
  ExpectRefused(backend_.Gemm(arguments), "a [2, 4] has no memory");
}

TEST_F(BackendTest, GemmRefusesOverlaps) {
  GemmArguments arguments = Product(2, 3, 4);
  arguments.c = At(7, 2, 3);
  ExpectRefused(backend_.Gemm(arguments), "a overlaps");
  arguments.c = At(211, 2, 3);
  ExpectRefused(backend_.Gemm(arguments), "b overlaps");
  arguments.c = At(212, 2, 3);  // directly behind b
  ExpectPassed(backend_.Gemm(arguments));
  // Inputs may be the same.
  arguments = Product(2, 2, 2);
  arguments.b = arguments.a;
  ExpectPassed(backend_.Gemm(arguments));
}

TEST_F(BackendTest, GemmChecksTheEpilogue) {
  GemmArguments arguments = Product(2, 3, 4);
  arguments.epilogue = Epilogue::kBias;
  ExpectRefused(backend_.Gemm(arguments), "bias is [0, 0], expected [1, 3]");
  arguments.bias = At(600, 1, 3);
  ExpectPassed(backend_.Gemm(arguments));
  arguments.accumulate = true;
  ExpectRefused(backend_.Gemm(arguments), "exclude each other");
  arguments.accumulate = false;
  arguments.bias = At(405, 1, 3);
  ExpectRefused(backend_.Gemm(arguments), "bias overlaps");
}

TEST_F(BackendTest, SumRowsChecksShapesAndOverlap) {
  ExpectPassed(backend_.SumRows(At(0, 4, 3), false, At(100, 1, 3)));
  ExpectPassed(backend_.SumRows(At(0, 0, 3), false, At(100, 1, 3)));
  ExpectNothingToDo(backend_.SumRows(At(0, 4, 0), false, At(100, 1, 0)));
  ExpectRefused(backend_.SumRows(At(0, 4, 3), false, At(100, 1, 4)),
                "out is [1, 4], expected [1, 3]");
  ExpectRefused(backend_.SumRows(At(0, 4, 3), false, At(0, 1, 3)), "in overlaps");
}

TEST_F(BackendTest, ElementwiseMayBeInPlaceButNotShifted) {
  ExpectPassed(backend_.Activate(Activation::kTanh, At(0, 2, 3), At(0, 2, 3)));
  ExpectRefused(backend_.Activate(Activation::kTanh, At(0, 2, 3), At(1, 2, 3)), "in overlaps");
  ExpectRefused(backend_.Activate(Activation::kTanh, At(0, 2, 3), At(100, 3, 2)),
                "in is [2, 3], expected [3, 2]");
  ExpectNothingToDo(backend_.Activate(Activation::kTanh, At(0, 0, 3), At(0, 0, 3)));

  ExpectPassed(
      backend_.ActivateBackward(Activation::kRelu, At(0, 2, 3), At(50, 2, 3), At(50, 2, 3)));
  ExpectRefused(
      backend_.ActivateBackward(Activation::kRelu, At(0, 2, 3), At(50, 2, 3), At(5, 2, 3)),
      "kept overlaps");
  ExpectRefused(
      backend_.ActivateBackward(Activation::kRelu, At(0, 2, 3), At(50, 3, 2), At(60, 2, 3)),
      "output_gradient is [3, 2], expected [2, 3]");
  ExpectRefused(backend_.Dropout({}, 0.5f, At(0, 2, 3), At(3, 2, 3)), "in overlaps");
}

TEST_F(BackendTest, DropoutChecksRateAndPositions) {
  for (const float rate : {-0.1f, 1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    ExpectRefused(backend_.Dropout({}, rate, At(0, 2, 3), At(0, 2, 3)), "rate is ");
  }
  DropoutAddress address;
  address.first_position = (uint64_t{1} << 32) - 2;
  ExpectPassed(backend_.Dropout(address, 0.5f, At(0, 2, 3), At(0, 2, 3)));
  ExpectRefused(backend_.Dropout(address, 0.5f, At(0, 3, 3), At(0, 3, 3)),
                "3 rows from position 4294967294");
  address.first_position = std::numeric_limits<uint64_t>::max();
  ExpectRefused(backend_.Dropout(address, 0.5f, At(0, 3, 3), At(0, 3, 3)), "positions below 2^32");
}

TEST_F(BackendTest, SoftmaxChecksLabelsAndGradient) {
  const std::vector<uint32_t> labels = {0, 2};
  ExpectPassed(backend_.SoftmaxCrossEntropy(At(0, 2, 3), labels.data(), nullptr).status());
  ExpectRefused(backend_.SoftmaxCrossEntropy(At(0, 2, 3), nullptr, nullptr).status(),
                "there are no labels");
  ExpectRefused(backend_.SoftmaxCrossEntropy(At(0, 2, 2), labels.data(), nullptr).status(),
                "label of row 1 is 2, expected one of 2 classes");
  ExpectRefused(backend_.SoftmaxCrossEntropy(At(0, 2, 0), labels.data(), nullptr).status(),
                "label of row 0 is 0, expected one of 0 classes");
  Matrix gradient = At(100, 3, 2);
  ExpectRefused(backend_.SoftmaxCrossEntropy(At(0, 2, 3), labels.data(), &gradient).status(),
                "gradient is [3, 2], expected [2, 3]");
  gradient = At(2, 2, 3);
  ExpectRefused(backend_.SoftmaxCrossEntropy(At(0, 2, 3), labels.data(), &gradient).status(),
                "logits overlaps");
  ExpectNothingToDo(backend_.SoftmaxCrossEntropy(At(0, 0, 3), nullptr, nullptr).status());
}

}  // namespace
}  // namespace sangam
