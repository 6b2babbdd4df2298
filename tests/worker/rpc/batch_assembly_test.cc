#include "worker/rpc/batch_assembly.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/batch_id.h"
#include "common/tensor/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"
#include "worker/data/batch_buffers.h"
#include "worker/data/batch_source.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SlicePayload Bytes(size_t count) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(count, 1);
  const ByteSpan piece = {bytes->data(), bytes->size()};
  return SlicePayload({piece}, std::move(bytes));
}

SlicePayload Floats(const std::vector<float>& values) {
  auto floats = std::make_shared<std::vector<float>>(values);
  const ByteSpan piece = {reinterpret_cast<const uint8_t*>(floats->data()), 4 * floats->size()};
  return SlicePayload({piece}, std::move(floats));
}

SlicePayload Labels(const std::vector<uint32_t>& values) {
  auto labels = std::make_shared<std::vector<uint32_t>>(values);
  const ByteSpan piece = {reinterpret_cast<const uint8_t*>(labels->data()), 4 * labels->size()};
  return SlicePayload({piece}, std::move(labels));
}

// Micro-batch 2 of step 9: at most 2 rows of 3 inputs and 2 labels.
class BatchAssemblyTest : public ::testing::Test {
 protected:
  BatchAssemblyTest() {
    options_.max_rows = 2;
    options_.input_elements = 3;
    options_.labels_per_sample = 2;
    target_.inputs = inputs_.data();
    target_.labels = labels_.data();
  }

  BatchAssembly Make() const { return BatchAssembly(options_, {false, 9, 2}, target_); }
  static v1::FrameHeader Piece(v1::FrameKind kind, uint64_t rows, uint64_t first, uint64_t count) {
    v1::FrameHeader header;
    header.set_kind(kind);
    header.set_encoding(kind == v1::FRAME_KIND_INPUTS ? v1::ENCODING_FP32 : v1::ENCODING_UINT32);
    header.set_step(9);
    header.set_micro_batch(2);
    header.set_rows(rows);
    header.set_columns(kind == v1::FRAME_KIND_INPUTS ? 3 : 2);
    header.set_first_element(first);
    header.set_element_count(count);
    return header;
  }
  static void ExpectRefused(BatchAssembly assembly, const v1::FrameHeader& header, size_t bytes,
                            const std::string& words) {
    const absl::StatusOr<bool> added = assembly.Add(header, Bytes(bytes));
    EXPECT_EQ(added.status().code(), absl::StatusCode::kInvalidArgument) << added.status();
    EXPECT_THAT(std::string(added.status().message()), HasSubstr(words));
  }

  BatchOptions options_;
  std::array<float, 6> inputs_ = {};
  std::array<uint32_t, 4> labels_ = {};
  BatchBuffers::Target target_;
};

TEST_F(BatchAssemblyTest, PutsPiecesInTheirPlace) {
  BatchAssembly assembly = Make();
  EXPECT_FALSE(assembly.Add(Piece(v1::FRAME_KIND_INPUTS, 2, 0, 4), Floats({1, 2, 3, 4})).value());
  EXPECT_FALSE(assembly.Add(Piece(v1::FRAME_KIND_INPUTS, 2, 4, 2), Floats({5, 6})).value());
  EXPECT_FALSE(assembly.Add(Piece(v1::FRAME_KIND_LABELS, 2, 0, 1), Labels({7})).value());
  EXPECT_TRUE(assembly.Add(Piece(v1::FRAME_KIND_LABELS, 2, 1, 3), Labels({8, 9, 10})).value());
  EXPECT_EQ(assembly.rows(), 2);
  EXPECT_THAT(inputs_, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(labels_, ElementsAre(7, 8, 9, 10));
}

TEST_F(BatchAssemblyTest, ExpectsOnlyWhatIsWanted) {
  options_.labels_per_sample = 0;
  EXPECT_TRUE(Make().Add(Piece(v1::FRAME_KIND_INPUTS, 1, 0, 3), Floats({1, 2, 3})).value());
  options_.labels_per_sample = 2;
  options_.input_elements = 0;
  EXPECT_TRUE(Make().Add(Piece(v1::FRAME_KIND_LABELS, 1, 0, 2), Labels({1, 2})).value());
}

TEST_F(BatchAssemblyTest, ABatchMayHaveNoSamples) {
  BatchAssembly assembly = Make();
  EXPECT_FALSE(assembly.Add(Piece(v1::FRAME_KIND_INPUTS, 0, 0, 0), SlicePayload()).value());
  EXPECT_TRUE(assembly.Add(Piece(v1::FRAME_KIND_LABELS, 0, 0, 0), SlicePayload()).value());
  EXPECT_EQ(assembly.rows(), 0);
}

TEST_F(BatchAssemblyTest, BeginsAnewOnAnotherStream) {
  BatchAssembly assembly = Make();
  EXPECT_FALSE(assembly.Add(Piece(v1::FRAME_KIND_INPUTS, 2, 0, 6), Bytes(24)).value());
  assembly.Restart();
  EXPECT_FALSE(assembly.Add(Piece(v1::FRAME_KIND_INPUTS, 1, 0, 3), Floats({7, 8, 9})).value());
  EXPECT_TRUE(assembly.Add(Piece(v1::FRAME_KIND_LABELS, 1, 0, 2), Labels({1, 2})).value());
  EXPECT_EQ(assembly.rows(), 1);
  EXPECT_EQ(inputs_[0], 7);
}

TEST_F(BatchAssemblyTest, RefusesWhatIsNotTheNextPiece) {
  const v1::FrameHeader good = Piece(v1::FRAME_KIND_INPUTS, 2, 0, 4);
  v1::FrameHeader header = good;
  header.set_step(8);
  ExpectRefused(Make(), header, 16,
                "found micro-batch 2 of step 8, expected micro-batch 2 of step 9");
  header = good;
  header.set_evaluation(true);
  ExpectRefused(Make(), header, 16, "found chunk 2 of the test set");
  ExpectRefused(Make(), Piece(v1::FRAME_KIND_LABELS, 2, 0, 4), 16,
                "kind: found FRAME_KIND_LABELS, expected FRAME_KIND_INPUTS");
  header = good;
  header.set_encoding(v1::ENCODING_UINT32);
  ExpectRefused(Make(), header, 16, "encoding: found ENCODING_UINT32, expected ENCODING_FP32");
  ExpectRefused(Make(), Piece(v1::FRAME_KIND_INPUTS, 3, 0, 4), 16,
                "rows: found 3, expected at most 2");
  header = good;
  header.set_columns(4);
  ExpectRefused(Make(), header, 16, "columns: found 4, expected 3");
  ExpectRefused(Make(), Piece(v1::FRAME_KIND_INPUTS, 2, 2, 4), 16,
                "first_element: found 2, expected 0");
  ExpectRefused(Make(), Piece(v1::FRAME_KIND_INPUTS, 2, 0, 7), 28,
                "element_count: found 7, expected 1 to 6");
  ExpectRefused(Make(), Piece(v1::FRAME_KIND_INPUTS, 2, 0, 0), 0, "element_count: found 0");
  ExpectRefused(Make(), good, 15, "payload: found 15 bytes, expected 16");
  ExpectRefused(Make(), good, 17, "payload: found 17 bytes, expected 16");
}

TEST_F(BatchAssemblyTest, EveryPieceTellsTheSameShape) {
  BatchAssembly assembly = Make();
  ASSERT_TRUE(assembly.Add(Piece(v1::FRAME_KIND_INPUTS, 2, 0, 6), Bytes(24)).ok());
  ExpectRefused(assembly, Piece(v1::FRAME_KIND_LABELS, 1, 0, 2), 8, "rows: found 1, expected 2");
  ExpectRefused(assembly, Piece(v1::FRAME_KIND_INPUTS, 2, 0, 6), 24,
                "kind: found FRAME_KIND_INPUTS, expected FRAME_KIND_LABELS");
}

}  // namespace
}  // namespace sangam
