#ifndef SANGAM_TESTS_COMMON_MODEL_MODEL_TEXT_H_
#define SANGAM_TESTS_COMMON_MODEL_MODEL_TEXT_H_

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"

namespace sangam::testing {

// The model that a text says.
inline v1::ModelSpec ModelFrom(const std::string& text) {
  v1::ModelSpec model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model;
}

// A small GPT: 8 positions, width 12, 3 heads, 50 tokens.
inline constexpr char kSmallGpt[] = R"(
  input_shape: 8
  block {
    name: "embed"
    layer { embedding { vocabulary: 50 width: 12 } }
    layer { position_embedding {} }
  }
  block { name: "first" layer { transformer { heads: 3 } } }
  block { name: "second" layer { transformer { heads: 3 dropout: 0.1 } } recompute: true }
  block { name: "head" layer { rms_norm {} } layer { tied_head { block: "embed" } } }
)";

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_COMMON_MODEL_MODEL_TEXT_H_
