#ifndef TESTS_CUDA_ON_CPU_INCLUDE_VECTOR_TYPES_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_VECTOR_TYPES_H_

// CUDA's small vectors, with the alignment that they have on a device.

struct uint3 {
  unsigned int x, y, z;
};

struct int2 {
  int x, y;
} __attribute__((aligned(8)));

struct int4 {
  int x, y, z, w;
} __attribute__((aligned(16)));

struct uint2 {
  unsigned int x, y;
} __attribute__((aligned(8)));

struct uint4 {
  unsigned int x, y, z, w;
} __attribute__((aligned(16)));

struct float2 {
  float x, y;
} __attribute__((aligned(8)));

struct float4 {
  float x, y, z, w;
} __attribute__((aligned(16)));

// The size of a grid or a block: what is not given is 1.
struct dim3 {
  unsigned int x = 1, y = 1, z = 1;

  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};

static inline int2 make_int2(int x, int y) { return int2{x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return int4{x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return uint2{x, y}; }
static inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return uint3{x, y, z}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return uint4{x, y, z, w};
}
static inline float2 make_float2(float x, float y) { return float2{x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_VECTOR_TYPES_H_
