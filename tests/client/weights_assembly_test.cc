#include "client/weights_assembly.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kJob = 7;

// Two blocks: one with a weight [2, 3] and a bias [2], one with a bias [4].
v1::ModelLayout Layout() {
  v1::ModelLayout layout;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        block { name: "hidden" segment: 0 }
        block { name: "relu" segment: -1 }
        block { name: "classes" segment: 1 }
        segment {
          block: 0
          element_count: 8
          parameter {
            name: "hidden.0.weight"
            shape: [ 2, 3 ]
            offset: 0
            element_count: 6
          }
          parameter { name: "hidden.0.bias" shape: 2 offset: 6 element_count: 2 }
        }
        segment {
          block: 2
          element_count: 4
          parameter { name: "classes.0.bias" shape: 4 offset: 0 element_count: 4 }
        }
      )pb",
      &layout));
  return layout;
}

std::string Floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

v1::TensorFrame Page(uint32_t segment, uint64_t first, const std::vector<float>& values) {
  v1::TensorFrame frame;
  v1::FrameHeader& header = *frame.mutable_header();
  header.set_job(kJob);
  header.set_step(20);
  header.set_segment(segment);
  header.set_first_element(first);
  header.set_element_count(values.size());
  header.set_encoding(v1::ENCODING_FP32);
  header.set_kind(v1::FRAME_KIND_WEIGHTS);
  frame.set_payload(Floats(values));
  return frame;
}

WeightsAssembly Assembly() {
  auto assembly = WeightsAssembly::Create(kJob, Layout());
  EXPECT_TRUE(assembly.ok()) << assembly.status();
  return *std::move(assembly);
}

std::string Error(WeightsAssembly* assembly, const v1::TensorFrame& frame) {
  const absl::Status status = assembly->Add(frame, "b:2");
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(WeightsAssemblyTest, PutsPagesTogetherInAnyOrder) {
  WeightsAssembly assembly = Assembly();
  EXPECT_EQ(assembly.step(), std::nullopt);
  EXPECT_TRUE(assembly.Add(Page(1, 2, {12, 13}), "a:1").ok());
  EXPECT_TRUE(assembly.Add(Page(0, 4, {4, 5, 6, 7}), "b:2").ok());
  EXPECT_TRUE(assembly.Add(Page(0, 0, {0, 1, 2, 3}), "a:1").ok());
  EXPECT_TRUE(assembly.Add(Page(1, 0, {10, 11}), "b:2").ok());
  ASSERT_TRUE(assembly.CheckComplete().ok()) << assembly.CheckComplete();
  EXPECT_EQ(assembly.step(), 20u);
  const std::vector<TensorView> tensors = assembly.Tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "hidden.0.weight");
  EXPECT_EQ(tensors[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(tensors[0].bytes, Floats({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tensors[1].bytes, Floats({6, 7}));
  EXPECT_EQ(tensors[2].bytes, Floats({10, 11, 12, 13}));
}

TEST(WeightsAssemblyTest, NamesWhatIsMissing) {
  WeightsAssembly assembly = Assembly();
  EXPECT_EQ(std::string(assembly.CheckComplete().message()),
            "no server sent elements [0, 8) of segment 0 (block 'hidden'), nor elements [0, 4) of "
            "segment 1 (block 'classes')");
  EXPECT_TRUE(assembly.Add(Page(0, 0, {0, 1}), "a:1").ok());
  EXPECT_TRUE(assembly.Add(Page(0, 6, {6, 7}), "a:1").ok());
  EXPECT_TRUE(assembly.Add(Page(1, 0, {0, 1, 2, 3}), "a:1").ok());
  const absl::Status status = assembly.CheckComplete();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()),
            "no server sent elements [2, 6) of segment 0 (block 'hidden')");
}

TEST(WeightsAssemblyTest, EveryElementComesOnce) {
  WeightsAssembly assembly = Assembly();
  EXPECT_TRUE(assembly.Add(Page(0, 2, {2, 3, 4}), "a:1").ok());
  for (const v1::TensorFrame& frame :
       {Page(0, 2, {2, 3, 4}), Page(0, 0, {0, 1, 2}), Page(0, 4, {4, 5}), Page(0, 3, {3}),
        Page(0, 0, {0, 1, 2, 3, 4, 5, 6, 7})}) {
    EXPECT_THAT(Error(&assembly, frame), HasSubstr("have come twice"));
  }
  EXPECT_TRUE(assembly.Add(Page(0, 0, {0, 1}), "a:1").ok());
  EXPECT_TRUE(assembly.Add(Page(0, 5, {5, 6, 7}), "a:1").ok());
}

TEST(WeightsAssemblyTest, AllPagesAreOfOneStep) {
  WeightsAssembly assembly = Assembly();
  EXPECT_TRUE(assembly.Add(Page(0, 0, {0, 1}), "a:1").ok());
  v1::TensorFrame frame = Page(1, 0, {0, 1});
  frame.mutable_header()->set_step(21);
  const absl::Status status = assembly.Add(frame, "b:2");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("20 from a:1, 21 from b:2"));
}

TEST(WeightsAssemblyTest, FramesAreChecked) {
  WeightsAssembly assembly = Assembly();
  const v1::TensorFrame good = Page(0, 0, {1, 2});
  v1::TensorFrame frame = good;
  frame.mutable_header()->set_kind(v1::FRAME_KIND_GRADIENT);
  EXPECT_THAT(Error(&assembly, frame), HasSubstr("from b:2: frame's kind: found 3"));
  frame = good;
  frame.mutable_header()->set_encoding(v1::ENCODING_UNSPECIFIED);
  EXPECT_THAT(Error(&assembly, frame), HasSubstr("frame's encoding"));
  frame = good;
  frame.mutable_header()->set_job(8);
  EXPECT_THAT(Error(&assembly, frame), HasSubstr("frame's job: found 8, expected 7"));
  frame = good;
  frame.mutable_header()->set_segment(2);
  EXPECT_THAT(Error(&assembly, frame), HasSubstr("frame's segment: found 2, expected one of 2"));
  frame = good;
  frame.mutable_payload()->pop_back();
  EXPECT_THAT(Error(&assembly, frame), HasSubstr("found 7 bytes, expected 8"));
  frame = v1::TensorFrame();
  EXPECT_FALSE(assembly.Add(frame, "b:2").ok());
  // A refused frame leaves no trace.
  EXPECT_TRUE(assembly.Add(good, "a:1").ok());
}

TEST(WeightsAssemblyTest, RangesAreChecked) {
  WeightsAssembly assembly = Assembly();
  EXPECT_THAT(Error(&assembly, Page(0, 7, {7, 8})), HasSubstr("2 elements from 7"));
  EXPECT_THAT(Error(&assembly, Page(0, 0, {})), HasSubstr("at least one"));
  v1::TensorFrame frame = Page(0, 0, {1, 2});
  frame.mutable_header()->set_first_element(~uint64_t{0});
  EXPECT_THAT(Error(&assembly, frame), HasSubstr("frame's range"));
  frame.mutable_header()->set_first_element(0);
  frame.mutable_header()->set_element_count(~uint64_t{0} / 4 + 3);
  EXPECT_THAT(Error(&assembly, frame), HasSubstr("frame's range"));
}

TEST(WeightsAssemblyTest, ContradictoryLayoutsAreRefused) {
  const auto refuse = [](const v1::ModelLayout& layout) {
    const auto assembly = WeightsAssembly::Create(kJob, layout);
    EXPECT_EQ(assembly.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(assembly.status().message());
  };
  v1::ModelLayout layout = Layout();
  layout.mutable_segment(0)->mutable_parameter(1)->set_offset(7);
  EXPECT_THAT(refuse(layout), HasSubstr("segment 0: parameter 'hidden.0.bias': found offset 7"));
  layout = Layout();
  layout.mutable_segment(0)->mutable_parameter(0)->set_shape(0, 5);
  EXPECT_THAT(refuse(layout), HasSubstr("found 6 elements, expected 15 for its shape"));
  layout = Layout();
  layout.mutable_segment(1)->set_element_count(5);
  EXPECT_THAT(refuse(layout), HasSubstr("segment 1: found 5 elements, expected 4"));
  layout = Layout();
  layout.mutable_segment(0)->mutable_parameter(0)->set_shape(0, ~uint64_t{0});
  EXPECT_THAT(refuse(layout), HasSubstr("too large"));
}

TEST(WeightsAssemblyTest, AModelWithoutParametersIsCompleteAtOnce) {
  const auto assembly = WeightsAssembly::Create(kJob, v1::ModelLayout());
  ASSERT_TRUE(assembly.ok());
  EXPECT_TRUE(assembly->CheckComplete().ok());
  EXPECT_TRUE(assembly->Tensors().empty());
}

}  // namespace
}  // namespace sangam
