#include "worker/layers/layer_memory.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/layer_demand.h"
#include "common/model/model_layout.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/worker/layers/size_backend.h"
#include "worker/layers/block.h"
#include "worker/layers/layer.h"

namespace sangam {
namespace {

using testing::SizeBackend;

TEST(PieceCutterTest, PiecesBeginAtCacheLines) {
  float memory[64];
  PieceCutter cutter(3, memory);
  EXPECT_EQ(cutter.Cut(5), memory);
  EXPECT_EQ(cutter.Cut(0), nullptr);
  EXPECT_EQ(cutter.Cut(6), memory + 16);
  EXPECT_EQ(cutter.Cut(1), memory + 48);
  EXPECT_EQ(cutter.total(), 64);
  PieceCutter counter(3, nullptr);
  EXPECT_EQ(counter.Cut(5), nullptr);
  EXPECT_EQ(counter.total(), 16);
}

TEST(PieceCutterTest, SaysWhenNothingCanBeThatLarge) {
  PieceCutter rows(std::numeric_limits<uint64_t>::max(), nullptr);
  rows.Cut(1);
  EXPECT_FALSE(rows.fits());
  PieceCutter sum(uint64_t{1} << 59, nullptr);
  sum.Cut(1);
  EXPECT_TRUE(sum.fits());
  sum.Cut(1);
  sum.Cut(1);
  EXPECT_FALSE(sum.fits());
}

TEST(LayerMemoryTest, EachPieceIsItsLayers) {
  float memory[64 * 16];
  PieceCutter cutter(16, memory);
  const std::vector<LayerDemand> demands = {
      LinearDemand(1, 2, 3, true),
      ResidualDemand(3, 3, {ChainDemand({RmsNormDemand(1, 3)}), ChainDemand({})})};
  std::vector<LayerState> layers;
  CutStates(demands, &cutter, &layers);
  CutScratch(demands, &cutter, &layers);
  ASSERT_EQ(layers.size(), 2u);
  ASSERT_EQ(layers[1].inner.size(), 2u);
  const auto place = [&memory](const float* piece) { return (piece - memory) / 16; };
  EXPECT_EQ(place(layers[0].output), 0);
  EXPECT_EQ(layers[0].kept, nullptr);
  EXPECT_EQ(place(layers[1].output), 3);
  EXPECT_EQ(place(layers[1].inner[0].inner[0].output), 6);
  EXPECT_EQ(place(layers[1].inner[0].inner[0].kept), 9);
  EXPECT_EQ(place(layers[0].delta), 10);
  EXPECT_EQ(place(layers[0].input_gradient), 13);
  EXPECT_EQ(place(layers[1].input_gradient), 15);
  EXPECT_EQ(place(layers[1].inner[0].inner[0].input_gradient), 18);
  EXPECT_EQ(cutter.total(), 21 * 16);
}

// A model with every kind of layer.
v1::ModelSpec EveryLayer(bool recompute) {
  v1::ModelSpec model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    input_shape: 8
    block {
      name: "embed"
      layer { embedding { vocabulary: 50 width: 12 } }
      layer { position_embedding {} }
      layer { dropout { rate: 0.1 } }
    }
    block { layer { transformer { heads: 3 dropout: 0.1 } } layer { tanh {} } }
    block { layer { linear { out_features: 12 } } layer { relu {} } layer { dropout {} } }
    block { layer { rms_norm {} } layer { tied_head { block: "embed" } } }
    block {
      layer { residual { layer { tanh {} } shortcut { layer_norm {} } shortcut { sigmoid {} } } }
      layer { concat { branch {} branch { layer { batch_norm {} } layer { tanh {} } } } }
    }
    block { layer { flatten {} } }
  )",
                                                            &model));
  for (v1::BlockSpec& block : *model.mutable_block()) block.set_recompute(recompute);
  return model;
}

// The same for images.
v1::ModelSpec EveryImageLayer(bool recompute) {
  v1::ModelSpec model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    input_shape: [8, 7, 3]
    block {
      layer { conv2d { out_channels: 4 kernel_height: 3 padding: 1 } }
      layer { relu {} }
      layer { max_pool2d { kernel: 2 } }
    }
    block { layer { conv2d { out_channels: 5 kernel_height: 2 } } layer { batch_norm {} } }
    block { layer { residual {
      layer { conv2d { out_channels: 3 kernel_height: 1 stride: 2 no_bias: true } }
      layer { relu {} }
      shortcut { average_pool2d { kernel: 1 stride: 2 } }
      shortcut { conv2d { out_channels: 3 kernel_height: 1 } }
    } } }
    block { layer { average_pool2d {} } layer { flatten {} } }
  )",
                                                            &model));
  for (v1::BlockSpec& block : *model.mutable_block()) block.set_recompute(recompute);
  return model;
}

// What plans count is what blocks allocate. 16 rows of any size are whole cache lines.
TEST(BlockMemoryTest, IsWhatTheLayoutDeclares) {
  constexpr uint64_t kRows = 16;
  for (const v1::ModelSpec& model :
       {EveryLayer(false), EveryLayer(true), EveryImageLayer(false), EveryImageLayer(true)}) {
    const bool recompute = model.block(0).recompute();
    const auto layout = BuildModelLayout(model);
    ASSERT_TRUE(layout.ok()) << layout.status();
    for (int b = 0; b < layout->block_size(); ++b) {
      SCOPED_TRACE(absl::StrCat("block ", b, recompute ? ", recomputed" : ""));
      const auto block = Block::Create(model, *layout, static_cast<uint32_t>(b));
      ASSERT_TRUE(block.ok()) << block.status();
      const uint64_t kept = kRows * layout->block(b).activation_bytes();
      const uint64_t passing = kRows * layout->block(b).scratch_bytes();
      for (const BackwardMode mode : {BackwardMode::kWhole, BackwardMode::kSplit}) {
        SizeBackend backend;
        const auto scratch = (*block)->NewScratch(&backend, kRows, mode);
        ASSERT_TRUE(scratch.ok()) << scratch.status();
        const uint64_t of_scratch = backend.allocated_bytes();
        ASSERT_TRUE((*block)->NewState(&backend, kRows, mode, scratch->get()).ok());
        const uint64_t of_state = backend.allocated_bytes() - of_scratch;
        const bool split = mode == BackwardMode::kSplit && !recompute;
        EXPECT_EQ(of_scratch, split ? 0 : passing);
        EXPECT_EQ(of_state, split ? kept + passing : kept);
      }
    }
  }
}

}  // namespace
}  // namespace sangam
