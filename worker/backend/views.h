#ifndef SANGAM_WORKER_BACKEND_VIEWS_H_
#define SANGAM_WORKER_BACKEND_VIEWS_H_

#include <cstdint>

namespace sangam {

// Borrowed row-major matrices without gaps, in the memory of the backend that is to work on them.
struct Matrix {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t size() const { return rows * cols; }
};

struct ConstMatrix {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t size() const { return rows * cols; }

  ConstMatrix() = default;
  ConstMatrix(const float* data_in, int64_t rows_in, int64_t cols_in)
      : data(data_in), rows(rows_in), cols(cols_in) {}
  // Reading is always allowed where writing is.
  ConstMatrix(const Matrix& other)  // NOLINT(google-explicit-constructor): see above
      : data(other.data), rows(other.rows), cols(other.cols) {}
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_VIEWS_H_
