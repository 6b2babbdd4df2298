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

constexpr char kCifar[] = R"(
  model { input_shape: [32, 32, 3] }
  loss { softmax_cross_entropy {} }
  data {
    cifar { train: "data_batch_?.bin" test: "test_batch.bin" }
    channel_mean: [0.5, 0.4, 0.3] channel_stddev: [0.2, 0.2, 0.1]
    augmentation { crop_padding: 4 horizontal_flip: true }
  })";
constexpr char kNpy[] = R"(
  data { npy { train_inputs: "x" train_labels: "y" test_inputs: "u" test_labels: "v" }
         standardize: true })";
constexpr char kCsv[] = R"(
  loss { mean_squared_error {} }
  data { csv { train: "*.csv" test: "t.csv" label: "price" missing: COLUMN_MEAN separator: ";" } })";
constexpr char kLibsvm[] = R"(data { libsvm { train: "a" test: "b" zero_based: true } })";
constexpr char kSynthetic[] = R"(data { synthetic { train_samples: 9 test_samples: 1 noise: 1 } })";

TEST(DataCheckTest, AcceptsEveryKind) {
  for (const char* good : {kImages, kText, kTokens, kCifar, kNpy, kCsv, kLibsvm, kSynthetic}) {
    EXPECT_EQ(Faults(good), "");
  }
  EXPECT_EQ(Faults(kText, "data { mean: 0 }"), "");
}

TEST(DataCheckTest, NeedsAKind) {
  EXPECT_EQ(Faults("data { mean: 1 }"),
            "data: found no source, expected idx, text, tokens, cifar, npy, csv, libsvm or "
            "synthetic");
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

TEST(DataCheckTest, NormalisationIsSaidOnce) {
  EXPECT_EQ(Faults(kCifar, "data { mean: 0.5 }"),
            "data.channel_mean: found one beside mean or stddev, expected numbers for each channel "
            "or for all");
  EXPECT_EQ(Faults(kCifar, "data { channel_stddev: 1 }"),
            "data.channel_stddev: found 4 numbers, expected 3, one for each channel of data.cifar");
  EXPECT_THAT(Faults(kImages, "data { channel_mean: [1, 2] }"),
              HasSubstr("data.channel_mean: found 2 numbers, expected 1"));
  EXPECT_THAT(Faults(kNpy, "data { stddev: 2 }"),
              HasSubstr("data.standardize: found true beside mean, stddev"));
  EXPECT_THAT(Faults(kCifar, "data { standardize: true }"),
              HasSubstr("data.standardize: found true with data.cifar, expected npy, csv or"));
  EXPECT_THAT(Faults(kCsv, "data { channel_stddev: [1, 0] channel_mean: inf }"),
              HasSubstr("data.channel_stddev[1]: found 0, expected a finite number > 0"));
  EXPECT_THAT(Faults(kCsv, "data { channel_mean: inf }"), HasSubstr("data.channel_mean[0]: found"));
  EXPECT_EQ(Faults(kNpy, "model { block { layer { embedding {} } } }"),
            "data.standardize: found true, expected none with an embedding");
}

TEST(DataCheckTest, OnlyImagesAreAugmented) {
  EXPECT_EQ(Faults(kCsv, "data { augmentation { horizontal_flip: true } }"),
            "data.augmentation: found one with data.csv, expected images: idx, cifar or npy");
  EXPECT_THAT(Faults(kNpy, "data { augmentation {} }"),
              HasSubstr("data.augmentation: found one with standardize"));
  EXPECT_THAT(Faults(kCifar, "data { augmentation { crop_padding: 1025 } }"),
              HasSubstr("data.augmentation.crop_padding: found 1025, expected at most 1024"));
}

TEST(DataCheckTest, EveryKindHasItsOwnFields) {
  EXPECT_EQ(Faults(kCifar, "model { input_shape: 1 }"), "");
  EXPECT_EQ(Faults("model { input_shape: [3, 32, 32] } data { cifar { train: 'a' test: 'b' } }"),
            "model.input_shape: found [3,32,32], expected [32,32,3], an image of data.cifar");
  EXPECT_EQ(Faults("data { npy { train_inputs: 'a' train_labels: '/b' test_inputs: 'c' } }"),
            "data.npy.train_labels: found \"/b\", expected a path relative to the workers' "
            "--data_root\n"
            "data.npy.test_labels: found nothing, expected a path below the workers' --data_root");
  EXPECT_EQ(Faults("data { csv { train: 'a' test: 'b' } }"),
            "data.csv.label: found nothing, expected at least one column");
  for (const char* separator : {"ab", "\\n", "\\\""}) {
    EXPECT_THAT(Faults(kCsv, "data { csv { separator: \"" + std::string(separator) + "\" } }"),
                HasSubstr("data.csv.separator: found"));
  }
  EXPECT_THAT(Faults(kCsv, "model { block { layer { embedding {} } } }"),
              HasSubstr("data.csv.missing: found COLUMN_MEAN in front of an embedding"));
  EXPECT_THAT(Faults("data { libsvm { train: 'a' } }"), HasSubstr("data.libsvm.test: found"));
  EXPECT_EQ(Faults("data { synthetic { noise: -1 } }"),
            "data.synthetic.train_samples: found 0, expected 1 to 1099511627776\n"
            "data.synthetic.test_samples: found 0, expected 1 to 1099511627776\n"
            "data.synthetic.noise: found -1, expected a finite number >= 0");
}

TEST(DataCheckTest, ModelAndLossGoWithTheData) {
  EXPECT_EQ(Faults(kText, "loss { mean_squared_error {} }"),
            "loss: found mean_squared_error, expected token_cross_entropy (data.text has one "
            "label for each token)");
  EXPECT_EQ(Faults(kImages, "loss { binary_cross_entropy {} }"), "");
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
