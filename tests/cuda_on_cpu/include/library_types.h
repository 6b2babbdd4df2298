#ifndef TESTS_CUDA_ON_CPU_INCLUDE_LIBRARY_TYPES_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_LIBRARY_TYPES_H_

// Types of numbers, for cuBLAS.

enum cudaDataType_t {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_8I = 3,
  CUDA_R_32I = 10,
  CUDA_R_16BF = 14,
};
typedef cudaDataType_t cudaDataType;

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_LIBRARY_TYPES_H_
