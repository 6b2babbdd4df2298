#include "tests/testing/reference_norms.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tests/testing/reference_ops.h"

namespace sangam::testing {
namespace {

Values Transpose(size_t cols, const Values& x) {
  if (cols == 0) return {};
  const size_t rows = x.size() / cols;
  Values y(x.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t j = 0; j < cols; ++j) y[j * rows + r] = x[r * cols + j];
  }
  return y;
}

}  // namespace

Moments ColumnMoments(size_t cols, const Values& x) {
  const auto rows = static_cast<double>(x.size() / cols);
  Moments moments = {Values(cols, 0.0), Values(cols, 0.0)};
  for (size_t i = 0; i < x.size(); ++i) moments.mean[i % cols] += x[i] / rows;
  for (size_t i = 0; i < x.size(); ++i) {
    moments.variance[i % cols] += std::pow(x[i] - moments.mean[i % cols], 2) / rows;
  }
  return moments;
}

Values NormalizeColumns(size_t cols, const Values& x, const Moments& moments, double epsilon,
                        const Values& gain, const Values& bias) {
  Values y;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t j = i % cols;
    y.push_back(gain[j] * (x[i] - moments.mean[j]) / std::sqrt(moments.variance[j] + epsilon) +
                bias[j]);
  }
  return y;
}

NormGradients BatchNormBackward(size_t cols, const Values& x, double epsilon, const Values& gain,
                                const Values& dy) {
  const auto rows = static_cast<double>(x.size() / cols);
  const Values unit = NormalizeColumns(cols, x, ColumnMoments(cols, x), epsilon,
                                       Values(cols, 1.0), Values(cols, 0.0));
  const Moments moments = ColumnMoments(cols, x);
  NormGradients gradients = {{}, Values(cols, 0.0), Values(cols, 0.0)};
  for (size_t i = 0; i < x.size(); ++i) {
    gradients.gain[i % cols] += dy[i] * unit[i];
    gradients.bias[i % cols] += dy[i];
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t j = i % cols;
    gradients.x.push_back(gain[j] / std::sqrt(moments.variance[j] + epsilon) *
                          (dy[i] - gradients.bias[j] / rows - unit[i] * gradients.gain[j] / rows));
  }
  return gradients;
}

Values LayerNorm(size_t cols, const Values& x, double epsilon, const Values& gain,
                 const Values& bias) {
  Values y = x;
  const size_t rows = x.size() / cols;
  if (rows == 0) return y;
  const Values columns = Transpose(cols, x);
  const Values unit = Transpose(
      rows, NormalizeColumns(rows, columns, ColumnMoments(rows, columns), epsilon,
                             Values(rows, 1.0), Values(rows, 0.0)));
  for (size_t i = 0; i < y.size(); ++i) y[i] = gain[i % cols] * unit[i] + bias[i % cols];
  return y;
}

NormGradients LayerNormBackward(size_t cols, const Values& x, double epsilon, const Values& gain,
                                const Values& dy) {
  NormGradients gradients = {{}, Values(cols, 0.0), Values(cols, 0.0)};
  const size_t rows = x.size() / cols;
  if (rows == 0) return gradients;
  const Values unit = LayerNorm(cols, x, epsilon, Values(cols, 1.0), Values(cols, 0.0));
  Values scaled;
  for (size_t i = 0; i < x.size(); ++i) {
    gradients.gain[i % cols] += dy[i] * unit[i];
    gradients.bias[i % cols] += dy[i];
    scaled.push_back(gain[i % cols] * dy[i]);
  }
  // Rows are normalised as columns are.
  gradients.x = Transpose(rows, BatchNormBackward(rows, Transpose(cols, x), epsilon,
                                                  Values(rows, 1.0), Transpose(cols, scaled))
                                    .x);
  return gradients;
}

double SquaredError(const Values& x, const Values& targets) {
  double loss = 0;
  for (size_t i = 0; i < x.size(); ++i) loss += std::pow(x[i] - targets[i], 2);
  return loss;
}

double BinaryCrossEntropy(const Values& x, const Values& targets) {
  double loss = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    loss += std::max(x[i], 0.0) - x[i] * targets[i] + std::log1p(std::exp(-std::abs(x[i])));
  }
  return loss;
}

Values Sigmoid(const Values& x) {
  Values y;
  for (const double value : x) y.push_back(1 / (1 + std::exp(-value)));
  return y;
}

Values SigmoidBackward(const Values& x, const Values& dy) {
  Values dx = Sigmoid(x);
  for (size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * dx[i] * (1 - dx[i]);
  return dx;
}

}  // namespace sangam::testing
