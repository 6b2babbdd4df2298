#include "common/model/data_check.h"

#include <string>
#include <vector>

#include "common/model/field_fault.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

constexpr char kImages[] = R"(
  model { input_shape: [28, 28] }
  loss { softmax_cross_entropy {} }
  data {
    idx { train_images: "a" train_labels: "b" test_images: "c" test_labels: "d" }
    mean: 0.3 stddev: 0.5 no_shuffle: true served: true
  })";
constexpr char kText[] = R"(
  model { input_shape: 128 }
  loss { token_cross_entropy {} }
  data { text { train: "a*.txt" train: "books/[b-d]?.txt" test: "z..txt" } no_shuffle: true })";
constexpr char kTokens[] = R"(
  model { input_shape: 128 }
  loss { token_cross_entropy {} }
  data { tokens { train: "train_*.bin" test: "val.bin" } served: true })";

// The faults of `base` with `change`.
std::string Faults(const std::string& base, const std::string& change = "") {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(base, &spec));
  v1::JobSpec changes;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &changes)) << change;
  spec.MergeFrom(changes);
  std::vector<FieldFault> faults;
  CheckData(spec, &faults);
  return std::string(ToStatus(faults).message());
}

TEST(DataCheckTest, AcceptsEveryKind) {
  for (const char* good : {kImages, kText, kTokens}) EXPECT_EQ(Faults(good), "");
  EXPECT_EQ(Faults(kText, "data { mean: 0 }"), "");
}

TEST(DataCheckTest, NeedsAKind) {
  EXPECT_EQ(Faults("data { mean: 1 }"), "data: found no source, expected idx, text or tokens");
}

TEST(DataCheckTest, ImagesAreFourPathsAndANormalisation) {
  EXPECT_THAT(Faults(kImages, "data { idx { train_labels: '/b' } }"),
              HasSubstr("data.idx.train_labels: found \"/b\", expected a path relative to"));
  EXPECT_THAT(Faults("data { idx { train_images: 'a' train_labels: 'b' } }"),
              HasSubstr("data.idx.test_images: found nothing, expected a test set because"));
  EXPECT_EQ(Faults("data { idx { train_images: 'a' train_labels: 'b' } } evaluation { off: true }"),
            "");
  EXPECT_THAT(Faults(kImages, "data { stddev: 0 }"), HasSubstr("data.stddev: found 0"));
  EXPECT_THAT(Faults(kImages, "data { mean: nan }"), HasSubstr("data.mean: found nan"));
  EXPECT_EQ(Faults(kImages, "model { block { layer { flatten {} } layer { embedding {} } } }"),
            "data.idx: found images in front of an embedding layer, expected text or tokens: an "
            "embedding takes the numbers of tokens");
}

TEST(DataCheckTest, SequencesNeedPatternsThatStayInside) {
  EXPECT_EQ(Faults("data { text {} }"),
            "data.text.train: found nothing, expected at least one pattern\n"
            "data.text.test: found nothing, expected a test set because the job evaluates "
            "(evaluation.off is false)");
  EXPECT_EQ(Faults("data { tokens { train: 'a' } } evaluation { off: true }"), "");
  EXPECT_EQ(Faults(kText, "data { text { train: '' } }"),
            "data.text.train[2]: found nothing, expected a path below the workers' --data_root");
  EXPECT_EQ(Faults(kText, "data { text { test: '/etc/*' } }"),
            "data.text.test[1]: found \"/etc/*\", expected a path relative to the workers' "
            "--data_root");
  for (const char* outside : {"..", "../x", "x/..", "a/../../b"}) {
    EXPECT_EQ(Faults(kTokens, "data { tokens { train: '" + std::string(outside) + "' } }"),
              "data.tokens.train[1]: found \"" + std::string(outside) +
                  "\", expected a path that stays below the workers' --data_root, without \"..\"");
  }
  EXPECT_THAT(Faults(kTokens, R"(data { tokens { test: 'a\000b' } })"),
              HasSubstr("data.tokens.test[1]: found a NUL character"));
}

TEST(DataCheckTest, TokensAreNotNormalised) {
  EXPECT_EQ(Faults(kText, "data { mean: 0.5 }"),
            "data.mean: found 0.5, expected none with data.text");
  EXPECT_EQ(Faults(kTokens, "data { stddev: 1 }"),
            "data.stddev: found 1, expected none with data.tokens");
  EXPECT_THAT(Faults(kTokens, "data { mean: nan }"), HasSubstr("data.mean: found nan"));
}

TEST(DataCheckTest, ModelAndLossGoWithTheData) {
  EXPECT_EQ(Faults(kText, "model { input_shape: 2 }"),
            "model.input_shape: found [128,2], expected one dimension with data.text: the tokens "
            "of a sequence");
  EXPECT_EQ(Faults(kTokens, "loss { softmax_cross_entropy {} }"),
            "loss: found softmax_cross_entropy, expected token_cross_entropy (data.tokens has one "
            "label for each token)");
  EXPECT_EQ(Faults(kImages, "loss { token_cross_entropy {} }"),
            "loss: found token_cross_entropy, expected softmax_cross_entropy (data.idx has one "
            "label for each sample)");
}

}  // namespace
}  // namespace sangam
