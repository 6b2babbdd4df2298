#include "worker/layers/layer_chain.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/model/layer_demand.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Log = std::vector<std::string>;

// Notes what it is asked for.
class NotingLayer : public Layer {
 public:
  NotingLayer(int number, bool has_parameters, Log* log)
      : number_(number), has_parameters_(has_parameters), log_(log) {}

  LayerDemand demand() const override { return ActivationDemand(number_); }
  bool has_parameters() const override { return has_parameters_; }
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& /*call*/, ConstMatrix input,
                                      LayerState* /*state*/) const override {
    log_->push_back(absl::StrCat("forward ", number_));
    return ConstMatrix(nullptr, input.rows, number_);
  }
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& /*call*/, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* /*state*/) const override {
    log_->push_back(absl::StrCat("input ", number_, want_input_gradient ? "" : " unwanted"));
    return want_input_gradient ? output_gradient : ConstMatrix();
  }
  absl::Status BackwardWeights(const LayerCall& /*call*/, const LayerGradients& /*gradients*/,
                               LayerState* /*state*/) const override {
    log_->push_back(absl::StrCat("weights ", number_));
    return absl::OkStatus();
  }

 private:
  int number_;
  bool has_parameters_;
  Log* log_;
};

// Layers 0, 1, ... of which some have parameters.
LayerChain Chain(const std::vector<bool>& has_parameters, Log* log) {
  std::vector<std::unique_ptr<Layer>> layers;
  for (const bool has : has_parameters) {
    layers.push_back(std::make_unique<NotingLayer>(static_cast<int>(layers.size()), has, log));
  }
  return LayerChain(std::move(layers));
}

TEST(LayerChainTest, PassesGoThroughTheLayersInOrder) {
  Log log;
  const LayerChain chain = Chain({false, true, false}, &log);
  EXPECT_TRUE(chain.has_parameters());
  ASSERT_EQ(chain.demands().size(), 3u);
  EXPECT_EQ(chain.demands()[2].output, 2);
  std::vector<LayerState> states(3);
  const auto output = chain.Forward({}, {nullptr, 2, 7}, &states);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->cols, 2);
  EXPECT_THAT(log, ElementsAre("forward 0", "forward 1", "forward 2"));
  log.clear();
  EXPECT_EQ(chain.BackwardInput({}, {nullptr, 2, 2}, true, &states)->rows, 2);
  EXPECT_THAT(log, ElementsAre("input 2", "input 1", "input 0"));
  log.clear();
  EXPECT_TRUE(chain.BackwardWeights({}, {}, &states).ok());
  EXPECT_THAT(log, ElementsAre("weights 2", "weights 1"));
  log.clear();
  EXPECT_TRUE(chain.Backward({}, {nullptr, 2, 2}, true, {}, &states).ok());
  EXPECT_THAT(log,
              ElementsAre("input 2", "weights 2", "input 1", "weights 1", "input 0", "weights 0"));
}

TEST(LayerChainTest, StopsWhereNothingInFrontWantsAGradient) {
  Log log;
  std::vector<LayerState> states(4);
  const LayerChain chain = Chain({false, true, true, false}, &log);
  EXPECT_EQ(chain.BackwardInput({}, {nullptr, 2, 2}, false, &states)->rows, 0);
  EXPECT_THAT(log, ElementsAre("input 3", "input 2", "input 1 unwanted"));
  log.clear();
  const LayerChain without = Chain({false, false}, &log);
  EXPECT_FALSE(without.has_parameters());
  EXPECT_EQ(without.BackwardInput({}, {nullptr, 2, 2}, false, &states)->rows, 0);
  EXPECT_TRUE(without.BackwardWeights({}, {}, &states).ok());
  EXPECT_THAT(log, IsEmpty());
}

}  // namespace
}  // namespace sangam
