#include "client/job_file.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Error(const std::string& text, const std::string& name) {
  const auto spec = ParseJobFile(text, name);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(spec.status().message());
}

TEST(JobFileTest, ReadsTextFormatAndJsonAlike) {
  const auto text = ParseJobFile(R"(
      # a comment
      name: "a"
      model { input_shape: [28, 28] block { layer { relu {} } } }
      optimizer { learning_rate: 0.5 sgd {} }
      epochs: 2
      strategy: DATA_PARALLEL)",
                                 "job.textproto");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->model().input_shape_size(), 2);
  EXPECT_TRUE(text->optimizer().has_sgd());
  const std::string json = R"({
      "name": "a",
      "model": {"input_shape": [28, "28"], "block": [{"layer": [{"relu": {}}]}]},
      "optimizer": {"learningRate": 0.5, "sgd": {}},
      "epochs": "2",
      "strategy": "DATA_PARALLEL"})";
  for (const std::string name : {"job.json", "job"}) {
    const auto parsed = ParseJobFile(json, name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*text, *parsed));
  }
}

TEST(JobFileTest, UnknownFieldsNamePlaceAndClosestField) {
  EXPECT_EQ(
      Error("name: \"a\"\nepoch: 3\n", "job.textproto"),
      "job.textproto:2:6: Message type \"sangam.v1.JobSpec\" has no field named \"epoch\"; did "
      "you mean 'epochs'? (its fields: name, seed, model, loss, data, optimizer, batch, "
      "epochs, steps, evaluation, resources, strategy, consistency, pipeline, priority, "
      "checkpoint, resume_from, on_nonfinite, loss_alert, precision)");
  // Protobuf names the place behind the value.
  EXPECT_EQ(Error("name: \"a\"\nstrategy: HIBRID seed: 1", "f"),
            "f:2:18: Unknown enumeration value of \"HIBRID\" for field \"strategy\"; did you mean "
            "'HYBRID'? (its values: DATA_PARALLEL, MODEL_PARALLEL, HYBRID, AUTO)");
  EXPECT_THAT(Error("loss { softmax_cross_entropy { x: 1 } }", "f"),
              AllOf(StartsWith("f:1:"), HasSubstr("; it has no fields")));
}

TEST(JobFileTest, TextErrorsHaveLineAndColumn) {
  EXPECT_THAT(Error("name: \"a\"\nseed: x", "f"), StartsWith("f:2:7: "));
  EXPECT_THAT(Error("epochs: 1 epochs: 2", "f"), HasSubstr("f:1:"));
  EXPECT_THAT(Error("epochs: 1 steps: 2", "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error("seed: -1", "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error("seed: 18446744073709551616", "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error("model {", "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error("model }", "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error("name: \"open", "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error("strategy: NOPE", "f"), AllOf(StartsWith("f:1:"), HasSubstr("NOPE")));
  EXPECT_THAT(Error("\x01\x02\xff", "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error(std::string("name: \0", 7), "f"), StartsWith("f:1:"));
}

TEST(JobFileTest, DeepNestingIsAnErrorAndNoCrash) {
  std::string layers;
  std::string objects;
  for (int i = 0; i < 20'000; ++i) {
    layers += "residual { layer {";
    objects += "{\"residual\": {\"layer\": [";
  }
  EXPECT_THAT(Error("model { block { layer {" + layers, "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error("{\"model\": {\"block\": [{\"layer\": [" + objects, "f"),
              HasSubstr("found more than 64 objects and lists within one another"));
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "model {";
  EXPECT_THAT(Error(text, "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error(std::string(1'000'000, '{'), "f"), StartsWith("f:1:"));
  EXPECT_THAT(Error("{\"model\":" + std::string(1'000'000, '['), "f"), StartsWith("f:1:"));
}

TEST(JobFileTest, EmptyFilesAreErrors) {
  EXPECT_EQ(Error("", "f"), "f: the file is empty, expected a job's specification");
  EXPECT_EQ(Error(" \n\t", "f.json"), "f.json: the file is empty, expected a job's specification");
}

TEST(JobFileTest, JsonSyntaxErrorsHaveLineAndColumn) {
  EXPECT_THAT(Error("{\"name\": \"a\",\n \"seed\": }", "f.json"), StartsWith("f.json:2:10: "));
  EXPECT_THAT(Error("{", "f"), StartsWith("f:1:2: "));
  EXPECT_THAT(Error("{\"name\" 1}", "f"), StartsWith("f:1:9: "));
  EXPECT_THAT(Error("{'a': 1}", "f"), StartsWith("f:1:2: "));
  EXPECT_THAT(Error("{} {}", "f"), StartsWith("f:1:4: "));
  EXPECT_THAT(Error("name: 1", "f.json"), StartsWith("f.json:1:"));
}

TEST(JobFileTest, JsonFieldErrorsNameTheField) {
  EXPECT_THAT(
      Error("{\n  \"epoch\": 3}", "f.json"),
      StartsWith("f.json:2:3: found the field \"epoch\", which JobSpec has not; did you mean "
                 "'epochs'? (its fields: name, seed, "));
  EXPECT_THAT(Error(R"({"model": {"block": [{"layer": [{"relu": {}}, {"tahn": {}}]}]}})", "f"),
              StartsWith("f:1:48: found the field \"tahn\", which LayerSpec has not; did you mean "
                         "'tanh'?"));
  EXPECT_EQ(Error(R"({"epochs": 1, "seed": 2, "epochs": 3})", "f"),
            "f:1:26: found the field \"epochs\" a second time, expected it once");
  EXPECT_THAT(Error(R"({"optimizer": {"learningRate": 1, "learning_rate": 1}})", "f"),
              HasSubstr("a second time"));
  EXPECT_THAT(Error("{\"seed\": \"x\"}", "f.json"), HasSubstr("seed"));
  EXPECT_THAT(Error("{\"model\": 3}", "f.json"), HasSubstr("model"));
  EXPECT_THAT(Error("[1]", "f.json"), StartsWith("f.json: "));
}

TEST(JobFileTest, StringsMustBeUtf8) {
  EXPECT_EQ(Error("name: \"\\377\"", "f"), "f: field 'name' of JobSpec is not UTF-8 text");
  EXPECT_THAT(Error("model { block {} block { name: \"a\\300\\200\" } }", "f"),
              HasSubstr("field 'name' of BlockSpec"));
  const auto good = ParseJobFile("name: \"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"", "f");
  EXPECT_TRUE(good.ok()) << good.status();
}

TEST(JobFileTest, Utf8IsCheckedToTheLetter) {
  v1::JobSpec spec;
  for (const std::string bad :
       {"\x80", "\xc1\x81", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc3(", "a\xff"}) {
    spec.set_name(bad);
    EXPECT_FALSE(CheckUtf8(spec).ok()) << bad;
  }
  for (const std::string good :
       {"", "a", "\xc2\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    spec.set_name(good);
    EXPECT_TRUE(CheckUtf8(spec).ok()) << good;
  }
}

TEST(JobFileTest, ReadsFilesAndNamesThem) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/job_file_test.textproto");
  ASSERT_TRUE(WriteFileAtomically(path, "epochs: 7").ok());
  const auto spec = ReadJobFile(path);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->epochs(), 7u);
  EXPECT_EQ(ReadJobFile(path + ".missing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(ReadJobFile(::testing::TempDir()).ok());
}

}  // namespace
}  // namespace sangam
