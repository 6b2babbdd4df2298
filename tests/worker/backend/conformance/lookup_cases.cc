#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

using ::testing::HasSubstr;

struct LookupShape {
  int64_t tokens, vocabulary, width;
};

// All rows of small tables occur, the first and the last of large ones too.
std::vector<float> Tokens(const LookupShape& s) {
  std::vector<float> tokens;
  for (int64_t i = 0; i < s.tokens; ++i) {
    tokens.push_back(static_cast<float>((i * i + s.vocabulary - 1) % s.vocabulary));
  }
  return tokens;
}

void LooksUp(Backend* backend, const LookupShape& s) {
  const std::vector<float> tokens = Tokens(s);
  const std::vector<float> table = RandomFloats(s.vocabulary * s.width, 1);
  std::vector<float> expected;
  for (const float token : tokens) {
    for (int64_t j = 0; j < s.width; ++j) {
      expected.push_back(table[static_cast<size_t>(static_cast<int64_t>(token) * s.width + j)]);
    }
  }
  const DeviceMatrix table_device(backend, s.vocabulary, s.width, table);
  // However the tokens are laid out.
  for (const bool one_row : {false, true}) {
    const DeviceMatrix tokens_device(backend, one_row ? 1 : s.tokens, one_row ? s.tokens : 1,
                                     tokens);
    const DeviceMatrix out(backend, s.tokens, s.width);
    const absl::Status status =
        backend->Lookup(tokens_device.view(), table_device.view(), out.view());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out.Read(), expected);
  }
}

// In the order of the rows, so exact.
void AddsGradients(Backend* backend, const LookupShape& s) {
  const std::vector<float> tokens = Tokens(s);
  const std::vector<float> dy = RandomFloats(s.tokens * s.width, 1);
  std::vector<float> expected = RandomFloats(s.vocabulary * s.width, 2);
  const DeviceMatrix table_gradient(backend, s.vocabulary, s.width, expected);
  for (size_t i = 0; i < dy.size(); ++i) {
    const auto token = static_cast<int64_t>(tokens[i / static_cast<size_t>(s.width)]);
    expected[static_cast<size_t>(token * s.width) + i % static_cast<size_t>(s.width)] += dy[i];
  }
  const DeviceMatrix tokens_device(backend, s.tokens, 1, tokens);
  const DeviceMatrix dy_device(backend, s.tokens, s.width, dy);
  const absl::Status status =
      backend->LookupBackward(tokens_device.view(), dy_device.view(), table_gradient.view());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(table_gradient.Read(), expected);
}

// A backend may find it out at Synchronize.
absl::Status Finish(Backend* backend, const absl::Status& status) {
  return status.ok() ? backend->Synchronize() : status;
}

void ATokenOutsideIsAnError(Backend* backend, float token, const std::string& text) {
  const DeviceMatrix tokens(backend, 2, 2, {1, 2, token, -1});
  const DeviceMatrix table(backend, 3, 2, RandomFloats(6, 1));
  const DeviceMatrix out(backend, 4, 2);
  absl::Status status = Finish(backend, backend->Lookup(tokens.view(), table.view(), out.view()));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("lookup: token 2 is ", text, ", expected a whole number")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("below 3"));

  const std::vector<float> before = table.Read();
  status = Finish(backend, backend->LookupBackward(tokens.view(), out.view(), table.view()));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("lookup backward: token 2 is ", text)));
  if (backend->uses_host_memory()) {
    EXPECT_EQ(out.Read(), std::vector<float>(8, kUntouched));
    EXPECT_EQ(table.Read(), before);
  }
}

}  // namespace

std::vector<OpCase> LookupCases() {
  std::vector<OpCase> cases;
  const std::vector<LookupShape> shapes = {{0, 3, 4},   {4, 3, 0},    {1, 1, 1},      {7, 3, 5},
                                           {33, 7, 16}, {20, 65, 33}, {300, 1000, 96}};
  for (const LookupShape& s : shapes) {
    const std::string suffix = absl::StrCat("_", s.tokens, "of", s.vocabulary, "x", s.width);
    cases.push_back(
        {absl::StrCat("Lookup", suffix), [s](Backend* backend) { LooksUp(backend, s); }});
    cases.push_back({absl::StrCat("LookupBackward", suffix),
                     [s](Backend* backend) { AddsGradients(backend, s); }});
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<std::string, float>> outside = {
      {"3", 3.0f},       {"-1", -1.0f},       {"0.5", 0.5f},
      {"inf", infinity}, {"-inf", -infinity}, {"nan", std::numeric_limits<float>::quiet_NaN()}};
  int number = 0;
  for (const auto& [text, token] : outside) {
    cases.push_back({absl::StrCat("LookupATokenOutsideIsAnError_", number++),
                     [text = text, token = token](Backend* backend) {
                       ATokenOutsideIsAnError(backend, token, text);
                     }});
  }
  return cases;
}

}  // namespace sangam::testing
