#include "worker/backend/cpu/windows.h"

#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/backend.h"

namespace sangam::cpu_kernels {
namespace {

// Two images of 2 x 2 pixels and 2 channels, windows of 2 x 2 with stride 2 and padding 1: each
// covers one corner.
constexpr WindowShape kCorners = {{2, 2, 2}, {2, 2, 2, 1}, 1};
const std::vector<float> kImages = {1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 50, 60, 70, 80};

TEST(CpuWindowsTest, RowsHoldWhatWindowsCover) {
  // The last pixel of the first image and the first two of the second.
  std::vector<float> rows(3 * 8, -1.0f);
  WindowsToRows(kCorners, kImages.data(), 3, 3, rows.data());
  EXPECT_EQ(rows, (std::vector<float>{7, 8, 0, 0, 0,  0,  0,  0,   //
                                      0, 0, 0, 0, 0,  0,  10, 20,  //
                                      0, 0, 0, 0, 30, 40, 0,  0}));
}

TEST(CpuWindowsTest, RowsAreAddedWhereTheyCameFrom) {
  std::vector<float> images(16, 100.0f);
  std::vector<float> rows;
  for (int i = 0; i < 24; ++i) rows.push_back(static_cast<float>(i));
  AddRowsToWindows(kCorners, rows.data(), 3, 3, images.data());
  std::vector<float> expected(16, 100.0f);
  expected[6] += 0;
  expected[7] += 1;
  expected[8] += 14;
  expected[9] += 15;
  expected[10] += 20;
  expected[11] += 21;
  EXPECT_EQ(images, expected);
}

TEST(CpuWindowsTest, PixelsAreAddedInOrder) {
  // One row of three pixels under three windows of three: the middle pixel is in all of them.
  const WindowShape shape = {{3, 3, 1}, {3, 3, 1, 1}, 1};
  std::vector<float> rows(9 * 9, 0.0f);
  rows[8] = 0x1p24f;           // the first window's last element is the image's pixel (1, 1)
  rows[1 * 9 + 7] = 1;         // of the second one
  rows[2 * 9 + 6] = -0x1p24f;  // of the third one
  std::vector<float> image(9, 0.0f);
  AddRowsToWindows(shape, rows.data(), 0, 9, image.data());
  EXPECT_EQ(image[4], 0.0f);
}

}  // namespace
}  // namespace sangam::cpu_kernels
