#ifndef SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_OP_CASES_H_
#define SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_OP_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "worker/backend/backend.h"

namespace sangam::testing {

// One claim about an operation that every backend must meet. A backend is right when it passes all:
// a new operation needs its cases here.
struct OpCase {
  std::string name;                      // letters, digits and underscores
  std::function<void(Backend*)> verify;  // by googletest's assertions
};

std::vector<OpCase> AllOpCases();

// Its parts.
std::vector<OpCase> MemoryCases();
std::vector<OpCase> GemmCases();
std::vector<OpCase> SumRowsCases();
std::vector<OpCase> ActivationCases();
std::vector<OpCase> DropoutCases();
std::vector<OpCase> SoftmaxCases();
std::vector<OpCase> SumCases();
std::vector<OpCase> LookupCases();
std::vector<OpCase> RmsNormCases();
std::vector<OpCase> RotateCases();
std::vector<OpCase> AttentionCases();
std::vector<OpCase> Conv2dCases();
std::vector<OpCase> PoolingCases();
std::vector<OpCase> NormCases();
std::vector<OpCase> NumberLossCases();
std::vector<OpCase> TransferCases();

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_OP_CASES_H_
