#ifndef SANGAM_WORKER_BACKEND_PRECISION_H_
#define SANGAM_WORKER_BACKEND_PRECISION_H_

namespace sangam {

// Of the factors of matrix products, convolutions and attention. Sums, results and all other
// operations are binary32.
enum class Precision {
  kFp32,
  // Factors are rounded to bfloat16, to nearest, ties to even.
  kBf16,
  // Factors are rounded to 11 significant bits of binary32, as tensor cores do.
  kTf32,
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_PRECISION_H_
