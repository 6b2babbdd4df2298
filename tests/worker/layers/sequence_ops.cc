#include "tests/worker/layers/sequence_ops.h"

#include <cmath>
#include <cstddef>

#include "tests/testing/reference_ops.h"

namespace sangam::testing {

Values RmsNorm(const Values& x, const Values& gain, double epsilon) {
  const size_t width = gain.size();
  Values y(x.size());
  for (size_t r = 0; r < x.size() / width; ++r) {
    double squares = 0;
    for (size_t j = 0; j < width; ++j) squares += x[r * width + j] * x[r * width + j];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (size_t j = 0; j < width; ++j) y[r * width + j] = gain[j] * x[r * width + j] * scale;
  }
  return y;
}

Values RotateHeads(const HeadShape& shape, double base, Values qkv) {
  const size_t head = shape.width / shape.heads;
  for (size_t r = 0; r < qkv.size() / (3 * shape.width); ++r) {
    // Queries and keys, head after head, are 2 * heads runs of a head's width.
    for (size_t pair = 0; pair < shape.width; ++pair) {
      const double place = static_cast<double>(2 * pair % head) / static_cast<double>(head);
      const double angle = static_cast<double>(r % shape.positions) * std::pow(base, -place);
      double& a = qkv[r * 3 * shape.width + 2 * pair];
      double& b = qkv[r * 3 * shape.width + 2 * pair + 1];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
  return qkv;
}

Values HeadsAttention(const HeadShape& shape, const Values& qkv) {
  const size_t head = shape.width / shape.heads;
  const size_t rows = qkv.size() / (3 * shape.width);
  Values out(rows * shape.width, 0.0);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t h = 0; h < shape.heads; ++h) {
      const double* query = &qkv[r * 3 * shape.width + h * head];
      const size_t first = r - r % shape.positions;
      Values scores;
      double total = 0;
      for (size_t u = first; u <= r; ++u) {
        const double* key = &qkv[u * 3 * shape.width + shape.width + h * head];
        double score = 0;
        for (size_t i = 0; i < head; ++i) score += query[i] * key[i];
        scores.push_back(std::exp(score / std::sqrt(static_cast<double>(head))));
        total += scores.back();
      }
      for (size_t u = first; u <= r; ++u) {
        const double* value = &qkv[u * 3 * shape.width + 2 * shape.width + h * head];
        for (size_t i = 0; i < head; ++i) {
          out[r * shape.width + h * head + i] += scores[u - first] / total * value[i];
        }
      }
    }
  }
  return out;
}

}  // namespace sangam::testing
