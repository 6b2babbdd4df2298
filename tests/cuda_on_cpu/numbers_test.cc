// The arithmetic of device code.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace cuda_on_cpu::tests {
namespace {

TEST(NumbersTest, Bfloat16RoundsToTheNearestEvenNumber) {
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(1.0f)), 0x3f80);
  EXPECT_EQ(__bfloat162float(__float2bfloat16_rn(1 + 0x1p-8f)), 1.0f);
  EXPECT_EQ(__bfloat162float(__float2bfloat16_rn(1 + 0x1.8p-7f)), 1 + 0x1p-6f);
  EXPECT_EQ(__bfloat162float(__float2bfloat16_rn(-INFINITY)), -INFINITY);
  EXPECT_TRUE(std::isnan(__bfloat162float(__float2bfloat16_rn(NAN))));
  EXPECT_EQ(__bfloat162float(__float2bfloat16_rn(std::numeric_limits<float>::max())), INFINITY);
  const float2 both = __bfloat1622float2(__floats2bfloat162_rn(2, -3));
  EXPECT_EQ(both.x, 2);
  EXPECT_EQ(both.y, -3);
}

TEST(NumbersTest, EveryBfloat16IsItself) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(bits)));
    if (std::isnan(value)) continue;
    ASSERT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(value)), bits);
  }
}

TEST(NumbersTest, EveryBinary16IsItselfAndTheMiddleGoesToTheEvenNeighbour) {
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<unsigned short>(bits);
    const float value = __half2float(__ushort_as_half(low));
    ASSERT_EQ(__half_as_ushort(__float2half_rn(value)), bits);
    ASSERT_EQ(__half_as_ushort(__float2half_rn(-value)), bits | 0x8000);
    const float next = bits + 1 == 0x7c00 ? 65536.0f : __half2float(__ushort_as_half(low + 1));
    const float middle = value + (next - value) / 2;
    ASSERT_EQ(__half_as_ushort(__float2half_rn(middle)), bits + bits % 2) << bits;
    ASSERT_EQ(__half_as_ushort(__float2half_rn(std::nextafter(middle, 0.0f))), bits);
    ASSERT_EQ(__half_as_ushort(__float2half_rn(std::nextafter(middle, 1e9f))), bits + 1);
  }
  EXPECT_TRUE(std::isnan(__half2float(__float2half_rn(NAN))));
}

TEST(NumbersTest, IntegersAndBits) {
  EXPECT_EQ(__umulhi(0x80000000u, 6), 3u);
  EXPECT_EQ(__mulhi(-1, 1), -1);
  EXPECT_EQ(__umul64hi(1ull << 63, 6), 3ull);
  EXPECT_EQ(__popc(0xf0f0u), 8);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__float_as_int(1.0f), 0x3f800000);
  EXPECT_EQ(__int_as_float(0x40000000), 2.0f);
  EXPECT_EQ(min(3, 5), 3);
  EXPECT_EQ(max(3.5f, 2.0f), 3.5f);
  EXPECT_EQ(__float2int_rn(2.5f), 2);
  EXPECT_EQ(rsqrtf(4.0f), 0.5f);
}

TEST(NumbersTest, AtomicsReturnWhatWasThere) {
  int x = 5;
  EXPECT_EQ(atomicAdd(&x, 2), 5);
  EXPECT_EQ(atomicMin(&x, 3), 7);
  EXPECT_EQ(atomicMax(&x, 10), 3);
  EXPECT_EQ(atomicCAS(&x, 9, 1), 10);
  EXPECT_EQ(atomicCAS(&x, 10, 1), 10);
  EXPECT_EQ(atomicExch(&x, 8), 1);
  EXPECT_EQ(x, 8);
  float y = 1.5f;
  EXPECT_EQ(atomicAdd(&y, 2.0f), 1.5f);
  EXPECT_EQ(y, 3.5f);
}

}  // namespace
}  // namespace cuda_on_cpu::tests
