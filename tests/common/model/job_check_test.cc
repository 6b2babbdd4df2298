#include "common/model/job_check.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/model/field_fault.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kGood[] = R"(
  name: "job"
  model { input_shape: 4 block { layer { linear { out_features: 3 } } } }
  loss { softmax_cross_entropy {} }
  data { idx { train_images: "a" train_labels: "b" test_images: "c" test_labels: "d" } }
  optimizer { learning_rate: 0.1 sgd {} }
  batch { size: 16 micro_batches: 8 }
  epochs: 1
)";

v1::JobSpec Spec(const std::string& more = "") {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kGood, &spec));
  v1::JobSpec changes;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(more, &changes)) << more;
  spec.MergeFrom(changes);
  return spec;
}

// Sequences instead of images.
constexpr char kText[] = "loss { token_cross_entropy {} } data { text { train: 'a' test: 'b' } }";

// Lets the model begin with an embedding.
void EmbedTokens(v1::JobSpec* spec) {
  v1::BlockSpec* block = spec->mutable_model()->mutable_block(0);
  block->add_layer()->mutable_embedding()->set_vocabulary(5);
  block->mutable_layer(block->layer_size() - 1)->mutable_embedding()->set_width(2);
  block->mutable_layer()->SwapElements(0, block->layer_size() - 1);
}

std::string Faults(const v1::JobSpec& spec) {
  return std::string(ToStatus(CheckJobSpec(spec)).message());
}

TEST(JobCheckTest, AcceptsAGoodJob) {
  EXPECT_THAT(CheckJobSpec(Spec()), IsEmpty());
  EXPECT_THAT(CheckJobSpec(Spec("steps: 5 batch { shares: 3 } optimizer { adamw {} }")), IsEmpty());
}

TEST(JobCheckTest, AcceptsTheExampleJobs) {
  for (const std::string name :
       {"cifar_cnn", "csv_regression", "fashion_mnist_cnn", "fashion_mnist_mlp", "gpt_text",
        "mlp_4_stages", "mlp_hybrid", "residual_cnn"}) {
    std::ifstream file("deploy/jobs/" + name + ".textproto");
    ASSERT_TRUE(file.is_open()) << name;
    std::stringstream text;
    text << file.rdbuf();
    v1::JobSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text.str(), &spec)) << name;
    EXPECT_EQ(Faults(spec), "") << name;
    // What they resolve to is a good job, too: a coordinator may check it again.
    EXPECT_EQ(Faults(ResolveDefaults(spec)), "") << name;
  }
}

TEST(JobCheckTest, ListsEveryFaultOfAnEmptyJob) {
  const std::string faults = Faults(v1::JobSpec());
  for (const char* field :
       {"name: ", "model.input_shape: ", "model.block: ", "loss: ", "data: ",
        "optimizer.learning_rate: ", "optimizer: ", "batch.size: ", "epochs: "}) {
    EXPECT_THAT(faults, HasSubstr(field));
  }
}

TEST(JobCheckTest, NamesFieldFoundAndExpected) {
  const struct {
    const char* change;
    const char* fault;
  } cases[] = {
      {"name: 'a b'", "name: found \"a b\", expected 1 to 128"},
      {"name: '12'", "name: found \"12\", expected at least one character that is no digit"},
      {"batch { shares: 9 }", "batch.shares: found 9, expected 1 to 8"},
      {"batch { shares: 0 }", "batch.shares: found 0"},
      {"batch { micro_batches: 17 }", "batch.micro_batches: found 17, expected 1 to 16"},
      {"optimizer { learning_rate: nan }", "optimizer.learning_rate: found nan"},
      {"optimizer { learning_rate: -1 }", "optimizer.learning_rate: found -1"},
      {"optimizer { learning_rate: inf }", "optimizer.learning_rate: found inf"},
      {"on_nonfinite: 7", "on_nonfinite: found 7, expected FAIL_JOB or SKIP_STEP"},
      {"loss_alert { factor: 1 }", "loss_alert.factor: found 1"},
      {"loss_alert { factor: nan }", "loss_alert.factor: found nan"},
      {"loss_alert { window: 0 }", "loss_alert.window: found 0, expected 1 to 65536"},
      {"optimizer { momentum { momentum: 1 } }", "optimizer.momentum.momentum: found 1"},
      {"optimizer { adamw { beta1: -0.5 } }", "optimizer.adamw.beta1: found -0.5"},
      {"optimizer { adamw { beta2: nan } }", "optimizer.adamw.beta2: found nan"},
      {"optimizer { adamw { epsilon: 0 } }", "optimizer.adamw.epsilon: found 0"},
      {"optimizer { adamw { weight_decay: -1 } }", "optimizer.adamw.weight_decay: found -1"},
      {"optimizer { decay_group { parameter: 'none' } }",
       "optimizer.decay_group[0].parameter: found \"none\", which matches no parameter"},
      {"data { stddev: 0 }", "data.stddev: found 0"},
      {"data { mean: inf }", "data.mean: found inf"},
      {"data { idx { test_labels: '/etc/passwd' } }",
       "data.idx.test_labels: found \"/etc/passwd\""},
      {"epochs: 0", "epochs: found 0"},
      {"steps: 0", "steps: found 0"},
      {"resources { workers: 0 }", "resources.workers: found 0"},
      {"resources { backend: 'gpu' }",
       "resources.backend: found \"gpu\", expected \"cpu\", \"cuda\" or nothing"},
      {"resources { servers: 5000 }", "resources.servers: found 5000"},
      {"data { text { train: 'a' } }", "data.text.test: found nothing"},
      {"strategy: HYBRID pipeline { workers: 2 }", "pipeline.workers: found 2"},
      {"model { block { layer { tanh {} } layer { linear {} } } }",
       "model.block[1].layer[1].linear.out_features: found 0"},
  };
  for (const auto& test : cases) EXPECT_THAT(Faults(Spec(test.change)), HasSubstr(test.fault));
}

TEST(JobCheckTest, EvaluationNeedsATestSet) {
  v1::JobSpec spec = Spec();
  spec.mutable_data()->mutable_idx()->clear_test_images();
  spec.mutable_data()->mutable_idx()->clear_test_labels();
  EXPECT_THAT(Faults(spec), HasSubstr("data.idx.test_images: found nothing"));
  spec.mutable_evaluation()->set_off(true);
  EXPECT_THAT(CheckJobSpec(spec), IsEmpty());
  spec.mutable_data()->mutable_idx()->set_test_images("c");
  EXPECT_THAT(Faults(spec), HasSubstr("data.idx.test_labels: found nothing"));
}

TEST(JobCheckTest, OutputMustBeOneRowOfClasses) {
  v1::JobSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kGood, &spec));
  // Nothing but shapes can go wrong here: relu keeps [2,2].
  spec.mutable_model()->clear_input_shape();
  spec.mutable_model()->add_input_shape(2);
  spec.mutable_model()->add_input_shape(2);
  spec.mutable_model()->clear_block();
  spec.mutable_model()->add_block()->add_layer()->mutable_relu();
  EXPECT_FALSE(CheckJobSpec(spec).empty());
}

TEST(JobCheckTest, OutputMustFitTheLoss) {
  v1::JobSpec spec = Spec(kText);
  EXPECT_THAT(Faults(spec),
              HasSubstr("loss.token_cross_entropy: found a model output of shape [3], expected two "
                        "dimensions"));
  EmbedTokens(&spec);
  EXPECT_THAT(CheckJobSpec(spec), IsEmpty());
  spec.mutable_loss()->mutable_softmax_cross_entropy();
  EXPECT_THAT(Faults(spec), HasSubstr("loss.softmax_cross_entropy: found a model output of shape "
                                      "[4,3], expected one dimension"));
}

TEST(JobCheckTest, TargetsThatAreNumbersFitOutputsOfAnyShape) {
  v1::JobSpec spec = Spec("loss { mean_squared_error {} }");
  // The label of an image is a number, too; how many outputs there are is compared with the data.
  EXPECT_EQ(Faults(spec), "");
  spec.mutable_model()->mutable_input_shape()->Set(0, 1 << 30);
  spec.mutable_model()->add_input_shape(4);
  spec.mutable_model()->mutable_block(0)->mutable_layer(0)->mutable_linear()->set_out_features(2);
  EXPECT_THAT(Faults(spec), Not(HasSubstr("loss.mean_squared_error")));
  spec.mutable_model()->mutable_block(0)->mutable_layer(0)->mutable_linear()->set_out_features(3);
  EXPECT_THAT(Faults(spec), HasSubstr("loss.mean_squared_error: found a model output of shape "
                                      "[1073741824,3], expected at most 2147483648 elements"));
  spec.mutable_loss()->mutable_binary_cross_entropy();
  EXPECT_THAT(Faults(spec), HasSubstr("loss.binary_cross_entropy: found a model output"));
}

TEST(ResolveDefaultsTest, ChannelsHaveNoCommonDeviation) {
  v1::JobSpec spec = Spec();
  EXPECT_EQ(ResolveDefaults(spec).data().stddev(), 1);
  spec.mutable_data()->add_channel_mean(0.5f);
  EXPECT_FALSE(ResolveDefaults(spec).data().has_stddev());
}

TEST(ResolveDefaultsTest, ExpandsTransformerLayers) {
  v1::JobSpec spec = Spec(kText);
  EmbedTokens(&spec);
  spec.mutable_model()->mutable_block(0)->add_layer()->mutable_transformer()->set_heads(1);
  ASSERT_THAT(CheckJobSpec(spec), IsEmpty());
  const v1::BlockSpec block = ResolveDefaults(spec).model().block(0);
  ASSERT_EQ(block.layer_size(), 4);
  EXPECT_EQ(block.layer(3).residual().layer(1).linear().out_features(), 12u);
}

TEST(JobCheckTest, PrecisionIsOneThatIsKnown) {
  v1::JobSpec spec = Spec("precision: BF16");
  EXPECT_EQ(Faults(spec), "");
  EXPECT_EQ(ResolveDefaults(spec).precision(), v1::BF16);
  spec.set_precision(static_cast<v1::Precision>(7));
  EXPECT_THAT(Faults(spec), HasSubstr("precision: found 7, expected FP32, BF16 or TF32"));
}

TEST(ResolveDefaultsTest, FillsWhatAbsenceMeans) {
  const v1::JobSpec spec = ResolveDefaults(Spec("optimizer { adamw { beta1: 0.5 } }"));
  EXPECT_EQ(spec.batch().shares(), 8u);
  EXPECT_EQ(spec.data().stddev(), 1.0f);
  EXPECT_EQ(spec.optimizer().adamw().beta1(), 0.5f);
  EXPECT_EQ(spec.optimizer().adamw().beta2(), 0.999f);
  EXPECT_EQ(spec.resources().workers(), 1u);
  EXPECT_EQ(spec.model().block(0).name(), "block0");
  EXPECT_EQ(spec.strategy(), v1::DATA_PARALLEL);
  EXPECT_EQ(spec.on_nonfinite(), v1::FAIL_JOB);
  EXPECT_EQ(spec.loss_alert().factor(), 3);
  EXPECT_EQ(spec.loss_alert().window(), 100u);
  EXPECT_EQ(spec.consistency(), v1::SYNC);
  EXPECT_EQ(spec.precision(), v1::FP32);
  EXPECT_FALSE(spec.has_pipeline());
  EXPECT_EQ(ResolveDefaults(Spec("strategy: AUTO")).pipeline().schedule(), v1::ONE_F_ONE_B);
  // Only images are normalised.
  EXPECT_FALSE(ResolveDefaults(Spec("data { text { train: 'a' } }")).data().has_stddev());
  v1::JobSpec many = Spec("batch { size: 100 micro_batches: 100 }");
  EXPECT_EQ(ResolveDefaults(many).batch().shares(), 8u);
  many.mutable_batch()->clear_micro_batches();
  EXPECT_EQ(ResolveDefaults(many).batch().micro_batches(), 1u);
  EXPECT_EQ(ResolveDefaults(many).batch().shares(), 1u);
}

}  // namespace
}  // namespace sangam
