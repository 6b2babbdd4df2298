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

// Where a head of a position begins.
struct HeadPlaces {
  explicit HeadPlaces(const SequenceShape& shape_in) : shape(shape_in) {}
  size_t Out(size_t s, size_t t, size_t h) const {
    return ((s * shape.positions + t) * shape.heads + h) * shape.head_width;
  }
  size_t Query(size_t s, size_t t, size_t h) const { return Part(0, s, t, h); }
  size_t Key(size_t s, size_t t, size_t h) const { return Part(1, s, t, h); }
  size_t Value(size_t s, size_t t, size_t h) const { return Part(2, s, t, h); }
  size_t Part(size_t part, size_t s, size_t t, size_t h) const {
    return (((s * shape.positions + t) * 3 + part) * shape.heads + h) * shape.head_width;
  }
  SequenceShape shape;
};

// The softmax of the scores of one query.
struct ScoreRow {
  Values weights;
  double log_sum = 0;
};

ScoreRow Scores(const SequenceShape& shape, const Values& x, size_t s, size_t t, size_t h) {
  const HeadPlaces at(shape);
  ScoreRow row;
  for (size_t u = 0; u <= t; ++u) {
    double score = 0;
    for (size_t j = 0; j < shape.head_width; ++j) {
      score += x[at.Query(s, t, h) + j] * x[at.Key(s, u, h) + j];
    }
    row.weights.push_back(score / std::sqrt(static_cast<double>(shape.head_width)));
  }
  const double largest = *std::max_element(row.weights.begin(), row.weights.end());
  double sum = 0;
  for (const double score : row.weights) sum += std::exp(score - largest);
  row.log_sum = largest + std::log(sum);
  for (double& score : row.weights) score = std::exp(score - row.log_sum);
  return row;
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

RmsNormValues RmsNorm(size_t cols, const Values& x, const Values& gain, double epsilon) {
  RmsNormValues values;
  for (size_t first = 0; first < x.size(); first += cols) {
    double sum = 0;
    for (size_t j = 0; j < cols; ++j) sum += x[first + j] * x[first + j];
    const double inverse = 1 / std::sqrt(sum / static_cast<double>(cols) + epsilon);
    for (size_t j = 0; j < cols; ++j) values.y.push_back(gain[j] * x[first + j] * inverse);
    values.inverse_rms.push_back(inverse);
  }
  return values;
}

RmsNormGradients RmsNormBackward(size_t cols, const Values& x, const Values& gain, double epsilon,
                                 const Values& dy) {
  const Values inverse_rms = RmsNorm(cols, x, gain, epsilon).inverse_rms;
  RmsNormGradients gradients = {{}, Values(cols, 0.0)};
  for (size_t r = 0; r < inverse_rms.size(); ++r) {
    const double* row = x.data() + r * cols;
    const double* d = dy.data() + r * cols;
    const double s = inverse_rms[r];
    double sum = 0;
    for (size_t j = 0; j < cols; ++j) sum += gain[j] * d[j] * row[j];
    for (size_t j = 0; j < cols; ++j) {
      gradients.x.push_back(s * gain[j] * d[j] -
                            row[j] * s * s * s * sum / static_cast<double>(cols));
      gradients.gain[j] += d[j] * row[j] * s;
    }
  }
  return gradients;
}

Values Rotate(const SequenceShape& shape, double base, double direction, const Values& x) {
  Values y = x;
  const size_t width = shape.heads * shape.head_width;
  for (size_t row = 0; row < shape.sequences * shape.positions; ++row) {
    const auto t = static_cast<double>(row % shape.positions);
    for (size_t pair = 0; pair < width; ++pair) {  // of queries and keys
      const size_t i = pair % (shape.head_width / 2);
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_width);
      const double angle = direction * t * std::pow(base, exponent);
      const size_t at = row * 3 * width + 2 * pair;
      y[at] = x[at] * std::cos(angle) - x[at + 1] * std::sin(angle);
      y[at + 1] = x[at] * std::sin(angle) + x[at + 1] * std::cos(angle);
    }
  }
  return y;
}

AttentionValues CausalAttention(const SequenceShape& shape, const Values& x) {
  AttentionValues values;
  const HeadPlaces at(shape);
  values.y.resize(x.size() / 3);
  for (size_t s = 0; s < shape.sequences; ++s) {
    for (size_t t = 0; t < shape.positions; ++t) {
      for (size_t h = 0; h < shape.heads; ++h) {
        const ScoreRow row = Scores(shape, x, s, t, h);
        values.log_sum.push_back(row.log_sum);
        for (size_t u = 0; u <= t; ++u) {
          for (size_t j = 0; j < shape.head_width; ++j) {
            values.y[at.Out(s, t, h) + j] += row.weights[u] * x[at.Value(s, u, h) + j];
          }
        }
      }
    }
  }
  return values;
}

Values CausalAttentionBackward(const SequenceShape& shape, const Values& x, const Values& dy) {
  Values dx(x.size(), 0.0);
  const HeadPlaces at(shape);
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_width));
  for (size_t s = 0; s < shape.sequences; ++s) {
    for (size_t t = 0; t < shape.positions; ++t) {
      for (size_t h = 0; h < shape.heads; ++h) {
        const Values weights = Scores(shape, x, s, t, h).weights;
        Values dweights(t + 1, 0.0);
        double sum = 0;
        for (size_t u = 0; u <= t; ++u) {
          for (size_t j = 0; j < shape.head_width; ++j) {
            const double d = dy[at.Out(s, t, h) + j];
            dweights[u] += d * x[at.Value(s, u, h) + j];
            dx[at.Value(s, u, h) + j] += weights[u] * d;
          }
          sum += weights[u] * dweights[u];
        }
        for (size_t u = 0; u <= t; ++u) {
          const double dscore = weights[u] * (dweights[u] - sum) * scale;
          for (size_t j = 0; j < shape.head_width; ++j) {
            dx[at.Query(s, t, h) + j] += dscore * x[at.Key(s, u, h) + j];
            dx[at.Key(s, u, h) + j] += dscore * x[at.Query(s, t, h) + j];
          }
        }
      }
    }
  }
  return dx;
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
