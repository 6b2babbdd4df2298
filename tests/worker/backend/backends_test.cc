#include "worker/backend/backends.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "worker/backend/backend.h"
#include "worker/backend/precision.h"

namespace sangam {
namespace {

TEST(BackendsTest, MakesEveryBackendThatItNames) {
  ASSERT_FALSE(BackendNames().empty());
  for (const std::string& name : BackendNames()) {
    const auto backend = CreateBackend(name);
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->name(), name);
  }
}

TEST(BackendsTest, RowsStandAloneIsWhatTheBackendItselfSays) {
  for (const std::string& name : BackendNames()) {
    for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
      const auto backend = CreateBackend(name, precision);
      if (!backend.ok()) continue;
      EXPECT_EQ(RowsStandAlone(name, precision), (*backend)->rows_stand_alone()) << name;
    }
  }
  EXPECT_FALSE(RowsStandAlone("abacus", Precision::kFp32));
}

TEST(BackendsTest, UnknownNameListsTheKnownOnes) {
  const absl::Status status = CreateBackend("abacus").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "unknown backend \"abacus\", expected one of: cpu");
}

}  // namespace
}  // namespace sangam
