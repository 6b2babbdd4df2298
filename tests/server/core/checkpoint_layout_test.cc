#include "server/core/checkpoint_layout.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

v1::ModelLayout TwoSegments() {
  v1::ModelLayout layout;
  const auto add = [&layout](int segment, const std::string& name, uint64_t rows, uint64_t cols) {
    while (layout.segment_size() <= segment) layout.add_segment();
    v1::SegmentLayout* const to = layout.mutable_segment(segment);
    v1::ParameterLayout* const parameter = to->add_parameter();
    parameter->set_name(name);
    parameter->add_shape(rows);
    parameter->add_shape(cols);
    parameter->set_offset(to->element_count());
    parameter->set_element_count(rows * cols);
    to->set_element_count(to->element_count() + rows * cols);
  };
  add(0, "z.weight", 3, 4);
  add(0, "z.bias", 1, 4);
  add(1, "a.weight", 5, 2);
  return layout;
}

TEST(CheckpointLayoutTest, PiecesOfAllPagesCoverTheFilesOnce) {
  const auto layout = CheckpointLayout::Create(TwoSegments(), {"exp_avg", "exp_avg_sq"});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->num_elements(), 26u);
  EXPECT_EQ(layout->file_size(0), layout->header(0).size() + 26 * 4);
  EXPECT_EQ(layout->file_size(1), layout->header(1).size() + 2 * 26 * 4);
  for (uint64_t page = 1; page <= 17; ++page) {
    std::set<std::pair<size_t, uint64_t>> seen;
    for (uint32_t segment = 0; segment < 2; ++segment) {
      const uint64_t length = segment == 0 ? 16 : 10;
      for (uint64_t first = 0; first < length; first += page) {
        const uint64_t count = std::min(page, length - first);
        const auto pieces = layout->Pieces(segment, first, count);
        ASSERT_TRUE(pieces.ok()) << pieces.status();
        uint64_t elements = 0;
        for (const CheckpointLayout::Piece& piece : *pieces) {
          EXPECT_EQ(piece.file, piece.array == 0 ? 0u : 1u);
          EXPECT_LE(piece.first + piece.count, count);
          elements += piece.count;
          for (uint64_t i = 0; i < piece.count; ++i) {
            const uint64_t offset = piece.offset + i * 4;
            EXPECT_GE(offset, layout->header(piece.file).size());
            EXPECT_LT(offset, layout->file_size(piece.file));
            EXPECT_TRUE(seen.insert({piece.file, offset}).second) << offset;
          }
        }
        EXPECT_EQ(elements, 3 * count);
      }
    }
    EXPECT_EQ(seen.size(), 26u * 3);
  }
}

TEST(CheckpointLayoutTest, TensorsLieInTheOrderOfTheirNames) {
  const auto layout = CheckpointLayout::Create(TwoSegments(), {});
  ASSERT_TRUE(layout.ok());
  // a.weight, z.bias, z.weight
  EXPECT_EQ((*layout->Pieces(1, 0, 10))[0].offset, layout->header(0).size());
  EXPECT_EQ((*layout->Pieces(0, 12, 4))[0].offset, layout->header(0).size() + 40);
  EXPECT_EQ((*layout->Pieces(0, 0, 12))[0].offset, layout->header(0).size() + 56);
}

TEST(CheckpointLayoutTest, RefusesWhatDoesNotFit) {
  const auto layout = CheckpointLayout::Create(TwoSegments(), {"m"});
  ASSERT_TRUE(layout.ok());
  EXPECT_FALSE(layout->Pieces(2, 0, 1).ok());
  EXPECT_FALSE(layout->Pieces(0, 16, 1).ok());
  EXPECT_FALSE(layout->Pieces(0, 0, 0).ok());
  EXPECT_FALSE(layout->Pieces(0, 1, UINT64_MAX).ok());
  EXPECT_FALSE(CheckpointLayout::Create(TwoSegments(), {"m", "m"}).ok());
  v1::ModelLayout gap = TwoSegments();
  gap.mutable_segment(0)->mutable_parameter(1)->set_offset(13);
  EXPECT_FALSE(CheckpointLayout::Create(gap, {}).ok());
}

}  // namespace
}  // namespace sangam
