#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

struct RotateShape {
  int64_t sequences, positions, heads, head_width;
  int64_t rows() const { return sequences * positions; }
  int64_t cols() const { return 3 * heads * head_width; }
  SequenceShape reference() const {
    return {static_cast<size_t>(sequences), static_cast<size_t>(positions),
            static_cast<size_t>(heads), static_cast<size_t>(head_width)};
  }
};

Rotation RotationOf(const RotateShape& s, float base, bool backward) {
  Rotation rotation;
  rotation.positions = s.positions;
  rotation.heads = s.heads;
  rotation.base = base;
  rotation.backward = backward;
  return rotation;
}

// Sine and cosine are rounded, and two products and their sum: 4 epsilon of the pair's sizes, both
// below 1.
constexpr double kTolerance = 8 * 0x1p-24;

void TurnsAsTheReference(Backend* backend, const RotateShape& s, float base) {
  const std::vector<float> x = RandomFloats(s.rows() * s.cols(), 1);
  for (const bool backward : {false, true}) {
    const Rotation rotation = RotationOf(s, base, backward);
    const DeviceMatrix in(backend, s.rows(), s.cols(), x);
    const DeviceMatrix out(backend, s.rows(), s.cols());
    const absl::Status status = backend->Rotate(rotation, in.view(), out.view());
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> y = out.Read();
    const Values expected = Rotate(s.reference(), double{base}, backward ? -1.0 : 1.0, ToDouble(x));
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], kTolerance) << i;
    // Over its input, and anywhere in memory, the same bits.
    ASSERT_TRUE(backend->Rotate(rotation, in.view(), in.view()).ok());
    EXPECT_EQ(in.Read(), y);
    const DeviceMatrix shifted(backend, s.rows(), s.cols(), x, 1);
    ASSERT_TRUE(backend->Rotate(rotation, shifted.view(), shifted.view()).ok());
    EXPECT_EQ(shifted.Read(), y);
  }
}

// Whatever shapes and bases the backend has seen before.
void BitsDoNotDependOnEarlierCalls(Backend* backend) {
  const RotateShape shapes[] = {{2, 9, 3, 10}, {1, 20, 1, 10}, {3, 2, 2, 4}, {2, 9, 3, 10}};
  const auto turn = [backend](const RotateShape& s, float base) {
    const DeviceMatrix x(backend, s.rows(), s.cols(), RandomFloats(s.rows() * s.cols(), 1));
    EXPECT_TRUE(backend->Rotate(RotationOf(s, base, false), x.view(), x.view()).ok());
    return x.Read();
  };
  const std::vector<float> first = turn(shapes[0], 10000);
  EXPECT_NE(turn(shapes[0], 500), first);
  for (const RotateShape& s : shapes) turn(s, 10000);
  EXPECT_EQ(turn(shapes[3], 10000), first);
}

void AtPositionZeroNothingTurns(Backend* backend) {
  const RotateShape s = {5, 1, 2, 6};
  const std::vector<float> x = RandomFloats(s.rows() * s.cols(), 1);
  const DeviceMatrix matrix(backend, s.rows(), s.cols(), x);
  ASSERT_TRUE(backend->Rotate(RotationOf(s, 10000, false), matrix.view(), matrix.view()).ok());
  EXPECT_EQ(matrix.Read(), x);
}

}  // namespace

std::vector<OpCase> RotateCases() {
  std::vector<OpCase> cases = {
      {"RotateBitsDoNotDependOnEarlierCalls", BitsDoNotDependOnEarlierCalls},
      {"RotateAtPositionZeroNothingTurns", AtPositionZeroNothingTurns},
  };
  const std::vector<RotateShape> shapes = {{0, 3, 1, 2},   {1, 1, 1, 2},    {2, 3, 1, 2},
                                           {3, 5, 2, 6},   {1, 16, 3, 16},  {2, 33, 2, 18},
                                           {1, 64, 2, 32}, {1, 1000, 1, 64}};
  for (const RotateShape& s : shapes) {
    for (const float base : {10000.0f, 1.5f}) {
      cases.push_back({absl::StrCat("Rotate_", s.sequences, "x", s.positions, "_", s.heads, "x",
                                    s.head_width, base > 2 ? "" : "_SmallBase"),
                       [s, base](Backend* backend) { TurnsAsTheReference(backend, s, base); }});
    }
  }
  return cases;
}

}  // namespace sangam::testing
