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
#include "tests/worker/backend/counting_backend.h"
#include "worker/backend/views.h"

// The checks that all backends share.
namespace sangam {
namespace {

class BackendTest : public testing::CountingBackendTest {
 protected:
  GemmArguments Product(int64_t m, int64_t n, int64_t k) {
    GemmArguments arguments;
    arguments.a = At(0, m, k);
    arguments.b = At(200, k, n);
    arguments.c = At(400, m, n);
    return arguments;
  }
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

TEST_F(BackendTest, CopyTakesAnotherMatrixOfTheSameShape) {
  ExpectPassed(backend_.Copy(At(0, 2, 3), At(6, 2, 3)));
  ExpectNothingToDo(backend_.Copy(At(0, 0, 3), At(6, 0, 3)));
  ExpectRefused(backend_.Copy(At(0, 3, 2), At(6, 2, 3)), "in is [3, 2], expected [2, 3]");
  ExpectRefused(backend_.Copy(At(0, 2, 3), At(5, 2, 3)), "in overlaps the matrix that is written");
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

TEST_F(BackendTest, AddChecksShapesAndOverlap) {
  ExpectPassed(backend_.Add(At(0, 2, 3), At(50, 2, 3), At(100, 2, 3)));
  ExpectPassed(backend_.Add(At(0, 2, 3), At(50, 2, 3), At(0, 2, 3)));
  ExpectPassed(backend_.Add(At(0, 2, 3), At(50, 2, 3), At(50, 2, 3)));
  ExpectNothingToDo(backend_.Add(At(0, 0, 3), At(50, 0, 3), At(100, 0, 3)));
  ExpectRefused(backend_.Add(At(0, 3, 2), At(50, 2, 3), At(100, 2, 3)),
                "a is [3, 2], expected [2, 3]");
  ExpectRefused(backend_.Add(At(0, 2, 3), At(50, 2, 4), At(100, 2, 3)),
                "b is [2, 4], expected [2, 3]");
  ExpectRefused(backend_.Add(At(0, 2, 3), At(50, 2, 3), At(1, 2, 3)), "a overlaps");
  ExpectRefused(backend_.Add(At(0, 2, 3), At(50, 2, 3), At(51, 2, 3)), "b overlaps");
}

TEST_F(BackendTest, AddRepeatedChecksShapesAndOverlap) {
  ExpectPassed(backend_.AddRepeated(At(0, 6, 3), At(50, 2, 3), At(100, 6, 3)));
  ExpectPassed(backend_.AddRepeated(At(0, 6, 3), At(50, 2, 3), At(0, 6, 3)));
  ExpectPassed(backend_.AddRepeated(At(0, 2, 3), At(50, 2, 3), At(50, 2, 3)));
  ExpectNothingToDo(backend_.AddRepeated(At(0, 0, 3), At(50, 2, 3), At(100, 0, 3)));
  ExpectNothingToDo(backend_.AddRepeated(At(0, 0, 3), At(50, 0, 3), At(100, 0, 3)));
  ExpectRefused(backend_.AddRepeated(At(0, 5, 3), At(50, 2, 3), At(100, 5, 3)),
                "in is [5, 3] and addend is [2, 3], expected equal columns and a multiple");
  ExpectRefused(backend_.AddRepeated(At(0, 6, 3), At(50, 2, 4), At(100, 6, 3)),
                "addend is [2, 4], expected equal columns");
  ExpectRefused(backend_.AddRepeated(At(0, 6, 3), At(50, 0, 3), At(100, 6, 3)),
                "addend is [0, 3], expected equal columns and a multiple");
  ExpectRefused(backend_.AddRepeated(At(0, 6, 3), At(50, 2, 3), At(1, 6, 3)), "in overlaps");
  // The first of the repeated rows would be read after it was written.
  ExpectRefused(backend_.AddRepeated(At(0, 6, 3), At(50, 2, 3), At(50, 6, 3)), "addend overlaps");
  ExpectRefused(backend_.AddRepeated(At(0, 6, 3), At(50, 2, 3), At(100, 6, 4)),
                "in is [6, 3], expected [6, 4]");
}

TEST_F(BackendTest, SumRepeatedChecksShapesAndOverlap) {
  ExpectPassed(backend_.SumRepeated(At(0, 6, 3), false, At(100, 2, 3)));
  ExpectPassed(backend_.SumRepeated(At(0, 0, 3), false, At(100, 2, 3)));
  ExpectNothingToDo(backend_.SumRepeated(At(0, 0, 3), false, At(100, 0, 3)));
  ExpectRefused(backend_.SumRepeated(At(0, 5, 3), false, At(100, 2, 3)),
                "in is [5, 3] and out is [2, 3], expected equal columns and a multiple");
  ExpectRefused(backend_.SumRepeated(At(0, 6, 3), false, At(100, 0, 3)), "out is [0, 3]");
  ExpectRefused(backend_.SumRepeated(At(0, 6, 3), false, At(100, 2, 4)), "out is [2, 4]");
  ExpectRefused(backend_.SumRepeated(At(0, 2, 3), false, At(0, 2, 3)), "in overlaps");
}

TEST_F(BackendTest, LookupChecksShapesAndOverlap) {
  ExpectPassed(backend_.Lookup(At(0, 2, 3), At(50, 9, 4), At(100, 6, 4)));
  ExpectPassed(backend_.Lookup(At(0, 2, 3), At(50, 0, 4), At(100, 6, 4)));
  ExpectNothingToDo(backend_.Lookup(At(0, 0, 3), At(50, 9, 4), At(100, 0, 4)));
  ExpectRefused(backend_.Lookup(At(0, 2, 3), At(50, 9, 4), At(100, 5, 4)),
                "tokens is [2, 3], expected 5 elements");
  ExpectRefused(backend_.Lookup(At(0, 2, 3), At(50, 9, 4), At(100, 6, 5)),
                "out is [6, 5], expected [6, 4]");
  ExpectRefused(backend_.Lookup(At(0, 2, 3), At(50, 9, 4), At(5, 6, 4)), "tokens overlaps");
  ExpectRefused(backend_.Lookup(At(0, 2, 3), At(50, 9, 4), At(85, 6, 4)), "table overlaps");

  ExpectPassed(backend_.LookupBackward(At(0, 2, 3), At(50, 6, 4), At(100, 9, 4)));
  // To find that the tokens are no rows.
  ExpectPassed(backend_.LookupBackward(At(0, 2, 3), At(50, 6, 4), At(100, 0, 4)));
  ExpectNothingToDo(backend_.LookupBackward(At(0, 2, 0), At(50, 0, 4), At(100, 9, 4)));
  ExpectRefused(backend_.LookupBackward(At(0, 2, 3), At(50, 5, 4), At(100, 9, 4)),
                "tokens is [2, 3], expected 5 elements");
  ExpectRefused(backend_.LookupBackward(At(0, 2, 3), At(50, 6, 4), At(100, 9, 5)),
                "table_gradient is [9, 5], expected [9, 4]");
  ExpectRefused(backend_.LookupBackward(At(0, 2, 3), At(50, 6, 4), At(5, 9, 4)), "tokens overlaps");
  ExpectRefused(backend_.LookupBackward(At(0, 2, 3), At(50, 6, 4), At(73, 9, 4)),
                "output_gradient overlaps");
}

TEST_F(BackendTest, RmsNormChecksShapesOverlapAndEpsilon) {
  const Matrix in = At(0, 4, 3);
  const Matrix gain = At(50, 1, 3);
  const Matrix out = At(100, 4, 3);
  const Matrix inverse = At(150, 4, 1);
  ExpectPassed(backend_.RmsNorm(in, gain, 1e-5f, out, inverse));
  ExpectPassed(backend_.RmsNorm(in, gain, 0, out, inverse));
  ExpectNothingToDo(backend_.RmsNorm(At(0, 0, 3), gain, 1e-5f, At(0, 0, 3), At(0, 0, 1)));
  ExpectRefused(backend_.RmsNorm(At(0, 4, 0), At(50, 1, 0), 1e-5f, At(100, 4, 0), inverse),
                "in is [4, 0], expected at least one column");
  ExpectRefused(backend_.RmsNorm(in, At(50, 3, 1), 1e-5f, out, inverse),
                "gain is [3, 1], expected [1, 3]");
  ExpectRefused(backend_.RmsNorm(in, gain, 1e-5f, At(100, 3, 4), inverse),
                "out is [3, 4], expected [4, 3]");
  ExpectRefused(backend_.RmsNorm(in, gain, 1e-5f, out, At(150, 1, 4)),
                "inverse_rms is [1, 4], expected [4, 1]");
  ExpectRefused(backend_.RmsNorm(in, gain, 1e-5f, in, inverse), "in overlaps");
  ExpectRefused(backend_.RmsNorm(in, gain, 1e-5f, At(52, 4, 3), inverse), "gain overlaps");
  ExpectRefused(backend_.RmsNorm(in, gain, 1e-5f, out, At(11, 4, 1)), "in overlaps");
  ExpectRefused(backend_.RmsNorm(in, gain, 1e-5f, out, At(52, 4, 1)), "gain overlaps");
  ExpectRefused(backend_.RmsNorm(in, gain, 1e-5f, out, At(111, 4, 1)), "out overlaps");
  for (const float epsilon :
       {-1e-5f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    ExpectRefused(backend_.RmsNorm(in, gain, epsilon, out, inverse), "epsilon is ");
  }
}

TEST_F(BackendTest, RmsNormBackwardChecksShapesAndOverlap) {
  const Matrix in = At(0, 4, 3);
  const Matrix gain = At(50, 1, 3);
  const Matrix inverse = At(150, 4, 1);
  const Matrix dy = At(200, 4, 3);
  const Matrix dx = At(250, 4, 3);
  ExpectPassed(backend_.RmsNormBackward(in, gain, inverse, dy, dx));
  ExpectNothingToDo(
      backend_.RmsNormBackward(At(0, 0, 3), gain, At(0, 0, 1), At(0, 0, 3), At(0, 0, 3)));
  ExpectRefused(backend_.RmsNormBackward(in, At(50, 1, 4), inverse, dy, dx), "gain is [1, 4]");
  ExpectRefused(backend_.RmsNormBackward(in, gain, At(150, 3, 1), dy, dx),
                "inverse_rms is [3, 1], expected [4, 1]");
  ExpectRefused(backend_.RmsNormBackward(in, gain, inverse, At(200, 4, 4), dx),
                "output_gradient is [4, 4], expected [4, 3]");
  ExpectRefused(backend_.RmsNormBackward(in, gain, inverse, dy, At(250, 5, 3)),
                "input_gradient is [5, 3], expected [4, 3]");
  ExpectRefused(backend_.RmsNormBackward(in, gain, inverse, dy, in), "in overlaps");
  ExpectRefused(backend_.RmsNormBackward(in, gain, inverse, dy, At(52, 4, 3)), "gain overlaps");
  ExpectRefused(backend_.RmsNormBackward(in, gain, inverse, dy, At(153, 4, 3)),
                "inverse_rms overlaps");
  ExpectRefused(backend_.RmsNormBackward(in, gain, inverse, dy, dy), "output_gradient overlaps");

  const Matrix dgain = At(300, 1, 3);
  ExpectPassed(backend_.RmsNormGainGradient(in, inverse, dy, true, dgain));
  // A gradient of no rows is 0.
  ExpectPassed(backend_.RmsNormGainGradient(At(0, 0, 3), At(0, 0, 1), At(0, 0, 3), false, dgain));
  ExpectRefused(backend_.RmsNormGainGradient(in, At(150, 4, 2), dy, true, dgain),
                "inverse_rms is [4, 2]");
  ExpectRefused(backend_.RmsNormGainGradient(in, inverse, At(200, 3, 4), true, dgain),
                "output_gradient is [3, 4]");
  ExpectRefused(backend_.RmsNormGainGradient(in, inverse, dy, true, At(300, 3, 1)),
                "gain_gradient is [3, 1], expected [1, 3]");
  ExpectRefused(backend_.RmsNormGainGradient(in, inverse, dy, true, At(11, 1, 3)), "in overlaps");
  ExpectRefused(backend_.RmsNormGainGradient(in, inverse, dy, true, At(153, 1, 3)),
                "inverse_rms overlaps");
  ExpectRefused(backend_.RmsNormGainGradient(in, inverse, dy, true, At(211, 1, 3)),
                "output_gradient overlaps");
}

TEST_F(BackendTest, RotateChecksShapesOverlapAndBase) {
  Rotation rotation;
  rotation.positions = 2;
  rotation.heads = 2;
  ExpectPassed(backend_.Rotate(rotation, At(0, 4, 12), At(100, 4, 12)));
  ExpectPassed(backend_.Rotate(rotation, At(0, 4, 12), At(0, 4, 12)));
  ExpectNothingToDo(backend_.Rotate(rotation, At(0, 0, 12), At(100, 0, 12)));
  ExpectRefused(backend_.Rotate(rotation, At(0, 4, 12), At(1, 4, 12)), "in overlaps");
  ExpectRefused(backend_.Rotate(rotation, At(0, 4, 12), At(100, 2, 24)),
                "out is [2, 24], expected [4, 12]");
  ExpectRefused(backend_.Rotate(rotation, At(0, 3, 12), At(100, 3, 12)),
                "in is [3, 12], expected a multiple of 2 positions as rows");
  for (const int64_t cols : {0, 8, 9}) {
    ExpectRefused(backend_.Rotate(rotation, At(0, 4, cols), At(100, 4, cols)),
                  "expected columns for queries, keys and values of 2 heads");
  }
  ExpectRefused(backend_.Rotate(rotation, At(0, 4, 18), At(100, 4, 18)),
                "in is [4, 18], expected 2 heads of an even width");
  for (const float base : {0.5f, -1.0f, std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()}) {
    rotation.base = base;
    ExpectRefused(backend_.Rotate(rotation, At(0, 4, 12), At(100, 4, 12)), "base is ");
  }
  rotation.positions = 0;
  ExpectRefused(backend_.Rotate(rotation, At(0, 4, 12), At(100, 4, 12)),
                "found 0 positions and 2 heads");
}

TEST_F(BackendTest, CausalAttentionChecksShapesAndOverlap) {
  AttentionShape shape;
  shape.positions = 2;
  shape.heads = 2;
  const Matrix qkv = At(0, 4, 18);
  const Matrix out = At(100, 4, 6);
  const Matrix log_sum = At(200, 4, 2);
  ExpectPassed(backend_.CausalAttention(shape, qkv, out, log_sum));
  ExpectNothingToDo(backend_.CausalAttention(shape, At(0, 0, 18), At(100, 0, 6), At(200, 0, 2)));
  ExpectRefused(backend_.CausalAttention(shape, At(0, 5, 18), At(100, 5, 6), At(200, 5, 2)),
                "qkv is [5, 18], expected a multiple of 2 positions");
  ExpectRefused(backend_.CausalAttention(shape, At(0, 4, 15), At(100, 4, 5), log_sum),
                "qkv is [4, 15], expected columns for queries, keys and values of 2 heads");
  ExpectRefused(backend_.CausalAttention(shape, qkv, At(100, 4, 18), log_sum),
                "out is [4, 18], expected [4, 6]");
  ExpectRefused(backend_.CausalAttention(shape, qkv, out, At(200, 4, 6)),
                "log_sum is [4, 6], expected [4, 2]");
  ExpectRefused(backend_.CausalAttention(shape, qkv, At(71, 4, 6), log_sum), "qkv overlaps");
  ExpectRefused(backend_.CausalAttention(shape, qkv, out, At(71, 4, 2)), "qkv overlaps");
  ExpectRefused(backend_.CausalAttention(shape, qkv, out, At(123, 4, 2)), "out overlaps");
  shape.heads = 0;
  ExpectRefused(backend_.CausalAttention(shape, qkv, out, log_sum),
                "found 2 positions and 0 heads, expected at least 1");
}

TEST_F(BackendTest, CausalAttentionBackwardChecksShapesAndOverlap) {
  AttentionShape shape;
  shape.positions = 2;
  shape.heads = 2;
  const Matrix qkv = At(0, 4, 18);
  const Matrix out = At(100, 4, 6);
  const Matrix log_sum = At(200, 4, 2);
  const Matrix dy = At(300, 4, 6);
  const Matrix gradient = At(400, 4, 18);
  const auto backward = [&](Matrix out_in, Matrix log_sum_in, Matrix dy_in, Matrix gradient_in) {
    return backend_.CausalAttentionBackward(shape, qkv, out_in, log_sum_in, dy_in, gradient_in);
  };
  ExpectPassed(backward(out, log_sum, dy, gradient));
  ExpectRefused(backward(At(100, 4, 5), log_sum, dy, gradient), "out is [4, 5], expected [4, 6]");
  ExpectRefused(backward(out, At(200, 4, 1), dy, gradient), "log_sum is [4, 1]");
  ExpectRefused(backward(out, log_sum, At(300, 4, 5), gradient), "output_gradient is [4, 5]");
  ExpectRefused(backward(out, log_sum, dy, At(400, 4, 6)), "qkv_gradient is [4, 6]");
  ExpectRefused(backward(out, log_sum, dy, At(71, 4, 18)), "qkv overlaps");
  ExpectRefused(backward(out, log_sum, dy, At(123, 4, 18)), "out overlaps");
  ExpectRefused(backward(out, log_sum, dy, At(207, 4, 18)), "log_sum overlaps");
  ExpectRefused(backward(out, log_sum, dy, At(323, 4, 18)), "output_gradient overlaps");
  shape.positions = 3;
  ExpectRefused(backward(out, log_sum, dy, gradient), "expected a multiple of 3 positions");
  shape.positions = 2;
  ExpectNothingToDo(backend_.CausalAttentionBackward(shape, At(0, 0, 18), At(100, 0, 6),
                                                     At(200, 0, 2), At(300, 0, 6), At(400, 0, 18)));
}

TEST_F(BackendTest, AddScaledChecksShapesAndOverlap) {
  ExpectPassed(backend_.AddScaled(2, At(0, 2, 3), true, At(50, 2, 3)));
  ExpectPassed(backend_.AddScaled(2, At(0, 2, 3), true, At(0, 2, 3)));
  ExpectNothingToDo(backend_.AddScaled(2, At(0, 0, 3), true, At(50, 0, 3)));
  ExpectRefused(backend_.AddScaled(2, At(0, 2, 4), true, At(50, 2, 3)),
                "in is [2, 4], expected [2, 3]");
  ExpectRefused(backend_.AddScaled(2, At(0, 2, 3), true, At(5, 2, 3)), "in overlaps");
}

TEST_F(BackendTest, CopyColumnsChecksShapesAndOverlap) {
  ExpectPassed(backend_.CopyColumns(At(0, 2, 5), 2, 3, At(50, 2, 4), 1));
  ExpectNothingToDo(backend_.CopyColumns(At(0, 2, 5), 5, 0, At(50, 2, 4), 4));
  ExpectNothingToDo(backend_.CopyColumns(At(0, 0, 5), 2, 3, At(50, 0, 4), 1));
  ExpectRefused(backend_.CopyColumns(At(0, 2, 5), 3, 3, At(50, 2, 4), 1),
                "in is [2, 5], expected 3 columns from column 3");
  ExpectRefused(backend_.CopyColumns(At(0, 2, 5), -1, 3, At(50, 2, 4), 1), "from column -1");
  ExpectRefused(backend_.CopyColumns(At(0, 2, 5), 2, -1, At(50, 2, 4), 1), "expected -1 columns");
  ExpectRefused(backend_.CopyColumns(At(0, 2, 5), 2, 3, At(50, 2, 4), 2),
                "out is [2, 4], expected 3 columns from column 2");
  ExpectRefused(backend_.CopyColumns(At(0, 3, 5), 2, 3, At(50, 2, 4), 1),
                "in is [3, 5], expected [2, 5]");
  ExpectRefused(backend_.CopyColumns(At(0, 2, 5), 0, 1, At(9, 2, 4), 1), "in overlaps");
}

TEST_F(BackendTest, LossesOfNumbersCheckTargetsAndGradient) {
  const std::vector<float> targets = {0.0f, 1.0f, 0.5f, 0.25f, 1.0f, 0.0f};
  const ConstMatrix outputs = At(0, 2, 3);
  Matrix gradient = At(0, 2, 3);
  ExpectPassed(backend_.SquaredError(outputs, targets.data(), nullptr).status());
  ExpectPassed(backend_.SquaredError(outputs, targets.data(), &gradient).status());
  ExpectPassed(backend_.BinaryCrossEntropy(outputs, targets.data(), &gradient).status());
  ExpectNothingToDo(backend_.SquaredError(At(0, 0, 3), nullptr, nullptr).status());
  ExpectNothingToDo(backend_.BinaryCrossEntropy(At(0, 2, 0), nullptr, nullptr).status());
  ExpectRefused(backend_.SquaredError(outputs, nullptr, nullptr).status(), "no host memory");
  ExpectRefused(backend_.BinaryCrossEntropy(outputs, nullptr, nullptr).status(), "no host memory");
  for (const Matrix bad : {At(100, 3, 2), At(1, 2, 3)}) {
    gradient = bad;
    ExpectRefused(backend_.SquaredError(outputs, targets.data(), &gradient).status(),
                  bad.rows == 3 ? "gradient is [3, 2], expected [2, 3]" : "outputs overlaps");
    ExpectRefused(backend_.BinaryCrossEntropy(outputs, targets.data(), &gradient).status(),
                  bad.rows == 3 ? "gradient is [3, 2], expected [2, 3]" : "outputs overlaps");
  }
  for (const float value : {-0.5f, 1.5f, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> bad = targets;
    bad[4] = value;
    ExpectRefused(backend_.BinaryCrossEntropy(outputs, bad.data(), nullptr).status(),
                  "target of row 1, column 1 is ");
  }
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
