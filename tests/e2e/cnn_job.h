#ifndef SANGAM_TESTS_E2E_CNN_JOB_H_
#define SANGAM_TESTS_E2E_CNN_JOB_H_

#include <string>

namespace sangam::testing {

// The blocks of a small model that has what is hard to spread: convolutions, pooling, norms with
// running statistics, dropout, a residual with a shortcut and a concat; one block recomputes.
std::string CnnModel();

// A job of that model; everything else is fixed. Its data files are named as by WriteTestData.
struct CnnJob {
  std::string name = "cnn";
  std::string data;  // further fields
  std::string optimizer = "learning_rate: 0.003 adamw {} clipping { max_norm: 0.5 }";
  int batch = 40;
  int micro_batches = 8;
  int shares = 8;
  int epochs = 2;
  std::string more;  // further fields
};

std::string CnnJobText(const CnnJob& job);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_E2E_CNN_JOB_H_
