#include "tests/testing/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/philox.h"

namespace sangam::testing {
namespace {

// Standard normal distribution function and density.
double Phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double Density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(8.0 * std::atan(1.0)); }

Values Map(const Values& x, double (*function)(double)) {
  Values y;
  y.reserve(x.size());
  for (const double value : x) y.push_back(function(value));
  return y;
}

}  // namespace

Values LinearForward(const LinearShape& shape, const Values& x, const Values& w, const Values& b) {
  Values y(shape.rows * shape.out, 0.0);
  for (size_t r = 0; r < shape.rows; ++r) {
    for (size_t o = 0; o < shape.out; ++o) {
      double sum = b.empty() ? 0.0 : b[o];
      for (size_t i = 0; i < shape.in; ++i) sum += x[r * shape.in + i] * w[o * shape.in + i];
      y[r * shape.out + o] = sum;
    }
  }
  return y;
}

LinearGradients LinearBackward(const LinearShape& shape, const Values& x, const Values& w,
                               const Values& dy) {
  LinearGradients gradients = {Values(shape.rows * shape.in, 0.0),
                               Values(shape.out * shape.in, 0.0), Values(shape.out, 0.0)};
  for (size_t r = 0; r < shape.rows; ++r) {
    for (size_t o = 0; o < shape.out; ++o) {
      const double d = dy[r * shape.out + o];
      gradients.b[o] += d;
      for (size_t i = 0; i < shape.in; ++i) {
        gradients.x[r * shape.in + i] += d * w[o * shape.in + i];
        gradients.w[o * shape.in + i] += d * x[r * shape.in + i];
      }
    }
  }
  return gradients;
}

Values Relu(const Values& x) {
  return Map(x, [](double value) { return std::max(value, 0.0); });
}

Values ReluBackward(const Values& x, const Values& dy) {
  return Times(dy, Map(x, [](double value) { return value > 0 ? 1.0 : 0.0; }));
}

Values Gelu(const Values& x) {
  return Map(x, [](double value) { return value * Phi(value); });
}

Values GeluBackward(const Values& x, const Values& dy) {
  return Times(dy, Map(x, [](double value) { return Phi(value) + value * Density(value); }));
}

Values Tanh(const Values& x) {
  return Map(x, [](double value) { return std::tanh(value); });
}

Values TanhBackward(const Values& x, const Values& dy) {
  return Times(dy, Map(x, [](double value) { return 1.0 - std::pow(std::tanh(value), 2); }));
}

Values DropoutFactors(const DropoutPlace& place, double rate, size_t rows, size_t cols) {
  Values factors;
  for (size_t r = 0; r < rows; ++r) {
    const uint64_t minor = uint64_t{place.layer} << 32 | (place.first_position + r);
    const RandomStream stream(place.seed, RandomPurpose::kDropout, place.step, minor);
    for (size_t c = 0; c < cols; ++c) {
      factors.push_back(double{ToUnitFloat(stream.At(c))} >= rate ? 1.0 / (1.0 - rate) : 0.0);
    }
  }
  return factors;
}

Values Times(const Values& x, const Values& y) {
  Values product;
  product.reserve(x.size());
  for (size_t i = 0; i < x.size(); ++i) product.push_back(x[i] * y[i]);
  return product;
}

ReferenceLoss SoftmaxCrossEntropy(const Values& logits, const std::vector<uint32_t>& labels,
                                  size_t classes) {
  ReferenceLoss result;
  for (size_t r = 0; r < labels.size(); ++r) {
    const double* x = logits.data() + r * classes;
    const double* largest = std::max_element(x, x + classes);
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(x[c] - *largest);
    result.loss += std::log(sum) + *largest - x[labels[r]];
    if (largest - x == static_cast<ptrdiff_t>(labels[r])) ++result.correct;
    for (size_t c = 0; c < classes; ++c) {
      result.gradient.push_back(std::exp(x[c] - *largest) / sum - (c == labels[r] ? 1.0 : 0.0));
    }
  }
  return result;
}

Values NumericalGradient(const std::function<double(const Values&)>& function, const Values& x) {
  constexpr double kStep = 1e-5;
  Values at = x;
  Values gradient;
  for (size_t i = 0; i < x.size(); ++i) {
    at[i] = x[i] + kStep;
    const double above = function(at);
    at[i] = x[i] - kStep;
    const double below = function(at);
    at[i] = x[i];
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

}  // namespace sangam::testing
