#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/backend/counting_backend.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

// The checks of norms that all backends share.
namespace sangam {
namespace {

const std::vector<float> kBadEpsilons = {-1e-5f, std::numeric_limits<float>::infinity(),
                                         std::numeric_limits<float>::quiet_NaN()};

class NormOpsTest : public testing::CountingBackendTest {
 protected:
  Matrix in_ = At(0, 4, 3);
  Matrix mean_ = At(50, 1, 3);
  Matrix variance_ = At(60, 1, 3);
  Matrix gain_ = At(70, 1, 3);
  Matrix bias_ = At(80, 1, 3);
  Matrix bad_ = At(90, 3, 1);
  Matrix out_ = At(100, 4, 3);
  Matrix dy_ = At(150, 4, 3);
  Matrix sums_ = At(200, 2, 3);
  Matrix dx_ = At(250, 4, 3);
  Matrix row_mean_ = At(300, 4, 1);
  Matrix row_inverse_ = At(310, 4, 1);
};

TEST_F(NormOpsTest, ColumnMomentsChecksShapesAndOverlap) {
  ExpectPassed(backend_.ColumnMoments(in_, mean_, variance_));
  ExpectNothingToDo(backend_.ColumnMoments(At(0, 4, 0), At(50, 1, 0), At(60, 1, 0)));
  ExpectRefused(backend_.ColumnMoments(At(0, 0, 3), mean_, variance_),
                "in is [0, 3], expected at least one row");
  ExpectRefused(backend_.ColumnMoments(in_, bad_, variance_), "mean is [3, 1], expected [1, 3]");
  ExpectRefused(backend_.ColumnMoments(in_, mean_, bad_), "variance is [3, 1], expected [1, 3]");
  ExpectRefused(backend_.ColumnMoments(in_, At(11, 1, 3), variance_), "in overlaps");
  ExpectRefused(backend_.ColumnMoments(in_, mean_, At(11, 1, 3)), "in overlaps");
  ExpectRefused(backend_.ColumnMoments(in_, mean_, At(52, 1, 3)), "mean overlaps");
}

TEST_F(NormOpsTest, NormalizeColumnsChecksShapesAndOverlap) {
  const auto normalize = [&](Matrix mean, Matrix variance, Matrix gain, Matrix bias, Matrix out) {
    return backend_.NormalizeColumns(in_, mean, variance, 1e-5f, gain, bias, out);
  };
  ExpectPassed(normalize(mean_, variance_, gain_, bias_, out_));
  ExpectPassed(normalize(mean_, variance_, gain_, bias_, in_));
  ExpectNothingToDo(
      backend_.NormalizeColumns(At(0, 0, 3), mean_, variance_, 0, gain_, bias_, At(100, 0, 3)));
  ExpectRefused(normalize(bad_, variance_, gain_, bias_, out_), "mean is [3, 1]");
  ExpectRefused(normalize(mean_, bad_, gain_, bias_, out_), "variance is [3, 1]");
  ExpectRefused(normalize(mean_, variance_, bad_, bias_, out_), "gain is [3, 1]");
  ExpectRefused(normalize(mean_, variance_, gain_, bad_, out_), "bias is [3, 1]");
  ExpectRefused(normalize(mean_, variance_, gain_, bias_, At(100, 3, 4)),
                "in is [4, 3], expected [3, 4]");
  ExpectRefused(normalize(mean_, variance_, gain_, bias_, At(1, 4, 3)), "in overlaps");
  ExpectRefused(normalize(mean_, variance_, gain_, bias_, At(41, 4, 3)), "mean overlaps");
  ExpectRefused(normalize(mean_, variance_, gain_, bias_, At(62, 4, 3)), "variance overlaps");
  ExpectRefused(normalize(mean_, variance_, gain_, bias_, At(72, 4, 3)), "gain overlaps");
  ExpectRefused(normalize(mean_, variance_, gain_, bias_, At(82, 4, 3)), "bias overlaps");
  for (const float epsilon : kBadEpsilons) {
    ExpectRefused(backend_.NormalizeColumns(in_, mean_, variance_, epsilon, gain_, bias_, out_),
                  "epsilon is ");
  }
}

TEST_F(NormOpsTest, BatchNormSumsChecksShapesAndOverlap) {
  const auto sum = [&](Matrix mean, Matrix variance, Matrix dy, Matrix sums) {
    return backend_.BatchNormSums(in_, mean, variance, 1e-5f, dy, sums);
  };
  ExpectPassed(sum(mean_, variance_, dy_, sums_));
  ExpectPassed(backend_.BatchNormSums(At(0, 0, 3), mean_, variance_, 1e-5f, At(150, 0, 3), sums_));
  ExpectRefused(sum(bad_, variance_, dy_, sums_), "mean is [3, 1]");
  ExpectRefused(sum(mean_, bad_, dy_, sums_), "variance is [3, 1]");
  ExpectRefused(sum(mean_, variance_, At(150, 3, 4), sums_), "output_gradient is [3, 4]");
  ExpectRefused(sum(mean_, variance_, dy_, At(200, 1, 6)), "sums is [1, 6], expected [2, 3]");
  ExpectRefused(sum(mean_, variance_, dy_, At(11, 2, 3)), "in overlaps");
  ExpectRefused(sum(mean_, variance_, dy_, At(45, 2, 3)), "mean overlaps");
  ExpectRefused(sum(mean_, variance_, dy_, At(62, 2, 3)), "variance overlaps");
  ExpectRefused(sum(mean_, variance_, dy_, At(161, 2, 3)), "output_gradient overlaps");
  for (const float epsilon : kBadEpsilons) {
    ExpectRefused(backend_.BatchNormSums(in_, mean_, variance_, epsilon, dy_, sums_),
                  "epsilon is ");
  }
}

TEST_F(NormOpsTest, BatchNormBackwardChecksShapesAndOverlap) {
  const auto backward = [&](Matrix gain, Matrix sums, Matrix dy, Matrix dx) {
    return backend_.BatchNormBackward(in_, mean_, variance_, 1e-5f, gain, sums, dy, dx);
  };
  ExpectPassed(backward(gain_, sums_, dy_, dx_));
  ExpectPassed(backward(gain_, sums_, dy_, dy_));
  ExpectPassed(backward(gain_, sums_, dy_, in_));
  ExpectRefused(backward(bad_, sums_, dy_, dx_), "gain is [3, 1]");
  ExpectRefused(backward(gain_, At(200, 3, 2), dy_, dx_), "sums is [3, 2], expected [2, 3]");
  ExpectRefused(backward(gain_, sums_, At(150, 3, 4), dx_), "output_gradient is [3, 4]");
  ExpectRefused(backward(gain_, sums_, dy_, At(250, 3, 4)), "in is [4, 3], expected [3, 4]");
  ExpectRefused(backward(gain_, sums_, dy_, At(1, 4, 3)), "in overlaps");
  ExpectRefused(backward(gain_, sums_, dy_, At(41, 4, 3)), "mean overlaps");
  ExpectRefused(backward(gain_, sums_, dy_, At(62, 4, 3)), "variance overlaps");
  ExpectRefused(backward(gain_, sums_, dy_, At(72, 4, 3)), "gain overlaps");
  ExpectRefused(backward(gain_, sums_, dy_, At(205, 4, 3)), "sums overlaps");
  ExpectRefused(backward(gain_, sums_, dy_, At(151, 4, 3)), "output_gradient overlaps");
  for (const float epsilon : kBadEpsilons) {
    ExpectRefused(
        backend_.BatchNormBackward(in_, mean_, variance_, epsilon, gain_, sums_, dy_, dx_),
        "epsilon is ");
  }
}

TEST_F(NormOpsTest, LayerNormChecksShapesAndOverlap) {
  const auto norm = [&](Matrix gain, Matrix bias, Matrix out, Matrix mean, Matrix inverse) {
    return backend_.LayerNorm(in_, gain, bias, 1e-5f, out, mean, inverse);
  };
  ExpectPassed(norm(gain_, bias_, out_, row_mean_, row_inverse_));
  ExpectRefused(norm(bad_, bias_, out_, row_mean_, row_inverse_), "gain is [3, 1]");
  ExpectRefused(norm(gain_, bad_, out_, row_mean_, row_inverse_), "bias is [3, 1]");
  ExpectRefused(norm(gain_, bias_, At(100, 3, 4), row_mean_, row_inverse_), "out is [3, 4]");
  ExpectRefused(norm(gain_, bias_, out_, At(300, 1, 4), row_inverse_),
                "mean is [1, 4], expected [4, 1]");
  ExpectRefused(norm(gain_, bias_, out_, row_mean_, At(310, 3, 1)),
                "inverse_deviation is [3, 1], expected [4, 1]");
  ExpectRefused(norm(gain_, bias_, in_, row_mean_, row_inverse_), "in overlaps");
  ExpectRefused(norm(gain_, bias_, At(72, 4, 3), row_mean_, row_inverse_), "gain overlaps");
  ExpectRefused(norm(gain_, bias_, At(82, 4, 3), row_mean_, row_inverse_), "bias overlaps");
  ExpectRefused(norm(gain_, bias_, out_, At(111, 4, 1), row_inverse_), "out overlaps");
  ExpectRefused(norm(gain_, bias_, out_, row_mean_, At(303, 4, 1)), "mean overlaps");
  ExpectRefused(backend_.LayerNorm(At(0, 4, 0), At(70, 1, 0), At(80, 1, 0), 0, At(100, 4, 0),
                                   row_mean_, row_inverse_),
                "in is [4, 0], expected at least one column");
  for (const float epsilon : kBadEpsilons) {
    ExpectRefused(backend_.LayerNorm(in_, gain_, bias_, epsilon, out_, row_mean_, row_inverse_),
                  "epsilon is ");
  }
}

TEST_F(NormOpsTest, LayerNormBackwardChecksShapesAndOverlap) {
  const auto backward = [&](Matrix gain, Matrix mean, Matrix inverse, Matrix dy, Matrix dx) {
    return backend_.LayerNormBackward(in_, gain, mean, inverse, dy, dx);
  };
  ExpectPassed(backward(gain_, row_mean_, row_inverse_, dy_, dx_));
  ExpectRefused(backward(bad_, row_mean_, row_inverse_, dy_, dx_), "gain is [3, 1]");
  ExpectRefused(backward(gain_, bad_, row_inverse_, dy_, dx_), "mean is [3, 1]");
  ExpectRefused(backward(gain_, row_mean_, bad_, dy_, dx_), "inverse_deviation is [3, 1]");
  ExpectRefused(backward(gain_, row_mean_, row_inverse_, At(150, 3, 4), dx_),
                "output_gradient is [3, 4]");
  ExpectRefused(backward(gain_, row_mean_, row_inverse_, dy_, At(250, 5, 3)),
                "input_gradient is [5, 3]");
  ExpectRefused(backward(gain_, row_mean_, row_inverse_, dy_, dy_), "output_gradient overlaps");
  ExpectRefused(backward(gain_, row_mean_, row_inverse_, dy_, in_), "in overlaps");

  const Matrix dgain = At(400, 1, 3);
  const Matrix dbias = At(410, 1, 3);
  const auto gradients = [&](Matrix mean, Matrix inverse, Matrix dy, Matrix gain, Matrix bias) {
    return backend_.LayerNormParameterGradients(in_, mean, inverse, dy, true, gain, bias);
  };
  ExpectPassed(gradients(row_mean_, row_inverse_, dy_, dgain, dbias));
  ExpectRefused(gradients(bad_, row_inverse_, dy_, dgain, dbias), "mean is [3, 1]");
  ExpectRefused(gradients(row_mean_, bad_, dy_, dgain, dbias), "inverse_deviation is [3, 1]");
  ExpectRefused(gradients(row_mean_, row_inverse_, At(150, 3, 4), dgain, dbias),
                "output_gradient is [3, 4]");
  ExpectRefused(gradients(row_mean_, row_inverse_, dy_, bad_, dbias), "gain_gradient is [3, 1]");
  ExpectRefused(gradients(row_mean_, row_inverse_, dy_, dgain, bad_), "bias_gradient is [3, 1]");
  ExpectRefused(gradients(row_mean_, row_inverse_, dy_, At(11, 1, 3), dbias), "in overlaps");
  ExpectRefused(gradients(row_mean_, row_inverse_, dy_, dgain, At(161, 1, 3)),
                "output_gradient overlaps");
  ExpectRefused(gradients(row_mean_, row_inverse_, dy_, dgain, At(402, 1, 3)),
                "gain_gradient overlaps");
}

}  // namespace
}  // namespace sangam
